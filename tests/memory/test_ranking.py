"""Ranking in parts, stopped by the bound of the score, is ranking everything."""

import numpy as np
import pytest

from ldm.memory import retrieval
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple
from ldm.memory.lessons import Contents
from ldm.memory.retrieval import DECIMALS, Query, Retriever
from ldm.memory.rows import Rows, RowsBuilder
from ldm.types import History, Recall, StateActionTuple

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


def differing(contents: Contents, monkeypatch: pytest.MonkeyPatch) -> int:
    """For how many of 40 random queries the best K are not those of brute force."""
    monkeypatch.setattr(retrieval, "FIRST_ROWS", 8)
    retriever = Retriever(contents.batches, contents.rows)
    different = 0
    for query in unit(np.random.default_rng(1).standard_normal((40, 2, DIMENSION))):
        expected = brute_force(contents, query)
        recalls: list[Recall] = retriever.search(Query("", "", *query), ["mixed-1"], K)
        different += [(r.id, r.similarity, r.fallback) for r in recalls] != expected
    return different


def test_the_best_are_those_of_brute_force(
    contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not differing(contents, monkeypatch)


def test_a_wrong_bound_would_be_noticed(
    contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "bound", lambda goal: goal)
    assert differing(contents, monkeypatch) > 10
