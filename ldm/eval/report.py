"""What an evaluation says to its reader, as values: the command line prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from ldm.eval.statistics import Group, Interval, Summary, bootstrap, difference
from ldm.types import EpisodeResult

COLUMNS = ("kind", "episodes", "success", "95 % interval", "steps", "invalid", "errors", "seconds")


@dataclass(frozen=True, slots=True)
class Report:
    """A finished run and what it came to. `label` tells arms apart, e.g. "ldm (random tuples)"."""

    env: str
    split: str
    label: str
    sees_reward: bool
    directory: Path
    summary: Summary
    results: tuple[EpisodeResult, ...]


def as_json(report: Report) -> dict[str, Any]:
    """The object that `ldm eval --json` prints; rates in [0, 1], None where nothing counts."""
    overall = report.summary.overall
    return {
        "env": report.env,
        "split": report.split,
        "agent": report.label,
        "episodes": overall.episodes,
        "success_rate": overall.success_rate,
        "interval": overall.interval,
        "by_kind": {
            kind: {
                "episodes": group.episodes,
                "success_rate": group.success_rate,
                "interval": group.interval,
                "mean_steps": group.mean_steps,
                "errors": group.errors,
            }
            for kind, group in report.summary.by_kind.items()
        },
        "mean_score": overall.mean_score,
        "score_interval": score_interval(report),
        "mean_steps": overall.mean_steps,
        "errors": overall.errors,
        "run": str(report.directory),
    }


def rows(report: Report) -> list[tuple[str, ...]]:
    """A row a kind and the row "all", by COLUMNS."""
    kinds = report.summary.by_kind
    found = [_row(kind, group) for kind, group in kinds.items()]
    return [*found, _row("all", report.summary.overall)]


def comparison(reports: Sequence[Report]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of several reports side by side, success by kind included."""
    kinds = sorted({kind for report in reports for kind in report.summary.by_kind})
    columns = ("agent", "success", "95 % interval", *kinds, "steps", "trials", "calls", "rewards")
    found = []
    for report in reports:
        overall, by_kind = report.summary.overall, report.summary.by_kind
        found.append(
            (
                report.label,
                percent(overall.success_rate),
                span(overall.interval),
                *(percent(by_kind[k].success_rate) if k in by_kind else "–" for k in kinds),
                number(overall.mean_steps),
                number(overall.trials),
                number(overall.calls),
                "seen" if report.sees_reward else "hidden",
            )
        )
    return columns, found


def lines(report: Report) -> list[str]:
    """What a reader must know beside the table: attempts, rewards, errors, the files' place."""
    overall = report.summary.overall
    attempts = (
        "one trial a task"
        if overall.trials in (None, 1.0)
        else f"{number(overall.trials)} trials a task: compare it with agents that had as many"
    )
    reward = "sees rewards" if report.sees_reward else "does not see rewards"
    said = [f"{report.label}: {attempts}; it {reward}."]
    interval = score_interval(report)
    if interval is not None:
        said.append(
            f"Mean score {overall.mean_score:.3f} (95 % interval {interval[0]:.3f}–"
            f"{interval[1]:.3f}); success is a score of 1."
        )
    broken = [result for result in report.results if result.error]
    if broken:
        said.append(
            f"{len(broken)} of {overall.episodes} episodes ended in an error and do not count. "
            f"The first, {broken[0].task.id}: {broken[0].error.strip().splitlines()[-1]}"
        )
    said.append(f"Files: {report.directory}")
    return said


def score_interval(report: Report) -> Interval | None:
    """The 95 % interval of the mean score; None where scores say no more than successes."""
    counted = [result for result in report.results if result.end != "error"]
    if all(result.score == float(result.success) for result in counted):
        return None
    return bootstrap([result.score for result in counted])


def as_json_group(reports: Sequence[Report]) -> dict[str, Any]:
    """One object for an agent and, under the key "control", its control."""
    first, *others = [as_json(report) for report in reports]
    return {**first, "control": others[0]} if others else first


def gains(reports: Sequence[Report]) -> list[str]:
    """A line on the paired difference of the first report to each of the others."""
    first, *others = reports
    return [_gain(first, other) for other in others]


def _gain(first: Report, second: Report) -> str:
    try:
        found = difference(first.results, second.results)
    except LdmError as error:  # all episodes of one of them ended in an error
        return str(error)
    low, high = found.interval
    return (
        f"{first.label} − {second.label}: {100 * found.mean:+.1f} points "
        f"[{100 * low:+.1f}, {100 * high:+.1f}] on the same {found.tasks} tasks."
    )


def percent(rate: float | None) -> str:
    """A rate in [0, 1] as a percentage; a dash where there is none."""
    return "–" if rate is None else f"{100 * rate:.1f} %"


def span(interval: Interval | None) -> str:
    """An interval of rates in per cent."""
    return "–" if interval is None else f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}"


def number(value: float | None) -> str:
    """A mean, to one decimal."""
    return "–" if value is None else f"{value:.1f}"


def _row(kind: str, group: Group) -> tuple[str, ...]:
    return (
        kind,
        str(group.episodes),
        percent(group.success_rate),
        span(group.interval),
        number(group.mean_steps),
        str(group.invalid),
        str(group.errors),
        f"{group.seconds:.1f}",
    )
