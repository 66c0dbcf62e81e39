"""Print the success of a finished run at shorter limits of time (DEPS, arXiv 2302.01560, Fig. 4).

    python scripts/limits.py RUN [RUN …] [--at 500,1000,1500,2000,3000]

A task that was solved at some tick is solved within every limit above it, so that one run with the
longest limit has them all. It is for environments whose observations tell the time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.errors import LdmError
from ldm.run.builders import card_of
from ldm.run.runner import TRAJECTORIES, results
from ldm.run.runtime import DEFAULT_RUNS
from ldm.runs import open_run
from ldm.types import Trajectory
from tools.limits import rates, success_ticks

#: Ticks, in the figure's order.
LIMITS = (500, 1000, 1500, 2000, 3000)


def main() -> None:
    """Print a table for each run: kinds in lines, limits in columns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", help="directories or ids of finished runs")
    parser.add_argument("--at", default=",".join(map(str, LIMITS)), help="limits in ticks")
    chosen = parser.parse_args()
    limits = [int(part) for part in chosen.at.split(",")]
    try:
        for name in chosen.runs:
            print("\n".join(_table(name, limits)))
    except LdmError as error:
        sys.exit(f"{error.message} {error.remedy}")


def _table(name: str, limits: Sequence[int]) -> list[str]:
    run = open_run(name, DEFAULT_RUNS)
    played = results(run)
    trials = records.read(run.directory / TRAJECTORIES, Trajectory)
    ticks = success_ticks(trials, card_of(played[0].task.env).reading) if played else {}
    lines = [
        str(run.directory),
        f"{'solved within, %':>18} " + " ".join(f"{limit:>7}" for limit in limits),
    ]
    for kind, shares in rates(played, ticks, limits).items():
        lines.append(f"{kind:>18} " + " ".join(f"{share:>7.1f}" for share in shares))
    return lines


if __name__ == "__main__":
    main()
