"""Snapshots hold what Chroma holds, and are made again where they do not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.memory import Memory, inspect, snapshot
from ldm.memory.columns import AssembledVectors
from ldm.memory.exchange import export
from ldm.memory.migration import migrate
from ldm.memory.store import reading
from tests.embedder import BagOfWords
from tests.stored.make import unpack

WORDS = st.lists(st.sampled_from(["put", "apple", "fig", "basket", "shelf", "sink", "hold"]))
STORED = Path(__file__).parents[1] / "stored" / "v0_1"


@given(goal=WORDS, observation=WORDS, k=st.integers(1, 80))
@settings(max_examples=60, deadline=None)
def test_recalls_are_those_of_what_chroma_holds(
    toy: Path, goal: list[str], observation: list[str], k: int
) -> None:
    mapped = Memory.open(str(toy), "toy", embedder=BagOfWords())
    with reading(str(toy)) as store:
        read = Memory(store.load("toy"), BagOfWords())
    query = " ".join(goal), " ".join(observation)
    assert mapped.retrieve(*query, k) == read.retrieve(*query, k)


def test_kept_vectors_are_the_same_bits(memory: Memory) -> None:
    assembled = AssembledVectors(memory._vectors)
    group = slice(2, 20)
    for _ in range(8):
        for span in (slice(2, 5), slice(4, 17), group):
            assert np.array_equal(assembled.block(span, group), memory._vectors[span])


@pytest.mark.parametrize("name", [*snapshot.TABLES, snapshot.VECTORS, snapshot.MANIFEST])
@pytest.mark.parametrize("damage", ["removed", "torn", "changed"])
def test_a_damaged_one_is_made_again(name: str, damage: str, toy: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(toy, tmp_path / "copy")
    [path] = (copy / snapshot.SNAPSHOTS).glob(f"*/*/{name}")
    content = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        half = len(content) // 2
        torn = content[:half]
        path.write_bytes(torn if damage == "torn" else torn + b"!" + content[half + 1 :])
    generation = inspect(str(toy), "toy").generation
    assert snapshot.read(str(copy), generation) is None
    assert inspect(str(copy), "toy").rows == inspect(str(toy), "toy").rows
    assert snapshot.read(str(copy), generation) is not None


def test_opening_does_not_load_chroma(toy: Path) -> None:
    inspect(str(toy), "toy")
    code = (
        "import sys\nfrom ldm.memory import environments, inspect\n"
        "print(environments(sys.argv[1]), len(inspect(sys.argv[1], 'toy').rows))\n"
        "assert 'chromadb' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(toy)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("('toy',)")


class TestMigration:
    def memory(self, tmp_path: Path) -> Path:
        unpack(STORED, tmp_path)
        return tmp_path / ".ldm" / "memory"

    def test_changes_nothing_but_the_space(self, tmp_path: Path) -> None:
        place = self.memory(tmp_path)
        for number in (0, 1):
            export(str(place), "toy", tmp_path / f"before{number}.jsonl", number)
        vectors = inspect(str(place), "toy").vectors[:]
        count = len(vectors)
        assert migrate(str(place)) == {"toy": count}
        assert migrate(str(place)) == {"toy": 0}
        shutil.rmtree(place / snapshot.SNAPSHOTS)
        for number in (0, 1):
            export(str(place), "toy", tmp_path / f"after{number}.jsonl", number)
            before, after = (tmp_path / f"{when}{number}.jsonl" for when in ("before", "after"))
            assert before.read_bytes() == after.read_bytes()
        assert np.array_equal(inspect(str(place), "toy").vectors[:], vectors)

    def test_an_interrupted_one_loses_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from ldm.memory.store import Store

        place = self.memory(tmp_path)
        before = inspect(str(place), "toy").rows
        check = Store._check_migrated

        def stopped(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Store, "_check_migrated", stopped)
        with pytest.raises(KeyboardInterrupt):
            migrate(str(place))
        monkeypatch.setattr(Store, "_check_migrated", check)
        with reading(str(place)) as store:
            assert store.load("toy").rows == before
        assert migrate(str(place)) == {"toy": len(before)}
        with reading(str(place)) as store:
            assert store.load("toy").rows == before
