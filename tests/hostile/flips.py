"""Bits flipped in a memory's files: a reader then sees what was written, or an error."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from ldm import records
from ldm.errors import LdmError
from ldm.memory import Memory, build, generations, hide, inspect
from ldm.memory.growing import GrowingMemory
from ldm.reason.offline import OfflineReasoner
from ldm.types import stable_hash
from tests.embedder import BagOfWords
from tests.toy import ToyOptions, expert_trajectories

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


def small_memory(place: Path) -> Path:
    """A memory with two generations and some hidden tuples."""
    memory = str(place / "memory")
    build(memory, expert_trajectories(options=ToyOptions(tasks=6)), BagOfWords(), OfflineReasoner)
    base = generations(memory, "toy")[-1]
    tuples = [row.tuple.id for row in inspect(memory, "toy").rows][:2]
    hide(memory, base, tuples, settings={})
    return Path(memory)
