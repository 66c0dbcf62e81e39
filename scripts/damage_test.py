"""Read damaged copies of a Parquet file: each is refused with a reason, or read. Prints the counts.

python scripts/damage_test.py data/trajectories/alfworld/demo_train.jsonl --copies 1500
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import ldm
from ldm.envs import formats
from ldm.errors import LdmError
from ldm.records import Problem


def damaged(whole: bytes, generator: random.Random) -> bytes:
    """Return the bytes cut short, or with some of them changed, anywhere or near the end.

    The end of a Parquet file says what is where.
    """
    kind = generator.randrange(3)
    if kind == 0:
        return whole[: generator.randrange(len(whole))]
    changed = bytearray(whole)
    first = 0 if kind == 1 else max(0, len(whole) - 3_000)
    for _ in range(generator.choice((1, 3, 20))):
        changed[generator.randrange(first, len(whole))] = generator.randrange(256)
    return bytes(changed)


def main() -> None:
    """Damage, read and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--copies", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    trajectories = ldm.read_trajectories(arguments.data)[:5]
    generator, counts = random.Random(arguments.seed), Counter[str]()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        ldm.write_trajectories(path, trajectories)
        whole = path.read_bytes()
        for _ in range(arguments.copies):
            path.write_bytes(damaged(whole, generator))
            try:
                records_read = list(formats.read(path, "parquet"))
            except LdmError:
                counts["refused"] += 1
                continue
            bad = any(isinstance(one, Problem) for one in records_read)
            counts["problem" if bad else "same" if records_read == trajectories else "changed"] += 1
    print(dict(sorted(counts.items())))


if __name__ == "__main__":
    main()
