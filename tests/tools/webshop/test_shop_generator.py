"""Our own shop: its size, its near-duplicates, and that the shipped files are what it gives."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.envs.webshop import WebShop, WebShopOptions
from ldm.envs.webshop.environment import OWN_DATA
from ldm.errors import LdmError
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tools.webshop.expert import key_words, solve
from tools.webshop.product_types import DEPARTMENTS, TRAIT_PHRASES
from tools.webshop.shop_generator import FAMILIES, Shop, files, generate, with_nouns

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


def test_another_seed_makes_another_shop(shop: Shop) -> None:
    other = generate(seed=1)
    assert {i["asin"] for i in other.items}.isdisjoint(i["asin"] for i in shop.items)


def test_a_product_says_the_attributes_that_it_has_and_no_others(shop: Shop) -> None:
    types = {one.query: one for department in DEPARTMENTS for one in department.product_types}
    for item in shop.items:
        text = " ".join([item["name"], item["full_description"], *item["small_description"]])
        attributes = shop.attributes[item["asin"]]["attributes"]
        assert all(trait in text.lower() for trait in attributes), item["name"]
        others = set(types[item["query"]].traits) - set(attributes)
        assert not any(trait in text.lower() for trait in others), item["name"]


def test_every_attribute_is_said_in_words_that_hold_it() -> None:
    types = [one for department in DEPARTMENTS for one in department.product_types]
    traits = {trait for one in types for trait in one.traits}
    assert traits <= TRAIT_PHRASES.keys()
    assert all(trait in text.lower() for trait, texts in TRAIT_PHRASES.items() for text in texts)


def test_products_have_near_duplicates(shop: Shop) -> None:
    """Of each kind there are families whose members have one query, and nearly one price."""
    kinds = Counter(item["query"] for item in shop.items)
    assert set(kinds.values()) == {sum(FAMILIES)}
    brands: Counter[tuple[str, str]] = Counter()
    for item in shop.items:
        words = set(item["name"].replace(",", "").split())
        brands.update((item["query"], word) for word in words)
    assert all(any(brands[q, word] >= 3 for q, word in brands if q == query) for query in kinds)


def test_goals_ask_for_what_their_product_has(shop: Shop) -> None:
    by_asin = {item["asin"]: item for item in shop.items}
    for asin, (goal,) in shop.instructions.items():
        options = by_asin[asin]["customization_options"]
        offered = {entry["value"] for values in options.values() for entry in values}
        assert set(goal["instruction_options"]) <= offered
        assert set(goal["instruction_attributes"]) <= set(shop.attributes[asin]["attributes"])
        for request in (*goal["instruction_options"], *goal["instruction_attributes"]):
            assert request in goal["instruction"], goal["instruction"]


@pytest.mark.parametrize("goals", ["synthetic", "human"])
def test_the_splits_share_no_product(goals: Any) -> None:
    env = WebShop(WebShopOptions(goals=goals))
    test, train = ({t.source for t in env.tasks(f"demo_{name}")} for name in ("test", "train"))
    assert test.isdisjoint(train)
    assert len(env.tasks("demo_test")) == 100
    assert len(env.tasks("demo_test")) + len(env.tasks("demo_train")) >= 400


def test_the_shipped_sessions_are_the_experts(env: WebShop, sessions: list[Trajectory]) -> None:
    by_id = {task.id: task for task in env.tasks("demo_train")}
    for session in sessions[::20]:
        assert solve(env, by_id[session.task.id], seed=SEED) == session


def test_no_session_shows_a_reward(sessions: list[Trajectory]) -> None:
    for session in sessions:
        assert all(step.reward == 0.0 for step in session.steps[:-1])
        assert session.steps[-1].observation == ""
        assert not any("score" in s.observation.lower() for s in session.steps)


def test_key_words_leave_out_how_one_asks() -> None:
    request = "i am looking for a set of towels in size large, and price lower than 40.00 dollars"
    assert key_words(request) == ["towel", "large"]


def test_the_expert_refuses_pages_that_it_cannot_read(tmp_path: Path) -> None:
    env = WebShop(WebShopOptions(observation="text"))
    with pytest.raises(LdmError, match="brackets"):
        solve(env, env.tasks("demo_train")[0], seed=SEED)
