"""Our own shop: its size, its near-duplicates, and that the shipped files are what it gives."""

import gzip
import json
from typing import Any

import pytest

from ldm import records
from ldm.envs.webshop import WebShop
from ldm.envs.webshop.environment import OWN_DATA
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tools.webshop.expert import solve
from tools.webshop.shop_generator import Shop, files, generate, with_nouns

SEED = 2312_08402
SESSIONS = CHECKOUT / "data/trajectories/webshop/demo_train.jsonl.gz"


@pytest.fixture(scope="module")
def shop() -> Shop:
    return generate(seed=SEED)


@pytest.fixture(scope="module")
def env() -> WebShop:
    return WebShop()


@pytest.fixture(scope="module")
def sessions() -> list[Trajectory]:
    return records.read(SESSIONS, Trajectory)


def unpacked(name: str) -> Any:
    return json.loads(gzip.decompress((OWN_DATA / name).read_bytes()))


def test_the_shipped_files_are_those_that_the_generator_makes(shop: Shop) -> None:
    nouns = {item["name"]: item["title_nouns"] for item in unpacked("items_shuffle.json.gz")}
    contents = files(with_nouns(shop, nouns))
    assert contents == {name: (OWN_DATA / name).read_bytes() for name in contents}
    assert sum(map(len, contents.values())) < 300_000
    assert all(nouns.values())


def test_the_shipped_sessions_are_the_experts(env: WebShop, sessions: list[Trajectory]) -> None:
    by_id = {task.id: task for task in env.tasks("demo_train")}
    for session in sessions[::20]:
        assert solve(env, by_id[session.task.id], seed=SEED) == session
