"""Plot how success grows with the number of expert episodes in the memory.

    python examples/success_curve.py

For each size a memory is built from so many episodes, of all kinds of task evenly, and the agent
`ldm` is evaluated with it on the same games. The curve is drawn with
characters, so that no plotting package is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import ldm

WIDTH = 50


class Point(NamedTuple):
    """The success rate with a memory of so many episodes, its interval, and the steps of a task."""

    episodes: int
    success: float
    low: float
    high: float
    steps: float | None


def mixed(trajectories: Sequence[ldm.Trajectory]) -> list[ldm.Trajectory]:
    """Return the trajectories with their kinds of task in turn: any beginning has all evenly."""
    by_kind = defaultdict[str, list[ldm.Trajectory]](list)
    for trajectory in trajectories:
        by_kind[trajectory.task.kind].append(trajectory)
    return [trajectory for turn in zip(*by_kind.values(), strict=True) for trajectory in turn]


def main(
    sizes: Sequence[int] = (6, 12, 30, 60, 120),
    data: Path | None = None,
    folder: Path = Path(".ldm/examples/curve"),
    limit: int | None = None,
) -> list[Point]:
    """Evaluate on `limit` games (None: all 60) with so many episodes of `data` (None: shipped)."""
    everything = ldm.read_trajectories(data)
    episodes = mixed([episode for episode in everything if episode.task.env == "alfworld"])
    curve = []
    for size in sizes:
        memory = str(folder / f"memory-{size}")
        ldm.build_memory(episodes[:size], memory, ldm.Build(rebuild=True))
        spec = ldm.Evaluate("alfworld", "demo_test", memory=memory, limit=limit)
        report = ldm.evaluate(spec, runtime=ldm.Runtime(runs=folder / "runs"))
        overall = report.summary.overall
        low, high = overall.interval or (0.0, 1.0)
        steps = overall.figures["mean_steps"]
        curve.append(Point(size, overall.success_rate or 0.0, low, high, steps))
    return curve


def plot(curve: Sequence[Point]) -> str:
    """Return a line for each size: the success rate (o) within its 95 % interval (-)."""
    lines = []
    for size, success, low, high, _ in curve:
        at, start, end = (round(rate * WIDTH) for rate in (success, low, high))
        bar = [" -"[start <= column <= end] for column in range(WIDTH + 1)]
        bar[at] = "o"
        lines.append(f"{size:>4} episodes |{''.join(bar)}| {success:.0%}")
    return "\n".join(lines)


if __name__ == "__main__":
    points = main()
    print(*points, sep="\n")
    print(plot(points))
