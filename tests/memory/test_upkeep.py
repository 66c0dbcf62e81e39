"""Forgetting and verifying a memory wherever it is; what a server does not allow."""

from __future__ import annotations

import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, Selection, build, generations, hide, inspect, rollback
from ldm.memory.access import open_store
from ldm.memory.addresses import is_server
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.conftest import Places
from tests.toy import expert_trajectories


def test_the_address_of_a_server_has_no_path() -> None:
    assert is_server("http://localhost:8000/")
    with pytest.raises(MemoryStoreError, match="has a path, /api") as refused:
        is_server("http://localhost:8000/api")
    assert "http://localhost:8000." in refused.value.remedy


@pytest.fixture
def place(at: Places) -> str:
    build(at(), expert_trajectories(), BagOfWords(), OfflineReasoner)
    return at()


def test_a_forgotten_trajectory_is_not_recalled_until_it_is_rolled_back(place: str) -> None:
    contents = inspect(place, "toy")
    one = contents.rows[0].tuple
    selection = Selection(trajectories=(one.trajectory_id,))
    ids = selection.of(contents.rows.columns)
    settings = selection.described()
    later = hide(place, contents.generation, ids, settings=settings, origin="forgotten")

    def recalled() -> set[str]:
        memory = Memory.open(place, "toy", embedder=BagOfWords())
        return {recall.id for recall in memory.retrieve(one.goal, one.observation, 100)}

    assert not recalled() & {*ids}
    assert generations(place, "toy") == (contents.generation, later)
    assert verify(place, "toy", BagOfWords(), 1_000) == []
    rollback(place, "toy", 0)
    assert recalled() & {*ids}
    assert inspect(place, "toy").rows == contents.rows


def test_what_is_missing_in_chroma_is_noticed(place: str) -> None:
    assert verify(place, "toy", BagOfWords(), 1_000) == []
    with open_store(place) as store:
        stored = store._collection("toy", "trajectories")
        stored.delete(ids=stored.get(limit=1)["ids"])
    [problem] = verify(place, "toy")
    assert "does not hold the tuples" in problem


def test_new_tuples_are_placed_as_in_a_directory(toy_location: str, memory: Memory) -> None:
    batch = memory.batches[0].id
    tuples = [row.tuple for row in memory.rows if row.batch == batch]
    cells = [row.cell for row in memory.rows if row.batch == batch]
    assert [row.cell for row in memory.place(batch, tuples)] == cells
    assert len(Memory.open(toy_location, "toy", embedder=BagOfWords())) == len(memory)
