"""Purging removes tuples from the disk, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ldm.memory.access import reading

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, generations, hide, inspect, purging, snapshot
from ldm.memory.purging import purge
from tests.embedder import BagOfWords


@pytest.fixture
def place(toy: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(toy, tmp_path / "memory"))


def content_of(place: str) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(Path(place).rglob("*")) if p.is_file())


def one_trajectory(place: str) -> tuple[str, list[str]]:
    """The id of a trajectory, and those of its tuples."""
    rows = inspect(place, "toy").rows
    name = rows[0].tuple.trajectory_id
    return name, [row.tuple.id for row in rows if row.tuple.trajectory_id == name]


@pytest.mark.slow
def test_it_leaves_no_trace_on_the_disk(place: str) -> None:
    before = inspect(place, "toy").rows
    trajectory, ids = one_trajectory(place)
    (Path(place) / "calls").mkdir()
    (Path(place) / "calls" / "llm.jsonl").write_text(trajectory)
    assert trajectory.encode() in content_of(place)
    purge(place, "toy", ids)
    assert trajectory.encode() not in content_of(place)
    left = [row.tuple.id for row in inspect(place, "toy").rows]
    assert left == [row.tuple.id for row in before if row.tuple.id not in ids]
    assert len(Memory.open(place, "toy", embedder=BagOfWords()).retrieve("put", "fig")) == 5


def test_a_server_and_forgetting_everything_are_refused(place: str) -> None:
    ids = list(inspect(place, "toy").rows.columns.ids)
    for location in ("http://localhost:8000", place):
        with pytest.raises(MemoryStoreError, match=r"is a server|without any tuple"):
            purge(location, "toy", ids)
    assert len(inspect(place, "toy").rows) == len(ids)


@pytest.mark.slow
def test_nor_in_the_settings_of_a_generation_that_forgot_them(place: str) -> None:
    base = inspect(place, "toy")
    trajectory, ids = one_trajectory(place)
    others = [row.tuple.id for row in base.rows if row.tuple.id not in ids]
    settings = {"trajectories": trajectory}
    forgotten = hide(place, base.generation, ids, settings=settings, origin="forgotten")
    later = {"trajectories": "another"}
    hide(place, forgotten, others[:1], settings=later, origin="forgotten")
    purge(place, "toy", ids)
    assert trajectory.encode() not in content_of(place)
    assert generations(place, "toy")[-1].settings == later


@pytest.mark.slow
def test_it_removes_types_and_batches_that_held_nothing_else(place: str) -> None:
    def types() -> int:
        batches = inspect(place, "toy").batches
        return sum(len(g.observation_types) for b in batches for g in b.goal_types)

    before, count = inspect(place, "toy"), types()
    cell = before.rows[0].cell
    purge(place, "toy", [row.tuple.id for row in before.rows if row.cell == cell])
    assert types() == count - 1
    batch = before.batches[0].id
    purge(place, "toy", [r.tuple.id for r in inspect(place, "toy").rows if r.batch == batch])
    after = inspect(place, "toy")
    assert batch not in {b.id for b in after.batches}
    with reading(place) as store:
        assert store.load("toy").rows == after.rows


def test_it_reaches_all_generations(place: str) -> None:
    contents = inspect(place, "toy")
    first, second = (contents.rows[i].tuple.id for i in (0, 1))
    hide(place, contents.generation, [first, second], settings={})
    purge(place, "toy", [first])
    present = generations(place, "toy")
    assert present[-1].hidden == (second,)
    for generation in present:
        with reading(place) as store:
            ids = store.load("toy", generation.number).rows.columns.ids
        assert first not in ids
        assert second in ids


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["_write", "_replace"])
def test_an_interrupted_one_changes_nothing(
    stage: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tuple(inspect(place, "toy").rows)
    _, ids = one_trajectory(place)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(purging, stage, stopped)
        with pytest.raises(KeyboardInterrupt):
            purge(place, "toy", ids)
    with reading(place) as store:
        assert store.load("toy").rows == before
    purge(place, "toy", ids)
    assert not (Path(place) / purging.NEW).exists()


def test_a_database_that_holds_something_else_does_not_take_its_place(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tuple(inspect(place, "toy").rows)
    monkeypatch.setattr(purging, "_same_vectors", lambda *_: False)
    with pytest.raises(MemoryStoreError, match="differs from what was written"):
        purge(place, "toy", one_trajectory(place)[1])
    assert inspect(place, "toy").rows == before


@pytest.mark.slow
def test_remains_of_a_killed_one_are_removed_by_the_next_opening(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trajectory, ids = one_trajectory(place)
    publish = snapshot.publish

    def killed(location: str, *rest: Any) -> None:
        if location == place:
            raise KeyboardInterrupt
        publish(location, *rest)

    with monkeypatch.context() as patched:  # killed once the new database is in its place
        patched.setattr(snapshot, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            purge(place, "toy", ids)
    assert trajectory.encode() in content_of(place)  # in the previous snapshot
    assert not {*ids} & {*inspect(place, "toy").rows.columns.ids}
    assert trajectory.encode() not in content_of(place)
