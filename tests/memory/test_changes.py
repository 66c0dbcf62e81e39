"""Generations hide, add and go back, each stays what it was, and purging reaches the disk."""

from dataclasses import replace
from pathlib import Path

import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, build, extend, generations, hide, inspect, record, rollback
from ldm.memory.changes import purge
from ldm.memory.growing import GrowingMemory
from ldm.memory.log import EpisodeLog
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.stored import content_of
from tests.toy import ToyOptions, expert_trajectories


def opened(copy: str, generation: int | None = None) -> Memory:
    return Memory.open(copy, "toy", embedder=BagOfWords(), generation=generation)


def recalled(memory: Memory) -> list[str]:
    recalls = memory.retrieve("put the fig in the basket", "You hold the fig.", 5)
    return [recall.id for recall in recalls]


def test_what_a_generation_hides_is_not_recalled_until_it_is_rolled_back(copy: str) -> None:
    before = opened(copy)
    first, *rest = recalled(before)
    generation = hide(copy, before.record, [first], settings={"why": "test"})
    assert (generation.number, generation.origin, generation.hidden) == (1, "pruned", (first,))
    assert generation.digest != before.record.digest
    pruned = opened(copy)
    assert ([*pruned.rows], pruned.record.recallable) == ([*before.rows], len(before) - 1)
    assert recalled(pruned) == recalled(before.without([first]))
    assert first not in {recall.id for recall in pruned.sample(len(before), 0)}
    assert recalled(opened(copy, 0)) == [first, *rest]
    rollback(copy, "toy", 0)
    assert recalled(opened(copy)) == [first, *rest]


def test_later_generations_inherit_it(copy: str) -> None:
    before = opened(copy)
    first, second, *_ = recalled(before)
    once = hide(copy, before.record, [first], settings={})
    row = next(row for row in before.rows if row.tuple.id == first)
    new = replace(row, tuple=replace(row.tuple, trajectory_id="t", generation=2))
    extended = extend(copy, once, [row, new], BagOfWords(), tasks=[], settings={})
    assert (extended.tuples, extended.hidden) == (once.tuples + 1, (first,))
    more = expert_trajectories(options=ToyOptions(tasks=16))
    assert build(copy, more, BagOfWords(), OfflineReasoner).generation.hidden == (first,)
    twice = hide(copy, generations(copy, "toy")[-1], [second], settings={})
    assert twice.hidden == tuple(sorted([first, second]))
    assert not {first, second} & set(recalled(opened(copy)))


def test_again_changes_nothing_and_nonsense_or_all_of_them_are_refused(copy: str) -> None:
    base = generations(copy, "toy")[0]
    everything = [row.tuple.id for row in inspect(copy, "toy").rows]
    one = min(everything)
    for tuples in (["nonsense"], everything):
        with pytest.raises(MemoryStoreError, match=r"does not hold all|without any tuple"):
            hide(copy, base, tuples, settings={})
    assert hide(copy, base, [one], settings={}) == hide(copy, base, [one], settings={})
    assert len(generations(copy, "toy")) == 2
    with pytest.raises(MemoryStoreError, match="its newest generation is 1, not 0"):
        hide(copy, base, [one], settings={"other": "1"})


def test_a_rollback_goes_forward_too_until_something_is_written(copy: str) -> None:
    for one in sorted(inspect(copy, "toy").rows.ids)[:2]:
        hide(copy, generations(copy, "toy")[-1], [one], settings={})
    first, second, third = generations(copy, "toy")
    for number, present in ((0, 3), (1, 1), (2, 2), (0, 3), (2, 1), (1, 3)):
        assert len(rollback(copy, "toy", number)) == present
        assert generations(copy, "toy") == (first, second, third)[: number + 1]
        assert inspect(copy, "toy").generation == (first, second, third)[number]
    ids = [min(inspect(copy, "toy").recallable.ids)]
    later = hide(copy, second, ids, settings={})
    assert generations(copy, "toy") == (first, second, later)
    rollback(copy, "toy", 0)
    rollback(copy, "toy", 2)
    assert generations(copy, "toy") == (first, second, later)
    with pytest.raises(MemoryStoreError, match="no generation 3") as refused:
        rollback(copy, "toy", 3)
    assert "0, 1, 2" in refused.value.remedy


def one_trajectory(place: str) -> tuple[str, list[str]]:
    """The id of a trajectory, and those of its tuples."""
    rows = inspect(place, "toy").rows
    name = rows[0].tuple.trajectory_id
    return name, [row.tuple.id for row in rows if row.tuple.trajectory_id == name]


def test_purging_leaves_no_trace_on_the_disk(copy: str) -> None:
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


def test_purged_texts_vectors_and_words_of_types_that_nothing_else_uses_are_gone(copy: str) -> None:
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


def test_to_purge_a_server_or_everything_is_refused(copy: str) -> None:
    ids = list(inspect(copy, "toy").rows.ids)
    for location in ("http://localhost:8000", copy):
        with pytest.raises(MemoryStoreError, match=r"is a server|without any tuple"):
            purge(location, "toy", ids)
    assert len(inspect(copy, "toy").rows) == len(ids)


def test_purging_reaches_the_settings_of_a_generation_that_forgot_them(copy: str) -> None:
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


def test_purging_empties_types_and_removes_batches_that_held_nothing_else(copy: str) -> None:
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


def test_purging_reaches_all_generations(copy: str) -> None:
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


def test_an_interrupted_purge_is_complete_or_absent_and_completed_by_the_next(
    copy: str, monkeypatch: pytest.MonkeyPatch
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
