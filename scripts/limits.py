"""Print the success of a finished run at shorter limits of time (DEPS, arXiv 2302.01560, Fig. 4).

    python scripts/limits.py RUN [RUN …] [--at 500,1000,1500,2000,3000]

A task that was solved at some tick is solved within every limit above it, so that one run with the
longest limit has them all. It is for environments whose observations tell the time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.agents.deps.describe import clock
from ldm.errors import LdmError
from ldm.eval import results
from ldm.eval.runner import TRAJECTORIES
from ldm.experiments.builders import card_of
from ldm.experiments.runtime import DEFAULT_RUNS
from ldm.runs import open_run
from ldm.types import Reading, Trajectory

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
    solved = {one.task.id: one.task.kind for one in results(run)}
    ticks = success_ticks(
        records.read(run.directory / TRAJECTORIES, Trajectory),
        card_of(next(iter(results(run))).task.env).reading,
    )
    kinds = sorted(set(solved.values()))
    head = f"{'solved within, %':>18} {'tasks':>6} " + " ".join(f"{limit:>7}" for limit in limits)
    lines = [str(run.directory), head]
    for kind in [*kinds, "all"]:
        own = [task for task, own_kind in solved.items() if kind in ("all", own_kind)]
        rates = (
            100 * sum(ticks.get(task, limit + 1) <= limit for task in own) / len(own)
            for limit in limits
        )
        lines.append(f"{kind:>18} {len(own):>6} " + " ".join(f"{rate:>7.1f}" for rate in rates))
    return lines


def success_ticks(trajectories: Sequence[Trajectory], reading: Reading) -> Mapping[str, int]:
    """Return task → the tick at which it was solved, of those that were.

    Raises LdmError where observations do not tell the time.
    """
    ticks: dict[str, int] = {}
    for one in trajectories:
        if not one.success:
            continue
        time = clock(one.steps[-1].observation, reading) if one.steps else None
        if time is None:
            raise LdmError(
                f"{one.task.id} does not tell when it was solved.",
                "Limits are for environments whose observations tell the time.",
            )
        ticks[one.task.id] = min(time[0], ticks.get(one.task.id, time[0]))
    return ticks


if __name__ == "__main__":
    main()
