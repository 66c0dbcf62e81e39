"""How often 95 % intervals hold the true value: rates, paired differences, repeated tasks.

    python benchmarks/coverage.py [--runs 2000] [--seed 0]

Each line simulates so many evaluations. A task has a difficulty of its own, and an agent solves it
with a chance that depends on it. The true value is known, and the interval is the one that tables
show (10,000 resamples). Of 2,000 runs a share of 95 % has an error of about a point.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldm.run.statistics import Interval, bootstrap, mcnemar, rate_interval, sign_flips

#: What a share of 95 % may be and still count as such.
LEAST, MOST = 0.93, 0.97
Draws = np.random.Generator


@dataclass(frozen=True, slots=True)
class Setting:
    """name: what is estimated. draw: a simulated evaluation's interval. true: the value."""

    name: str
    true: float
    draw: Callable[[Draws], Interval]


def rates() -> Iterator[Setting]:
    """Yield rates of tasks played once."""
    for tasks in (20, 60, 134, 500):
        for rate in (0.05, 0.2, 0.5, 0.8, 0.95):

            def draw(rng: Draws, tasks: int = tasks, rate: float = rate) -> Interval:
                return rate_interval((rng.random(tasks) < rate).astype(float))

            yield Setting(f"rate {rate:g}, {tasks} tasks", rate, draw)


def difficulties(rng: Draws, tasks: int, spread: float) -> NDArray[np.float64]:
    """Return the mean chance at each task. spread: 0 for the same at all, large for all or none."""
    if not spread:
        return np.full(tasks, 0.5)
    return rng.beta(0.5 / spread, 0.5 / spread, tasks)


def played(rng: Draws, chances: NDArray[np.float64], repeats: int = 1) -> NDArray[np.float64]:
    """Return the mean success at each task."""
    means: NDArray[np.float64] = (rng.random((repeats, len(chances))) < chances).mean(axis=0)
    return means


def differences() -> Iterator[Setting]:
    """Yield paired differences: the second agent's chances are a share of the first's."""
    for tasks in (20, 60, 134, 500):
        for share in (1.0, 0.8, 0.5):

            def draw(rng: Draws, tasks: int = tasks, share: float = share) -> Interval:
                chances = difficulties(rng, tasks, 1.0)
                gains = played(rng, chances) - played(rng, chances * share)
                if np.ptp(gains):
                    return bootstrap(gains)
                return float(gains[0]), float(gains[0])

            yield Setting(f"difference, share {share:g}, {tasks} tasks", 0.5 * (1 - share), draw)


def repeats() -> Iterator[Setting]:
    """Yield rates, and differences, of tasks played three times, by how much tasks differ."""
    for tasks in (20, 60, 134):
        for spread in (0.0, 0.5, 2.0):

            def draw(rng: Draws, tasks: int = tasks, spread: float = spread) -> Interval:
                return rate_interval(played(rng, difficulties(rng, tasks, spread), 3))

            yield Setting(f"rate of 3 repeats, spread {spread:g}, {tasks} tasks", 0.5, draw)

            def gain(rng: Draws, tasks: int = tasks, spread: float = spread) -> Interval:
                chances = difficulties(rng, tasks, spread)
                return bootstrap(played(rng, chances, 3) - played(rng, 0.8 * chances, 3))

            yield Setting(f"difference of 3 repeats, spread {spread:g}, {tasks} tasks", 0.1, gain)


def unclustered() -> Iterator[Setting]:
    """Yield what would come of taking repeats for independent observations: the control."""

    def draw(rng: Draws) -> Interval:
        chances = difficulties(rng, 134, 2.0)
        return rate_interval((rng.random((3, 134)) < chances).astype(float).ravel())

    yield Setting("not by task: rate of 3 repeats, spread 2, 134 tasks", 0.5, draw)


def false_alarms(runs: int, seed: int) -> Iterator[tuple[str, float]]:
    """Yield how often a test of two agents alike says below 0.05."""
    rng = np.random.default_rng(seed)
    for tasks in (20, 134):
        alarms = [0, 0]
        for _ in range(runs):
            chances = difficulties(rng, tasks, 1.0)
            gains = played(rng, chances) - played(rng, chances)
            alarms[0] += mcnemar(int((gains > 0).sum()), int((gains < 0).sum())) < 0.05
            alarms[1] += sign_flips(played(rng, chances, 3) - played(rng, chances, 3), 3) < 0.05
        yield f"McNemar's test, {tasks} tasks", alarms[0] / runs
        yield f"permutation test of 3 repeats, {tasks} tasks", alarms[1] / runs


def main() -> None:
    """Print a table of how often each interval holds the true value."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| interval of a | holds the true value | |\n|---|---|---|")
    for settings in (rates(), differences(), repeats(), unclustered()):
        for setting in settings:
            rng = np.random.default_rng(arguments.seed)
            intervals = (setting.draw(rng) for _ in range(arguments.runs))
            share = np.mean(
                [
                    low <= setting.true + 1e-12 and setting.true - 1e-12 <= high
                    for low, high in intervals
                ]
            )
            remark = "" if LEAST <= share <= MOST else "below" if share < LEAST else "above"
            print(f"| {setting.name} | {100 * share:.1f} % | {remark} |", flush=True)
    print("\n| test of two agents alike | below 0.05 |\n|---|---|")
    for name, alarms in false_alarms(arguments.runs, arguments.seed):
        print(f"| {name} | {100 * alarms:.1f} % |")


if __name__ == "__main__":
    main()
