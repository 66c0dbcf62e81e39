"""Damaged and changed memories are refused, or read as they were written: nothing in between."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import LdmError, MemoryStoreError
from ldm.memory.access import open_store
from ldm.memory.exchange import export, import_memory
from tests.embedder import BagOfWords
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


def source(line: dict[str, Any]) -> None:
    line["tuple"]["tuple"]["source"] = "another"


def kind(line: dict[str, Any]) -> None:
    line["tuple"]["tuple"]["kind"] = "another"


def split(line: dict[str, Any]) -> None:
    line["tuple"]["tuple"]["split"] = "train2"


def past(line: dict[str, Any]) -> None:
    line["tuple"]["tuple"]["history"]["past"] = [["You see.", "look"]]


def type_name(line: dict[str, Any]) -> None:
    line["batch"]["goal_types"][0]["name"] = "another"


def hidden(line: dict[str, Any]) -> None:
    line["generation"]["hidden"] = []


def tasks(line: dict[str, Any]) -> None:
    line["generation"]["tasks"] = ["valid_seen/1"]


@pytest.mark.parametrize("change", [source, kind, split, past, type_name, hidden, tasks])
def test_an_exported_memory_with_another_field_is_refused(
    memory: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    file = tmp_path / "a.jsonl"
    export(str(memory), "toy", file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    changed = 0
    for line in lines:
        try:
            change(line)
            changed += 1
        except (KeyError, TypeError):
            continue
    assert changed
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(MemoryStoreError, match="incomplete or was changed"):
        import_memory(str(tmp_path / "new"), file, BagOfWords())
    assert not (tmp_path / "new").exists()


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
