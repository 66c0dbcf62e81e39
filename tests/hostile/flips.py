"""Bits flipped in a memory's files: a reader then sees what was written, or an error."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ldm.types import stable_hash
from tests.conftest import CHECKOUT

#: Opens a memory in a process of its own, as damage may crash the database, and prints what it
#: holds: all tuples, batches, generations and recalls.
READER = """
import sys
import numpy as np
from ldm import records
from ldm.errors import LdmError
from ldm.memory import Memory, generations, inspect
from ldm.memory.verifying import verify
from ldm.types import stable_hash
from tests.embedder import BagOfWords
place = sys.argv[1]
try:
    if sys.argv[2] == "verify":
        problems = verify(place, "toy")
        print("problems:", len(problems))
        sys.exit(3 if problems else 0)
    held = []
    for one in generations(place, "toy"):
        contents = inspect(place, "toy", one.number)
        held += [records.dumps(one), *map(records.dumps, contents.batches)]
        held += [records.dumps(row) for row in contents.rows]
        held.append(contents.vectors[:].tobytes().hex())
    memory = Memory.open(place, "toy", embedder=BagOfWords())
    recalls = memory.retrieve("put the fig in the basket", "You hold the fig.")
    held += [(one.id, one.similarity) for one in recalls]
    print(stable_hash(held, length=64))
except LdmError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


def outcome_of(place: Path, what: str = "read") -> tuple[int, str, str]:
    """Return (exit status, what is printed, complaint) of a process that reads the memory."""
    done = subprocess.run(
        [sys.executable, "-c", READER, str(place), what],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
        timeout=300,
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def flip(place: Path, draw: random.Random) -> str:
    """Flip one bit of one file, each byte of the memory as likely as any other; return where."""
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.stat().st_size)
    sizes = [path.stat().st_size for path in files]
    # Half of the flips go to files by their number, so that small ones are hit as well.
    (file,) = draw.choices(files, sizes) if draw.random() < 0.5 else (draw.choice(files),)
    content = bytearray(file.read_bytes())
    at = draw.randrange(len(content))
    content[at] ^= 1 << draw.randrange(8)
    file.write_bytes(bytes(content))
    return f"{file.relative_to(place)}:{at}"


def attack(memory: Path, flips: int, seed: int = 0, *, store_only: bool = False) -> Counter[str]:
    """Flip a bit in each of `flips` copies of a memory; return how often came what of it.

    store_only: remove the snapshots first, so that everything is read from the database.
    """
    draw, outcomes = random.Random(seed), Counter[str]()
    expected = outcome_of(memory)
    assert expected[0] == 0, expected
    with tempfile.TemporaryDirectory() as folder:
        for number in range(flips):
            place = Path(folder) / str(number)
            shutil.copytree(memory, place)
            if store_only:
                shutil.rmtree(place / "snapshots")
            where = flip(place, draw)
            status, text, complaint = outcome_of(place)
            if status == 0 and text == expected[1]:
                outcome = "harmless"
            elif status == 2:
                outcome = "refused"
            elif status == 0:
                outcome = f"SILENT {where}"
            else:
                outcome = f"CRASHED {where} {stable_hash(complaint)}: {complaint[-300:]}"
            outcomes[outcome] += 1
            shutil.rmtree(place)
    return outcomes


def small_memory(place: Path) -> Path:
    """A memory with two generations and some hidden tuples."""
    from ldm.memory import build, generations, hide, inspect
    from ldm.reason.offline import OfflineReasoner
    from tests.embedder import BagOfWords
    from tests.toy import ToyOptions, expert_trajectories

    memory = str(place / "memory")
    build(memory, expert_trajectories(options=ToyOptions(tasks=6)), BagOfWords(), OfflineReasoner)
    base = generations(memory, "toy")[-1]
    tuples = [row.tuple.id for row in inspect(memory, "toy").rows][:2]
    hide(memory, base, tuples, settings={})
    return Path(memory)
