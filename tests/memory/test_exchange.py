"""A memory as one file: out, and in again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import MemoryStoreError, RecordError
from ldm.memory import Memory, build, environments, generations, inspect
from ldm.memory.exchange import export, import_memory
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.conftest import Places
from tests.toy import ToyOptions, expert_trajectories


@pytest.fixture
def exported(toy: Path, tmp_path: Path) -> Path:
    file = tmp_path / "memory.jsonl"
    export(str(toy), "toy", file)
    return file


def test_a_round_trip_gives_the_same_bytes_and_the_same_recalls(
    exported: Path, memory: Memory, at: Places, tmp_path: Path
) -> None:
    place = at("copy")
    newest = import_memory(place, exported, BagOfWords())
    assert newest == memory.record
    again = tmp_path / "again.jsonl"
    assert export(place, "toy", again) == newest.tuples
    assert again.read_bytes() == exported.read_bytes()
    copy = Memory.open(place, "toy", embedder=BagOfWords())
    query = "put a washed fig in the basket", "You hold the fig."
    assert copy.retrieve(*query, 50) == memory.retrieve(*query, 50)


def test_all_generations_travel_and_an_imported_memory_grows(
    toy: Path, at: Places, tmp_path: Path
) -> None:
    more = expert_trajectories(options=ToyOptions(tasks=20))
    place, copy, file = at("a"), at("b"), tmp_path / "m.jsonl.gz"
    for trajectories in (more[:12], more[:16]):
        build(place, trajectories, BagOfWords(), OfflineReasoner)
    export(place, "toy", file)
    import_memory(copy, file, BagOfWords())
    assert generations(copy, "toy") == generations(place, "toy")
    for number, location in enumerate((place, copy)):
        build(location, more, BagOfWords(), OfflineReasoner)
        export(location, "toy", tmp_path / f"{number}.jsonl")
    assert (tmp_path / "0.jsonl").read_bytes() == (tmp_path / "1.jsonl").read_bytes()
    export(copy, "toy", tmp_path / "first.jsonl", generation=0)
    export(str(toy), "toy", tmp_path / "toy.jsonl")
    assert (tmp_path / "first.jsonl").read_bytes() == (tmp_path / "toy.jsonl").read_bytes()


def test_a_generation_that_is_not_there_leaves_no_file(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryStoreError, match="no generation 4"):
        export(str(toy), "toy", tmp_path / "x.jsonl", generation=4)
    assert not list(tmp_path.iterdir())


def without(kind: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Leave out the last line that holds a `kind`."""

    def spoil(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        last = max(i for i, line in enumerate(lines) if line[kind])
        return lines[:last] + lines[last + 1 :]

    return spoil


def rewrite(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def reworded(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines[-1]["tuple"]["tuple"]["action"] = "open the safe"
    return lines


@pytest.mark.parametrize(
    ("spoil", "message"),
    [(without("tuple"), "incomplete or was changed"),
     (without("batch"), "incomplete or was changed"),
     (without("generation"), "not an exported memory"), (reworded, "incomplete or was changed"),
     (lambda _: [], "not an exported memory")],
    ids=["a tuple less", "a batch less", "no generation", "another action", "empty"],
)  # fmt: skip
def test_a_file_that_was_changed_is_refused(
    spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    message: str,
    exported: Path,
    tmp_path: Path,
) -> None:
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    rewrite(exported, spoil(lines))
    with pytest.raises(MemoryStoreError, match=message) as refused:
        import_memory(str(tmp_path / "copy"), exported, BagOfWords())
    assert refused.value.remedy
    assert not (tmp_path / "copy").exists()


def test_an_edited_file_becomes_a_memory_of_one_generation(exported: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in exported.read_text("utf-8").splitlines()]
    tuples = [line["tuple"]["tuple"] for line in lines if line.get("tuple")]
    tuples[0]["action"] = "wait for the fig"
    rewrite(exported, lines)
    place = str(tmp_path / "new")
    with pytest.raises(MemoryStoreError, match="was changed") as refused:
        import_memory(place, exported, BagOfWords())
    assert "--as-new" in refused.value.remedy
    newest = import_memory(place, exported, BagOfWords(), as_new=True)
    assert (newest.number, newest.tuples) == (0, len(tuples))
    actions = {row.tuple.action for row in inspect(place, "toy").rows}
    assert "wait for the fig" in actions
    assert verify(place, "toy", BagOfWords(), 100) == []
    rewrite(exported, [line for line in lines if not line.get("tuple")])
    with pytest.raises(MemoryStoreError, match="cell"):
        import_memory(str(tmp_path / "other"), exported, BagOfWords(), as_new=True)


def test_a_bad_line_is_named(exported: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    lines[-1]["tuple"]["tuple"]["acton"] = lines[-1]["tuple"]["tuple"].pop("action")
    rewrite(exported, lines)
    with pytest.raises(RecordError, match=rf"memory\.jsonl:{len(lines)}:"):
        import_memory(str(tmp_path / "copy"), exported, BagOfWords())


def test_an_interrupted_import_is_invisible_and_can_be_repeated(
    exported: Path, at: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = at("copy")
    with monkeypatch.context() as patch:
        patch.setattr("ldm.memory.store.Store.commit", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            import_memory(place, exported, BagOfWords())
    assert environments(place) == ()
    import_memory(place, exported, BagOfWords())
    export(place, "toy", tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == exported.read_bytes()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
