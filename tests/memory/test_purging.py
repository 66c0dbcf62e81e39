"""Purging removes tuples from the disk, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, build, generations, hide, inspect, record
from ldm.memory.changes import purge
from ldm.memory.growing import GrowingMemory
from ldm.memory.log import EpisodeLog
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.stored import content_of
from tests.toy import expert_trajectories


def one_trajectory(place: str) -> tuple[str, list[str]]:
    """The id of a trajectory, and those of its tuples."""
    rows = inspect(place, "toy").rows
    name = rows[0].tuple.trajectory_id
    return name, [row.tuple.id for row in rows if row.tuple.trajectory_id == name]


def test_it_leaves_no_trace_on_the_disk(copy: str) -> None:
    before = inspect(copy, "toy").rows
    trajectory, ids = one_trajectory(copy)
    Path(copy, "calls").mkdir()
    Path(copy, "calls", "llm.jsonl").write_text(trajectory)
    assert trajectory.encode() in content_of(copy)
    purge(copy, "toy", ids)
    assert trajectory.encode() not in content_of(copy)
    left = [row.tuple.id for row in inspect(copy, "toy").rows]
    assert left == [row.tuple.id for row in before if row.tuple.id not in ids]
    assert len(Memory.open(copy, "toy", embedder=BagOfWords()).retrieve("put", "fig")) == 5
    assert verify(copy, "toy", BagOfWords()) == []


def test_texts_vectors_and_words_of_types_that_nothing_else_uses_are_gone(copy: str) -> None:
    secret = "Jane Roe of Zanzibar wants her zither back"
    (one, *_) = expert_trajectories()
    steps = [replace(step, observation=f"{secret} {n}") for n, step in enumerate(one.steps)]
    task = replace(one.task, id="train/secret", goal=secret, kind="fetch", source="")
    private = replace(one, task=task, opening=f"{secret}.", steps=tuple(steps))
    build(copy, [private], BagOfWords(), OfflineReasoner)
    vector = BagOfWords().embed([secret]).tobytes()
    assert vector in content_of(copy)
    ids = [r.tuple.id for r in inspect(copy, "toy").rows if r.tuple.trajectory_id == private.id]
    assert len(generations(copy, "toy")) == 2
    purge(copy, "toy", ids)
    left = content_of(copy)
    assert vector not in left
    for word in (secret, "Zanzibar", "zanzibar", "zither", private.id, "train/secret"):
        assert word.encode() not in left


def test_a_server_and_forgetting_everything_are_refused(copy: str) -> None:
    ids = list(inspect(copy, "toy").rows.ids)
    for location in ("http://localhost:8000", copy):
        with pytest.raises(MemoryStoreError, match=r"is a server|without any tuple"):
            purge(location, "toy", ids)
    assert len(inspect(copy, "toy").rows) == len(ids)


def test_nor_in_the_settings_of_a_generation_that_forgot_them(copy: str) -> None:
    base = inspect(copy, "toy")
    trajectory, ids = one_trajectory(copy)
    others = [row.tuple.id for row in base.rows if row.tuple.id not in ids]
    settings = {"trajectories": trajectory}
    forgotten = hide(copy, base.generation, ids, settings=settings, origin="forgotten")
    later = {"trajectories": "another"}
    hide(copy, forgotten, others[:1], settings=later, origin="forgotten")
    purge(copy, "toy", ids)
    assert trajectory.encode() not in content_of(copy)
    assert generations(copy, "toy")[-1].settings == later


def test_it_empties_types_and_removes_batches_that_held_nothing_else(copy: str) -> None:
    before = inspect(copy, "toy")
    cell = before.rows[0].cell
    purge(copy, "toy", [row.tuple.id for row in before.rows if row.cell == cell])
    assert cell not in {row.cell for row in inspect(copy, "toy").rows}
    memory = Memory.open(copy, "toy", embedder=BagOfWords())
    first = before.rows[0].tuple
    assert len(memory.retrieve(first.goal, first.observation)) == 5
    batch = before.batches[0].id
    purge(copy, "toy", [r.tuple.id for r in inspect(copy, "toy").rows if r.batch == batch])
    assert batch not in {b.id for b in inspect(copy, "toy").batches}
    assert verify(copy, "toy") == []


def test_it_reaches_all_generations(copy: str) -> None:
    contents = inspect(copy, "toy")
    first, second = (contents.rows[i].tuple.id for i in (0, 1))
    hide(copy, contents.generation, [first, second], settings={})
    purge(copy, "toy", [first])
    present = generations(copy, "toy")
    assert present[-1].hidden == (second,)
    for generation in present:
        ids = inspect(copy, "toy", generation.number).rows.ids
        assert first not in ids
        assert second in ids


def test_an_interrupted_one_is_complete_or_absent_and_completed_by_the_next(
    copy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GrowingMemory.open(copy, "toy", embedder=BagOfWords()) as memory:
        memory.add(replace(expert_trajectories("test")[0]))
    trajectory, ids = one_trajectory(copy)
    before = {*inspect(copy, "toy").rows.ids}

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    for owner, name in ((EpisodeLog, "keep"), (record, "commit"), (record, "_arrays_of")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, stopped)
            with pytest.raises(KeyboardInterrupt):
                purge(copy, "toy", ids)
        assert {*inspect(copy, "toy").rows.ids} == before
        assert EpisodeLog(record.folder_of(copy, "toy")).read()[0]
    purge(copy, "toy", ids)
    assert {*inspect(copy, "toy").rows.ids} == before - {*ids}
    assert trajectory.encode() not in content_of(copy)
    assert verify(copy, "toy") == []
