"""Compare how long short commands take with those of another checkout, in processor seconds.

    git worktree add --detach ../other 69246414
    python benchmarks/startup.py ../other [--rounds 9]

Each round starts every command once from either checkout, in turn; modules are compiled in the
first, which does not count. Prints the medians and their ratio.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
COMMANDS = ("--help", "eval --help", "memory search --help")


def seconds(checkout: Path, command: str) -> float:
    """Return the processor seconds that a command of a checkout takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "ldm", *command.split()],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    other = given.other.resolve()
    for command in COMMANDS:
        pairs = [(seconds(other, command), seconds(HERE, command)) for _ in range(given.rounds)][1:]
        theirs, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"ldm {command}: other {theirs:.2f} s, here {ours:.2f} s, ratio {theirs / ours:.2f}")


if __name__ == "__main__":
    main()
