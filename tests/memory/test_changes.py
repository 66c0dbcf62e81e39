"""Generations hide, add and go back, and each stays what it was."""

from dataclasses import replace

import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, build, extend, generations, hide, inspect, rollback
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
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
