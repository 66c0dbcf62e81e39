"""Merging memories: everything once, batches as they were; and how memories differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import (
    IndexedTuple,
    Memory,
    build,
    environments,
    extend,
    generations,
    hide,
    inspect,
    value,
)
from ldm.memory.comparing import Counts, difference
from ldm.memory.exchange import export
from ldm.memory.formation import FormationOptions
from ldm.memory.merging import merge
from ldm.memory.packs import export_pack, import_pack
from ldm.memory.rewriting import purge
from ldm.memory.store import Store
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from ldm.types import Trajectory
from tests.embedder import BagOfWords
from tests.memory.brute_force import brute_force
from tests.memory.conftest import Places
from tests.toy import ToyOptions, expert_trajectories

EPISODES = expert_trajectories(options=ToyOptions(tasks=24))
QUERIES = [(t.task.goal, t.opening) for t in EPISODES[:6]]

Make = Callable[..., str]


def maker(at: Places) -> Make:
    def made(name: str, trajectories: Sequence[Trajectory], **options: int) -> str:
        formation = FormationOptions(**options)  # type: ignore[arg-type]
        build(at(name), trajectories, BagOfWords(), OfflineReasoner, options=formation)
        return at(name)

    return made


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Builds a memory of some episodes in a folder, and returns where it is."""
    return maker(lambda name: str(tmp_path / name))


@pytest.fixture
def make_at(at: Places) -> Make:
    """Builds a memory of some episodes in a folder or on a server, and returns where it is."""
    return maker(at)


def ids(place: str, generation: int | None = None) -> set[str]:
    return {*inspect(place, "toy", generation).rows.columns.ids}


def recalls(place: str) -> list[list[tuple[str, float]]]:
    memory = Memory.open(place, "toy", embedder=BagOfWords())
    return [[(r.id, r.similarity) for r in memory.retrieve(*query, 60)] for query in QUERIES]


def learnt(place: str, number: int, action: str) -> IndexedTuple:
    """A tuple that a refinement of a memory adds as generation `number`."""
    row = inspect(place, "toy").rows[0]
    new = replace(
        row.tuple,
        trajectory_id=f"{action}-path",
        action=action,
        origin="explored",
        generation=number,
    )
    return replace(row, tuple=new, reach=0.9)


def refined(place: str, action: str) -> IndexedTuple:
    """Add a generation with one tuple; return that."""
    newest = generations(place, "toy")[-1]
    row = learnt(place, newest.number + 1, action)
    extend(place, newest, [row], BagOfWords(), tasks=[f"train/{action}"], settings={})
    return row


class TestMerging:
    def test_different_episodes_come_together_in_their_batches(
        self, make_at: Make, at: Places
    ) -> None:
        a, b = make_at("a", EPISODES[:12]), make_at("b", EPISODES[12:])
        both = at("both")
        merged = merge([a, b], both)
        assert ids(both) == ids(a) | ids(b)
        assert merged.added == (len(ids(a)), len(ids(b)))
        assert merged.shared == (0, 0)
        names = [batch.id for batch in inspect(both, "toy").batches]
        assert names == ["fetch-1", "fetch-2", "wash-1", "wash-2"]
        assert verify(both, "toy", BagOfWords(), 1_000) == []
        for first, second in ((a, "fetch-1"), (b, "fetch-2")):
            sizes = [
                inspect(at, "toy").rows.sizes(n) for at, n in ((first, "fetch-1"), (both, second))
            ]
            assert sizes[0] == sizes[1]
        again = build(both, EPISODES, BagOfWords(), OfflineReasoner)
        assert again.trajectories == 0

    def test_of_one_memory_is_a_copy(self, make: Make) -> None:
        a = make("a", EPISODES[:12])
        refined(a, "wait")
        hide(a, generations(a, "toy")[-1], [min(ids(a))], settings={})
        merge([a], a + "-copy")
        assert recalls(a + "-copy") == recalls(a)
        for number in (0, 1, 2):
            one, other = (inspect(place, "toy", number) for place in (a, a + "-copy"))
            assert (one.rows, one.batches) == (other.rows, other.batches)
            assert one.generation.digest == other.generation.digest
            assert one.generation.hidden == other.generation.hidden

    def test_what_both_hold_comes_once(self, make: Make) -> None:
        a, b = make("a", EPISODES[:16]), make("b", EPISODES[8:], batch_size=4)
        merge([a, b], a + "+b")
        merge([b, a], b + "+a")
        everything = make("all", EPISODES)
        for both, first in ((a + "+b", a), (b + "+a", b)):
            contents = inspect(both, "toy")
            assert len(contents.rows) == len(ids(both)) == len(ids(everything))
            assert ids(both) == ids(everything)
            batches = {batch.id: batch for batch in contents.batches}
            assert all(batches[batch.id] == batch for batch in inspect(first, "toy").batches)
            held = [name for batch in contents.batches for name in batch.trajectories]
            assert sorted(held) == sorted(t.id for t in EPISODES)
            assert verify(both, "toy", BagOfWords(), 1_000) == []
            memory = Memory.open(both, "toy", embedder=BagOfWords())
            for query in QUERIES:
                vectors = BagOfWords().embed(query)
                expected = brute_force(contents, memory.kind_of(query[0]), vectors, 60)
                recalled = memory.retrieve(*query, 60)
                assert [(r.id, r.similarity, r.fallback) for r in recalled] == expected

    @pytest.mark.slow
    def test_what_two_learnt_in_the_same_batches_stands_there(
        self, make_at: Make, at: Places
    ) -> None:
        a, b = make_at("a", EPISODES[:12]), make_at("b", EPISODES[:12])
        rows = refined(a, "wait"), refined(b, "look around")
        third = refined(b, "jump")
        both = at("both")
        merge([a, b], both)
        contents = inspect(both, "toy")
        assert contents.batches == inspect(a, "toy").batches
        assert ids(both, 0) == ids(a, 0)
        assert ids(both, 1) - ids(a, 0) == {row.tuple.id for row in rows}
        assert ids(both, 2) - ids(both, 1) == {third.tuple.id}
        assert {row.reach for row in (*rows, third)} == {0.9}
        assert all(row in contents.rows for row in (*rows, third))
        present = generations(both, "toy")
        assert [one.tasks for one in present] == [
            (),
            ("train/look around", "train/wait"),
            ("train/jump",),
        ]
        assert {one.origin for one in present} == {"merged"}
        assert verify(both, "toy", BagOfWords(), 1_000) == []

    def test_what_is_left_of_a_batch_begins_with_its_first_tuple(self, make: Make) -> None:
        a, b = make("a", EPISODES[:12]), make("b", EPISODES[:12], batch_size=3)
        row = refined(b, "wait")  # all else of its batch is in A
        both = a + "+b"
        merge([a, b], both)
        [new] = [batch for batch in inspect(both, "toy").batches if batch.generation == 1]
        assert len(new.cells()) == 1
        assert new.trajectories == ()
        assert ids(both, 0) == ids(a)
        assert ids(both) == ids(a) | {row.tuple.id}
        for number in (0, 1):
            memory = Memory.open(both, "toy", embedder=BagOfWords(), generation=number)
            recalled = {
                recall.id
                for recall in memory.retrieve(*QUERIES[0], 60, batches=[new.id] * number or None)
            }
            assert recalled == {row.tuple.id} if number else recalled <= ids(a)
        assert verify(both, "toy", BagOfWords(), 1_000) == []

    def test_what_one_hides_stays_hidden_and_worth_is_averaged(self, make: Make) -> None:
        a, b = make("a", EPISODES[:12]), make("b", EPISODES[:14])
        first, second, third = sorted(ids(a))[:3]
        hide(a, generations(a, "toy")[-1], [first], settings={})
        value(a, generations(a, "toy")[-1], {second: 0.5, third: 0.1}, settings={})
        value(b, generations(b, "toy")[-1], {second: 0.25}, settings={})
        merge([a, b], a + "+b")
        present = generations(a + "+b", "toy")
        assert [one.hidden for one in present] == [(), (first,), (first,)]
        assert [one.utilities for one in present] == [
            {},
            {second: 0.25},
            {second: 0.375, third: 0.1},
        ]

    def test_without_anything_to_recall_it_is_refused(self, make: Make) -> None:
        a, b = make("a", EPISODES[:2]), make("b", EPISODES[:2])
        listed = sorted(ids(a))
        for place, part in ((a, listed[:3]), (b, listed[3:])):
            hide(place, generations(place, "toy")[-1], part, settings={})
        with pytest.raises(MemoryStoreError, match="without any tuple"):
            merge([a, b], a + "+b")
        assert not Path(a + "+b").exists()

    @pytest.mark.slow
    def test_packs_and_directories_are_alike(self, make: Make, tmp_path: Path) -> None:
        a, b = make("a", EPISODES[:12]), make("b", EPISODES[8:])
        refined(b, "wait")
        for number, place in enumerate((a, b)):
            export_pack(place, "toy", tmp_path / f"{number}.ldmpack")
        merge([a, b], a + "+b")
        merge([str(tmp_path / f"{number}.ldmpack") for number in (0, 1)], str(tmp_path / "packs"))
        for name in ("a+b", "packs"):
            export_pack(str(tmp_path / name), "toy", tmp_path / f"{name}.ldmpack")
        assert (tmp_path / "a+b.ldmpack").read_bytes() == (tmp_path / "packs.ldmpack").read_bytes()

    def test_other_embedders_are_refused(self, make: Make, tmp_path: Path) -> None:
        a = make("a", EPISODES[:4])
        for name, dimension in (("other", 24), ("bag-of-words", 8)):
            b = str(tmp_path / f"{name}{dimension}")
            build(b, EPISODES[4:8], BagOfWords(name, dimension), OfflineReasoner)
            with pytest.raises(
                MemoryStoreError, match=rf"embedder '{name}' \({dimension}"
            ) as refused:
                merge([a, b], a + "+b")
            assert "--embedder" in refused.value.remedy
            assert not Path(a + "+b").exists()

    def test_a_place_that_has_a_memory_is_refused(self, make: Make) -> None:
        a, b = make("a", EPISODES[:4]), make("b", EPISODES[4:8])
        with pytest.raises(MemoryStoreError, match="has a memory of toy already"):
            merge([a, b], a)
        assert len(ids(a) & ids(b)) == 0

    def test_environments_are_merged_one_at_a_time(self, make: Make) -> None:
        a, b = make("a", EPISODES[:4]), make("b", EPISODES[4:8])
        others = [replace(t, task=replace(t.task, env="other")) for t in EPISODES[:4]]
        build(a, others, BagOfWords(), OfflineReasoner)
        with pytest.raises(MemoryStoreError, match="2 environments: other, toy") as refused:
            merge([a, b], a + "+b")
        assert "--env" in refused.value.remedy
        with pytest.raises(MemoryStoreError, match="holds no memory of other"):
            merge([a, b], a + "+b", "other")
        merge([a, b], a + "+b", "toy")
        merge([a], a + "+b", "other")
        assert environments(a + "+b") == ("other", "toy")

    def test_an_interrupted_one_is_invisible_and_can_be_repeated(
        self, make_at: Make, at: Places, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a, b = make_at("a", EPISODES[:8]), make_at("b", EPISODES[8:16])
        refined(a, "wait")

        def stopped(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Store, "commit", stopped)
            with pytest.raises(KeyboardInterrupt):
                merge([a, b], at("both"))
        assert environments(at("both")) == ()
        merge([a, b], at("both"))
        assert ids(at("both")) == ids(a) | ids(b)


class TestTheSameIdsWithOtherContent:
    @pytest.fixture
    def pair(self, make: Make) -> tuple[str, str]:
        """Two memories that agree but for the score of one episode."""
        spoilt = replace(EPISODES[3], score=0.5, success=False)
        assert spoilt.id == EPISODES[3].id
        return make("a", EPISODES[:8]), make("b", [spoilt, *EPISODES[4:10]])

    def test_are_named_and_refused(self, pair: tuple[str, str]) -> None:
        a, b = pair
        with pytest.raises(MemoryStoreError, match="differs in outcome") as refused:
            merge([a, b], a + "+b")
        assert EPISODES[3].id in refused.value.message
        assert "--as-new" in refused.value.remedy
        assert not Path(a + "+b").exists()

    def test_come_as_further_trajectories(self, pair: tuple[str, str]) -> None:
        a, b = pair
        both = a + "+b"
        merged = merge([a, b], both, as_new=True)
        [(old, new)] = merged.renamed
        assert old == EPISODES[3].id
        rows = {name: [] for name in (old, new)}  # type: ignore[var-annotated]
        contents = inspect(both, "toy")
        for row in contents.rows:
            if row.tuple.trajectory_id in rows:
                rows[row.tuple.trajectory_id].append(row.tuple)
        actions = [[t.action for t in sorted(part, key=lambda t: t.step)] for part in rows.values()]
        assert actions[0] == actions[1]
        assert {t.outcome.score for t in rows[new]} == {0.5}
        assert {t.outcome.score for t in rows[old]} == {1.0}
        assert [b.id for b in contents.batches if new in b.trajectories] == ["wash-2"]
        assert verify(both, "toy", BagOfWords(), 1_000) == []
        thrice = merge([a, b, b], both + "+b", as_new=True)
        assert thrice.shared[2] == len(ids(b))
        assert ids(both + "+b") == ids(both)


class TestDifference:
    def test_of_the_same_is_nothing(self, make: Make, tmp_path: Path) -> None:
        a = make("a", EPISODES[:12])
        b = make("b", EPISODES[:12], batch_size=3)
        same = difference(inspect(a, "toy"), inspect(b, "toy"))
        assert not [*same.only_first, *same.only_second, *same.changed]
        total = sum(counts.same for counts in same.tuples.values())
        assert total == len(ids(a))
        assert {*same.trajectories} == {"fetch", "wash"}

    def test_counts_by_kind_and_lists_tuples(self, make: Make) -> None:
        spoilt = replace(EPISODES[3], score=0.5, success=False)
        a, b = make("a", EPISODES[:8]), make("b", [spoilt, *EPISODES[4:10]])
        one = difference(inspect(a, "toy"), inspect(b, "toy"))
        of = {t.id: t for t in EPISODES}
        assert {r.tuple.trajectory_id for r in one.only_first} == {t.id for t in EPISODES[:3]}
        assert {r.tuple.trajectory_id for r in one.only_second} == {t.id for t in EPISODES[8:10]}
        assert {r.tuple.trajectory_id for pair in one.changed for r in pair} == {spoilt.id}
        assert [x.tuple.outcome.score for x, _ in one.changed] == [1.0] * len(spoilt.steps)  # type: ignore[union-attr]
        assert [y.tuple.outcome.score for _, y in one.changed] == [0.5] * len(spoilt.steps)  # type: ignore[union-attr]
        for kind, counts in one.trajectories.items():
            names = [n for n, t in of.items() if t.task.kind == kind]
            expected = Counts(
                *(
                    len({*names} & {t.id for t in part})
                    for part in (EPISODES[:3], EPISODES[8:10], [spoilt], EPISODES[4:8])
                )
            )
            assert counts == expected

    def test_hidden_tuples_are_not_recalled(self, make: Make) -> None:
        a = make("a", EPISODES[:4])
        hidden = min(ids(a))
        hide(a, generations(a, "toy")[-1], [hidden], settings={})
        one = difference(inspect(a, "toy", 0), inspect(a, "toy"))
        assert [row.tuple.id for row in one.only_first] == [hidden]
        assert sum(counts.changed for counts in one.trajectories.values()) == 1

    def test_one_side_may_be_missing(self, make: Make) -> None:
        contents = inspect(make("a", EPISODES[:4]), "toy")
        assert len(difference(contents, None).only_first) == len(contents.rows)
        assert len(difference(None, contents).only_second) == len(contents.rows)


@pytest.mark.slow
def test_a_purge_leaves_what_is_left_of_earlier_generations_sound(make: Make) -> None:
    """Where all that was formed in a cell is purged, earlier generations have it empty no more."""
    a = make("a", EPISODES[:12])
    row = refined(a, "wait")
    contents = inspect(a, "toy")
    formed = [r.tuple.id for r in contents.rows if r.cell == row.cell and r != row]
    purge(a, "toy", formed)
    for number in (0, 1):
        memory = Memory.open(a, "toy", embedder=BagOfWords(), generation=number)
        assert [len(memory.retrieve(*query, 9)) for query in QUERIES] == [9] * len(QUERIES)


def test_a_merged_memory_travels(make: Make, tmp_path: Path) -> None:
    a, b = make("a", EPISODES[:8]), make("b", EPISODES[8:16])
    merge([a, b], a + "+b")
    export_pack(a + "+b", "toy", tmp_path / "m.ldmpack")
    import_pack(str(tmp_path / "copy"), tmp_path / "m.ldmpack")
    for place in (a + "+b", str(tmp_path / "copy")):
        export(place, "toy", Path(f"{place}.jsonl"))
    assert Path(f"{a}+b.jsonl").read_bytes() == (tmp_path / "copy.jsonl").read_bytes()
