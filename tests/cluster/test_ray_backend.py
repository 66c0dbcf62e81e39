"""Where tasks are worked on, as far as no cluster is needed: tests/integration/test_ray.py."""

import pickle
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ldm.cluster import RayCluster
from ldm.config import Evaluate, Section
from ldm.embed import load_embedder
from ldm.episode import Agent, Environment, run_episode
from ldm.errors import LdmError
from ldm.memory import build
from ldm.reason.offline import OfflineReasoner
from ldm.run import builders
from ldm.run.builders import PlayerBuilder
from tests.cli.conftest import run
from tests.integration.crash import evaluation
from tests.run.test_engine import ITEMS, Squarer, SquareWorker
from tests.toy import expert_trajectories

#: Builds a worker.
SQUARES = partial(SquareWorker, Squarer())


def test_without_ray_the_remedy_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for variable in ("RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(variable, "0")
    with pytest.raises(LdmError, match="not installed") as caught:
        RayCluster("127.0.0.1:1").map(SQUARES, ITEMS, workers=2, on_result=lambda _: None)
    assert "ldm-memory[ray]" in caught.value.remedy


def test_no_item_needs_no_cluster() -> None:
    RayCluster("127.0.0.1:1").map(SQUARES, [], workers=2, on_result=lambda _: None)


TOY = ("eval", "--env", "tests.toy:ToyEnv", "--env.tasks", "6")


@pytest.mark.parametrize("backend", ["processes", "ray"])
def test_what_calls_a_model_stays_in_the_process_of_its_client(
    backend: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    run(*TOY, "--agent", "react", "--llm", "any", "--backend", backend).refused(
        f"--backend {backend}", "threads"
    )
    assert not list(place.glob("runs/*"))


def test_threads_without_a_model_play_the_same(place: Path) -> None:
    for folder, *where in (("one", "--workers", "1"), ("two", "--backend", "threads")):
        run(*TOY, "--agent", "random", "--runs", place / folder, *where).done()
    assert evaluation().digest(place / "one") == evaluation().digest(place / "two")


def test_a_machine_without_the_memory_gets_it_with_the_builder(tmp_path: Path) -> None:
    embedder = load_embedder()
    build(str(tmp_path / "memory"), expert_trajectories(), embedder, OfflineReasoner)
    env = Section("tests.toy:ToyEnv", (("tasks", 6),))
    spec = Evaluate(env, "test", memory=str(tmp_path / "memory"))
    builder = PlayerBuilder(spec)
    sent = pickle.dumps(builder.carrying())

    def episodes(built: tuple[Environment, Agent]) -> list[Any]:
        env, agent = built
        outcomes = [run_episode(env, agent, task) for task in env.tasks("test")]
        return [(replace(result, seconds=0.0), trials) for result, trials in outcomes]

    expected = episodes(builder())
    shutil.rmtree(tmp_path / "memory")
    builders._LOADED.clear()
    received: PlayerBuilder = pickle.loads(sent)
    assert episodes(received()) == expected
    assert any(step.recalls for _, trials in expected for one in trials for step in one.steps)
