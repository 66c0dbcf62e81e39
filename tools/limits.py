"""From one run with a long limit of time to its success within shorter ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ldm.deps.select import clock
from ldm.errors import LdmError
from ldm.types import EpisodeResult, Reading, Trajectory


def rates(
    results: Sequence[EpisodeResult], ticks: Mapping[str, int], limits: Sequence[int]
) -> dict[str, list[float]]:
    """Return kind, and "all", → per cent of its tasks solved within each limit.

    ticks: as of `success_ticks`.
    """
    kinds = [*sorted({one.task.kind for one in results}), "all"]
    by_kind = {
        kind: [one.task.id for one in results if kind in ("all", one.task.kind)] for kind in kinds
    }
    return {
        kind: [
            100 * sum(task in ticks and ticks[task] <= limit for task in tasks) / len(tasks)
            for limit in limits
        ]
        for kind, tasks in by_kind.items()
    }


def success_ticks(trajectories: Iterable[Trajectory], reading: Reading) -> Mapping[str, int]:
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
