"""Damaged and changed memories are refused, or read as they were written: nothing in between."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ldm.memory.access import open_store

from ldm.errors import LdmError, MemoryStoreError
from tests.hostile.flips import attack, small_memory


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_memory(tmp_path_factory.mktemp("flips"))


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("store_only", [False, True])
def test_a_flipped_bit_is_harmless_or_refused(memory: Path, store_only: bool) -> None:
    outcomes = attack(memory, 6, seed=1, store_only=store_only)
    assert {outcome.split()[0] for outcome in outcomes} <= {"harmless", "refused"}, outcomes


def test_a_vector_that_is_not_what_was_written_is_noticed(memory: Path) -> None:
    with open_store(str(memory)) as store:
        collection = store._collection("toy", "vectors")
        page = collection.get(limit=1, include=["embeddings"])
        turned = -page["embeddings"]
        collection.update(ids=page["ids"], embeddings=turned)
        with pytest.raises(LdmError, match="damaged"):
            store.load("toy")
        collection.update(ids=page["ids"], embeddings=-turned)
        assert store.load("toy")


@pytest.mark.parametrize("kind", ["generation", "batch"])
def test_a_record_that_has_lost_its_text_is_damage(memory: Path, tmp_path: Path, kind: str) -> None:
    """As a flipped bit in the database may have it."""
    place = str(shutil.copytree(memory, tmp_path / "copy"))
    with open_store(place) as store:
        collection = store._collection("toy", "records")
        (name, *_) = collection.get(where={"record": kind})["ids"]
        collection.delete(ids=[name])
        collection.add(ids=[name], embeddings=[[1.0]], metadatas=[{"record": kind}])
        read = {"generation": store.generations, "batch": store.batches}[kind]
        with pytest.raises(MemoryStoreError, match=f"a record of a {kind} is damaged"):
            read("toy")
