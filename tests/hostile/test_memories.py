"""Damaged and changed memories are refused, or read as they were written: nothing in between."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from ldm import records
from ldm.errors import LdmError
from ldm.memory import Memory, generations, inspect
from ldm.memory.growing import GrowingMemory
from ldm.types import stable_hash
from tests.embedder import BagOfWords
from tests.hostile.small import small_memory
from tests.toy import expert_trajectories

STATE = "put the fig in the basket", "You hold the fig."


def content_of(place: Path) -> str:
    """Return the hash of all that readers see: tuples, batches, generations, recalls."""
    memory, held = str(place), list[object]()
    for one in generations(memory, "toy"):
        contents = inspect(memory, "toy", one.number)
        held += [records.dumps(one), *map(records.dumps, contents.batches)]
        held += [records.dumps(row) for row in contents.rows]
        held.append(contents.rows.vectors_of(slice(None)).tobytes().hex())
    opened = Memory.open(memory, "toy", embedder=BagOfWords())
    held += [(one.id, one.similarity) for one in opened.retrieve(*STATE)]
    growing = GrowingMemory.open(memory, "toy", embedder=BagOfWords())
    held += [(one.id, one.similarity, one.evidence) for one in growing.recall(*STATE, k=30)]
    return stable_hash(list(map(repr, held)), length=64)


def flip(file: Path, number: int, of: int) -> str:
    """Flip one bit of a file, the `number`-th of `of` places that are evenly spread over it."""
    content = bytearray(file.read_bytes())
    at = number * len(content) // of
    content[at] ^= 1 << random.Random(f"{file.name}{at}").randrange(8)
    file.write_bytes(bytes(content))
    return f"{file.name}:{at}"


def attack(memory: Path, flips: int) -> Counter[str]:
    """Flip `flips` bits of each file, one at a time; return how often came what of it."""
    outcomes, expected = Counter[str](), content_of(memory)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "memory"
        shutil.copytree(memory, place)
        for file in sorted(path for path in place.rglob("*") if path.is_file()):
            whole = file.read_bytes()
            for number in range(min(flips, len(whole))):
                where = flip(file, number, flips)
                try:
                    same = content_of(place) == expected
                    outcome = "harmless" if same else f"SILENT {where}"
                except LdmError:
                    outcome = "refused"
                except Exception as error:
                    outcome = f"CRASHED {where}: {error!r}"
                outcomes[outcome] += 1
                file.write_bytes(whole)
    return outcomes


@pytest.mark.slow
def test_a_flipped_bit_is_harmless_or_refused(tmp_path: Path) -> None:
    memory = small_memory(tmp_path)
    growing = GrowingMemory.open(memory, "toy", embedder=BagOfWords())
    for episode in expert_trajectories("test")[:2]:
        growing.add(episode)
    growing.begin("put the fig in the basket").step("A shelf.", "go to shelf 1")
    growing.feedback(growing.recall("put the fig in the basket", "A shelf."), -1.0)
    outcomes = attack(memory, 12)
    assert {outcome.split()[0] for outcome in outcomes} == {"harmless", "refused"}, outcomes
