"""Where tasks are worked on, as far as no cluster is needed; tests/integration/test_ray.py has one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import LdmError
from ldm.ray_backend import RayCluster
from ldm.runs import Manifest, create, run_items
from tests.cli.conftest import Run, place, run
from tests.integration.crash import evaluation
from tests.test_runs import ITEMS, SQUARES, Square, Squarer, values

__all__ = ["place", "run"]


@dataclass
class Elsewhere:
    """A cluster that is none: it works here, from the last item to the first."""

    workers: list[int] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)

    def map(
        self, build: Any, items: Sequence[Any], *, workers: int, on_result: Callable[[Any], None]
    ) -> None:
        self.workers.append(workers)
        work = build()
        for item in reversed(items):
            self.items.append(item)
            on_result(work(item))


def test_what_a_cluster_returns_is_recorded_here_and_not_worked_on_again(tmp_path: Path) -> None:
    recorded = create(tmp_path / "runs", ("toy",), Manifest("eval", {}, {}))
    cluster = Elsewhere()
    run_items(recorded, Squarer(), ITEMS[:4], Square, workers=3, backend=cluster)
    assert len(recorded.recorded(Square)) == 4
    assert [path.read_text().count("\n") for path in recorded.parts.iterdir()] == [4]
    assert (
        values(run_items(recorded, Squarer(), ITEMS, Square, workers=3, backend=cluster)) == SQUARES
    )
    assert sorted(cluster.items) == ITEMS
    assert cluster.workers == [3, 3]


def test_without_ray_the_remedy_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for variable in ("RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(variable, "0")
    with pytest.raises(LdmError, match="not installed") as caught:
        RayCluster("127.0.0.1:1").map(Squarer(), ITEMS, workers=2, on_result=values)
    assert "ldm-memory[ray]" in caught.value.remedy


def test_no_item_needs_no_cluster() -> None:
    RayCluster("127.0.0.1:1").map(Squarer(), [], workers=2, on_result=lambda _: None)


TOY = ("eval", "--env", "tests.toy:ToyEnv", "--set", "env.tasks=6")


@pytest.mark.parametrize("backend", ["processes", "ray"])
def test_what_calls_a_model_stays_in_the_process_of_its_client(
    backend: str, run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    outcome = run(*TOY, "--agent", "react", "--llm", "any", "--backend", backend)
    assert outcome.code == 1
    assert f"--backend {backend}" in outcome.err
    assert "threads" in outcome.err
    assert not list(place.glob("runs/*"))


def test_threads_without_a_model_play_the_same(run: Run, place: Path) -> None:
    for folder, *where in (("one", "--workers", "1"), ("two", "--backend", "threads")):
        outcome = run(*TOY, "--agent", "random", "--runs", place / folder, *where)
        assert outcome.code == 0, outcome.err
    assert evaluation().digest(place / "one") == evaluation().digest(place / "two")
