"""Retrieval finds what an exhaustive search by the same rules finds (LDM² §3.2, Eq. 3)."""

import random
from pathlib import Path

import numpy as np
import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import FormationOptions, Memory, build, retrieval
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple, Kinds
from ldm.memory.lessons import Contents
from ldm.memory.retrieval import DECIMALS, Query, Retriever
from ldm.memory.rows import Rows, RowsBuilder
from ldm.reason.offline import OfflineReasoner
from ldm.types import History, Recall, StateActionTuple, Step, Task, Trajectory
from tests.embedder import BagOfWords
from tests.memory.test_building import make
from tests.processes import printed
from tests.reason.scripted import Contrary

QUERIES = [
    ("put the apple in the basket", "You are at shelf 1. On it you see: apple."),
    ("put a washed fig in the basket", "You hold the fig."),
    ("put a washed lemon in the basket", "You are at sink."),
    ("put the melon in the basket", "It rains."),
]


class TestSearch:
    def test_widens_from_cell_to_goal_type_to_batch_and_says_so(self, memory: Memory) -> None:
        order = ["", "goal type", "batch"]
        widened = set()
        for goal, observation in QUERIES:
            recalls = memory.retrieve(goal, observation, 100)
            once = len({recall.tuple.trajectory_id for recall in recalls})
            marks = [recall.fallback for recall in recalls[:once]]
            assert [order.index(mark) for mark in marks] == sorted(map(order.index, marks))
            assert marks[0] == ""
            widened |= set(marks)
        assert widened == set(order)

    def test_of_nothing_or_from_an_unknown_batch_is_refused(self, memory: Memory) -> None:
        with pytest.raises(ValueError, match="1 or more"):
            memory.retrieve(*QUERIES[0], 0)
        with pytest.raises(MemoryStoreError, match="has no batch 'attic'") as refused:
            memory.retrieve(*QUERIES[0], batches=["attic"])
        assert memory.batches[0].id in refused.value.remedy
        with pytest.raises(MemoryStoreError, match="has no batch 'attic'"):
            memory.place("attic", [memory.rows[0].tuple])

    def test_may_be_limited_to_batches(self, memory: Memory) -> None:
        recalls = memory.retrieve(*QUERIES[0], 100, batches=["wash-1"])
        assert {recall.batch for recall in recalls} == {"wash-1"}
        assert {recall.tuple.kind for recall in recalls} == {"wash"}

    def test_ties_are_broken_by_id(self, tmp_path: Path) -> None:
        def same(number: int) -> Trajectory:
            task = Task(f"train/{number}", "room", "train", "open it", "open")
            return Trajectory(task, "A door.", (Step(f"knock {number}", "."),), 1.0, True, "human")

        build(str(tmp_path), [same(n) for n in range(9)], BagOfWords(), OfflineReasoner)
        memory = Memory.open(str(tmp_path), "room", embedder=BagOfWords())
        recalls = memory.retrieve("open it", "A door.", 9)
        assert len({recall.similarity for recall in recalls}) == 1
        ids = [recall.tuple.id for recall in recalls]
        assert ids == sorted(ids)
        assert [r.tuple.id for r in memory.retrieve("open it", "A door.", 4)] == ids[:4]


class TestKinds:
    def test_only_the_batches_of_the_goals_kind_are_searched(self, memory: Memory) -> None:
        assert memory.kind_of("put the quince in the basket") == "fetch"
        assert memory.kind_of("put a washed quince in the basket") == "wash"
        assert memory.batches_for("put a washed quince in the basket") == ("wash-1",)
        kinds = {r.tuple.kind for r in memory.retrieve("put a washed fig in the basket", "x", 100)}
        assert kinds == {"wash"}

    def test_the_number_of_batches_can_be_limited(self, tmp_path: Path) -> None:
        make(tmp_path, options=FormationOptions(batch_size=2))
        memory = Memory.open(str(tmp_path), "toy", embedder=BagOfWords())
        goal = "put the fig in the basket"
        assert memory.batches_for(goal) == ("fetch-1", "fetch-2", "fetch-3")
        assert memory.batches_for(goal, 2) == ("fetch-1", "fetch-2")


class TestAReasonerThatClassifies:
    def test_decides_which_cell_is_searched_first(self, memory: Memory) -> None:
        reasoner = Contrary()
        recalls = memory.retrieve(*QUERIES[1], 1, classifier=reasoner)
        index = next(b for b in memory.batches if b.id == "wash-1")
        assert recalls[0].goal_type == index.goal_types[-1].name
        assert recalls[0].observation_type == index.goal_types[-1].observation_types[-1]
        assert [text for text, _ in reasoner.questions] == list(QUERIES[1])

    def test_of_its_cell_all_tuples_come_first_whatever_their_trajectory(
        self, memory: Memory
    ) -> None:
        """As in the paper, whose Tables 5 and 6 show tuples of one trajectory side by side."""
        reasoner, repeated = OfflineReasoner(BagOfWords()), 0
        for goal, observation in QUERIES:
            recalls = memory.retrieve(goal, observation, 40, classifier=reasoner)
            scopes = [("", "goal type", "batch").index(one.fallback) for one in recalls]
            assert scopes == sorted(scopes)
            cell = [one.tuple.trajectory_id for one in recalls if not one.fallback]
            repeated += len(cell) - len(set(cell))
        assert repeated


def test_the_random_control_draws_by_seed_from_the_whole_memory(memory: Memory) -> None:
    drawn = memory.sample(5, seed=1)
    assert drawn == memory.sample(5, seed=1)
    assert drawn != memory.sample(5, seed=2)
    assert {recall.similarity for recall in drawn} == {0.0}
    kinds = {r.tuple.kind for seed in range(5) for r in memory.sample(5, seed)}
    assert kinds == {"fetch", "wash"}


SCRIPT = """
import sys
from ldm.memory import Memory, build
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.test_retrieval import QUERIES
from tests.toy import ToyOptions, expert_trajectories
place = sys.argv[1]
build(place, expert_trajectories(options=ToyOptions(tasks=24)), BagOfWords(), OfflineReasoner)
memory = Memory.open(place, "toy", embedder=BagOfWords())
print(memory.record.digest, memory.batches)
for query in QUERIES:
    print(memory.retrieve(*query, 20))
"""


@pytest.mark.process
def test_memory_and_recalls_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    outputs = [printed(SCRIPT, tmp_path / seed, seed=seed) for seed in "12"]
    assert outputs[0] == outputs[1]
    assert "Recall(" in outputs[0]


def test_new_tuples_are_placed_by_the_types_that_exist(memory: Memory) -> None:
    batch = memory.batches[0].id
    rows = [row for row in memory.rows if row.batch == batch]
    placed = memory.place(batch, [row.tuple for row in rows])
    assert [row.cell for row in placed] == [row.cell for row in rows]


class TestWithout:
    def test_hides_tuples_and_trajectories(self, memory: Memory) -> None:
        goal, observation = QUERIES[0]
        first, second, *_ = memory.retrieve(goal, observation, 5)
        view = memory.without([first.tuple.id], [second.tuple.trajectory_id])
        recalls = view.retrieve(goal, observation, 100)
        assert recalls
        assert first.tuple.id not in {recall.tuple.id for recall in recalls}
        assert second.tuple.trajectory_id not in {r.tuple.trajectory_id for r in recalls}
        assert memory.retrieve(goal, observation, 5)[0] == first

    def test_hides_from_the_random_control(self, memory: Memory) -> None:
        hidden = {row.tuple.id for row in [*memory.rows][:-2]}
        assert {r.tuple.id for r in memory.without(hidden).sample(5, 0)} == {
            row.tuple.id for row in [*memory.rows][-2:]
        }


def test_the_classifier_of_kinds_is_scikit_learns() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = ["put", "a", "clean", "hot", "cool", "two", "pen", "egg", "in", "fridge"]
    for kinds in (["clean", "heat"], ["clean", "heat", "cool"]):
        generator = random.Random(len(kinds))
        goals = [" ".join(generator.sample(words, 4)) for _ in range(60)]
        of_goals = [kinds[hash_of(goal) % len(kinds)] for goal in goals]
        counter = CountVectorizer(token_pattern=r"\w+", binary=True)
        regression = LogisticRegression(max_iter=1000, class_weight="balanced")
        model = make_pipeline(counter, regression)
        pairs = sorted({*zip(goals, of_goals, strict=True)})
        model.fit([goal for goal, _ in pairs], [kind for _, kind in pairs])
        classify = Kinds.trained(frozenset(zip(goals, of_goals, strict=True))).of
        queries = [" ".join(generator.sample([*words, "unseen"], 3)) for _ in range(200)]
        assert [classify(goal) for goal in queries] == model.predict(queries).tolist()


def test_kinds_with_many_goals_do_not_draw_those_of_others_to_them() -> None:
    things, places = ("egg", "cup", "pan", "fork", "soap"), ("shelf", "desk", "sink", "bed")
    goals = {f"put some {thing} in {place}.": "pick" for thing in things for place in places}
    goals |= {f"put a hot {thing} in {place}.": "heat" for thing in things for place in places}
    goals |= {"put a clean spoon in drawer.": "clean", "clean some lid and put it in box.": "clean"}
    classify = Kinds.trained(frozenset(goals.items())).of
    queries = [f"clean some {thing} and put it in {place}." for thing in things for place in places]
    assert {classify(goal) for goal in queries} == {"clean"}


def hash_of(goal: str) -> int:
    return len(goal) + goal.count("e")


ROWS, DIMENSION, K = 600, 4, 12


def unit(vectors: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype("f4")
    return scaled


@pytest.fixture(scope="module")
def contents() -> Contents:
    """A memory of random vectors in one batch with a single cell."""
    generator = np.random.default_rng(0)
    builder = RowsBuilder(Rows.empty("env", DIMENSION))
    rows = [
        IndexedTuple(
            StateActionTuple(
                *(f"goal {i % 90}", History(), f"seen {i}", f"do {i}", "", "env", "train"),
                *(f"task {i}", "source", f"trajectory {i}", 0, "expert"),
            ),
            *("mixed-1", 0, 0),
        )
        for i in range(ROWS)
    ]
    goals = unit(generator.standard_normal((90, DIMENSION)))[np.arange(ROWS) % 90]
    observations = unit(generator.standard_normal((ROWS, DIMENSION)))
    builder.add_rows(rows, np.stack([goals, observations], axis=1))
    generation = Generation(0, "formed", "env", "random", DIMENSION, ROWS, "", {})
    batch = BatchIndex("mixed-1", "", 0, (), (GoalType("all", ("all",)),))
    return Contents((generation,), (batch,), builder.collected())


def brute_force(contents: Contents, query: np.ndarray) -> list[tuple[str, float, str]]:
    """Return ids, similarities and fallbacks of the best K by comparing every tuple of the cell."""
    scored = []
    for row, vector in zip(contents.rows, contents.rows.vectors_of(slice(None)), strict=True):
        of_goal, of_sight = np.vecdot(vector.reshape(2, DIMENSION), query)
        similarity = 0.5 * float(of_goal) + 0.5 * float(of_sight)
        scored.append((-round(similarity, DECIMALS), row.tuple.id))
    return [(name, -similar, "") for similar, name in sorted(scored)[:K]]


def differing(contents: Contents) -> int:
    """For how many of 40 random queries the best K are not those of brute force."""
    retriever, hidden = Retriever(contents.batches, contents.rows), np.zeros(ROWS, np.bool_)
    different = 0
    for query in unit(np.random.default_rng(1).standard_normal((40, 2, DIMENSION))):
        expected = brute_force(contents, query)
        recalls: list[Recall] = retriever.search(Query("", "", *query), ["mixed-1"], K, hidden)
        different += [(r.id, r.similarity, r.fallback) for r in recalls] != expected
    return different


@pytest.mark.parametrize("many", [0, ROWS])
def test_the_best_are_those_of_brute_force_and_a_wrong_bound_would_be_noticed(
    contents: Contents, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(retrieval, "FIRST_ROWS", 8)
    monkeypatch.setattr(retrieval, "MANY_ROWS", many)
    assert not differing(contents)
    monkeypatch.setattr(retrieval, "bound", lambda goal: goal)
    assert differing(contents) > 10
