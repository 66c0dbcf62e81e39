"""The report of an evaluation: plain values, and one row per episode as Parquet or CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ldm.errors import LdmError
from ldm.reason import TYPES_BY_FALLBACK
from ldm.reason.prompting import BY_MEMORY, BY_MODEL, REASONS
from ldm.records import replaced, writing
from ldm.reporting import NO_REPORTING, Findings, Measure, Reporting
from ldm.run import statistics
from ldm.run.conditions import Conditions
from ldm.run.statistics import Spread, pass_at, spread, with_measures
from ldm.text import last_line, redacted
from ldm.types import EpisodeResult

if TYPE_CHECKING:
    import polars as pl

PARQUET, CSV = ".parquet", ".csv"
#: Further columns of a row, apart from the figures: name → type; None is an empty cell.
DESCRIBED: dict[str, type[Any]] = {
    **dict.fromkeys(("label", "agent", "env", "split", "run"), str),
    "repeat": int,
    **dict.fromkeys(("task", "kind", "goal"), str),
    "success": bool,
    "score": float,
    **dict.fromkeys(("end", "error"), str),
    **dict.fromkeys(("sees_reward", "actions_listed"), bool),
    **dict.fromkeys(("demonstrations", "memory_episodes", "memory_generation"), int),
    "models": str,
}


def check_table(path: Path | None) -> None:
    """Raise LdmError if a file is named whose ending names no format for results."""
    if path is not None and path.suffix not in (PARQUET, CSV):
        raise LdmError(
            f"{path} is neither a {PARQUET} nor a {CSV} file.", "Let its name end in one of them."
        )


def episodes(reports: Sequence[Report]) -> pl.DataFrame:
    """Return a row for each episode of the reports, in their order.

    Every row has the conditions, so that rows of several files can be concatenated.
    """
    import polars as pl

    figures = (column.name for report in reports for column in with_measures(report.measures))
    schema = DESCRIBED | {name: float for name in figures if name not in DESCRIBED}
    return pl.DataFrame([row for report in reports for row in _rows(report)], schema)


def write_table(reports: Sequence[Report], path: Path) -> int:
    """Write the episodes of the reports to a file, and return their number.

    Raises LdmError if its ending names no format, or if it cannot be written.
    """
    check_table(path)
    table = episodes(reports)
    with writing(path), replaced(path) as temporary:
        if path.suffix == PARQUET:
            table.write_parquet(temporary)
        else:
            table.write_csv(temporary)
    return len(table)


def _rows(report: Report) -> Iterator[dict[str, Any]]:
    had, memory = report.conditions, report.conditions.memory
    same = {
        "label": report.label,
        "env": report.env,
        "split": report.split,
        "sees_reward": report.sees_reward,
        "actions_listed": had.actions_listed,
        "demonstrations": had.demonstrations,
        "memory_episodes": None if memory is None else memory.episodes,
        "memory_generation": None if memory is None else memory.generation,
        "models": had.model,
    }
    directories = report.directories or (report.directory,)
    columns = with_measures(report.measures)
    for number, (directory, results) in enumerate(zip(directories, report.repeats, strict=True), 1):
        for result in results:
            yield {
                **{column.name: column.of(result) for column in columns},
                **same,
                "agent": result.agent,
                "run": str(directory),
                "repeat": number,
                "task": result.task.id,
                "kind": result.task.kind,
                "goal": result.task.goal,
                "success": result.solved,
                "score": statistics.score_of(result),
                "end": result.end,
                "error": redacted(result.error),
            }


HEADINGS = (
    *("kind", "episodes", "success", "95 % interval"),
    *(column.table for column in statistics.COLUMNS if column.table),
)
#: The treatment of irregular replies, by the name of their count.
REPLIES = {
    "loose": "understood although not in the requested form",
    "dropped": "further actions in the same reply were dropped",
    TYPES_BY_FALLBACK: "named no usable types: made offline instead",
    "asked again": "named the last action or an impossible one: asked again",
    "left to memory": "named no possible action: left to memory",
}


@dataclass(frozen=True, slots=True)
class Report:
    """A finished run with its results.

    label: distinguishes runs in a comparison, e.g. "ldm control=random". results: of all repeats,
    in order. reporting: that of the agent's class. conditions: those of the agent. directories: of
    all repeats. seed: of intervals.
    """

    env: str
    split: str
    label: str
    sees_reward: bool
    directory: Path
    summary: statistics.Summary
    results: tuple[EpisodeResult, ...]
    reporting: Reporting = NO_REPORTING
    conditions: Conditions = Conditions()  # noqa: RUF009 - frozen
    directories: tuple[Path, ...] = ()
    seed: int = 0

    def __str__(self) -> str:
        """Return the outcome in one line."""
        overall = self.summary.overall
        unit = "episodes" if self.is_repeated else "tasks"
        return (
            f"{self.label} on {self.env}, {self.split}: {percent(overall.success_rate)} of "
            f"{overall.episodes} {unit} solved (95 % interval {span(overall.interval)}), "
            f"{number(overall.figures['mean_steps'])} steps/task"
        )

    @property
    def is_repeated(self) -> bool:
        """Whether every task was played more than once."""
        return len(self.directories) > 1

    @property
    def repeats(self) -> list[tuple[EpisodeResult, ...]]:
        """The results of each repeat."""
        count = max(1, len(self.directories))
        size = len(self.results) // count
        return [self.results[size * place : size * (place + 1)] for place in range(count)]

    @property
    def measures(self) -> list[Measure]:
        """The agent's own figures that were measured."""
        known = self.reporting.measures
        return [measure for measure in known if measure.name in self.summary.overall.measures]

    def findings(self) -> Findings:
        """Return the findings of the agent's class on the results."""
        return self.reporting.findings(self.results)


def as_json(report: Report) -> dict[str, Any]:
    """Return the JSON values of `ldm eval --json`; rates in [0, 1], or None without episodes."""
    summary = report.summary.as_data()
    return {
        "env": report.env,
        "split": report.split,
        "agent": report.label,
        **summary["overall"],
        "by_kind": summary["by_kind"],
        "score_interval": score_interval(report),
        "sees_reward": report.sees_reward,
        "had": asdict(report.conditions),
        "run": str(report.directory),
        **({"repeats": _repeats_as_json(report)} if report.is_repeated else {}),
        **report.findings().values,
    }


def _repeats_as_json(report: Report) -> dict[str, Any]:
    return {
        "runs": list(map(str, report.directories)),
        "success_rate": asdict(_spread(report)),
        "pass_at": [asdict(one) for one in pass_at(report.repeats, seed=report.seed)],
    }


def _spread(report: Report) -> Spread:
    return spread([fmean(one.solved for one in results) for results in report.repeats])


def rows(report: Report) -> list[tuple[str, ...]]:
    """Return one row per kind and the row "all", by HEADINGS."""
    summary = report.summary
    return [*map(_row, summary.by_kind, summary.by_kind.values()), _row("all", summary.overall)]


def comparison(reports: Sequence[Report]) -> tuple[list[str], list[list[str]], str]:
    """Return columns and rows of several reports side by side, success by kind included.

    Conditions that are the same for all are left out of the columns; the third value states them.
    """
    kinds = sorted({kind for report in reports for kind in report.summary.by_kind})
    sides, rows_by_agent = [one for one in statistics.COLUMNS if one.side], []
    for report in reports:
        overall, by_kind = report.summary.overall, report.summary.by_kind
        rows_by_agent.append(
            {
                "agent": report.label,
                "success": percent(overall.success_rate),
                "95 % interval": span(overall.interval),
                **{k: percent(by_kind[k].success_rate) if k in by_kind else "–" for k in kinds},
                **{one.side: one.text(_per_task(one, overall)) for one in sides},
                "rewards": "seen" if report.sees_reward else "hidden",
                **report.conditions.cells(),
            }
        )
    equal = {
        name: rows_by_agent[0][name]
        for name in ("trials", "calls", "tokens", "rewards", *reports[0].conditions.cells())
        if len({row[name] for row in rows_by_agent}) == 1
    }
    columns = [name for name in rows_by_agent[0] if name not in equal]
    known = [f"{name} {value}" for name, value in equal.items() if value not in ("–", "0", "0.0")]
    silent = "calls" in equal and equal["calls"] in ("–", "0.0")
    words = [*known, *(["no model is called"] if silent else [])]
    remark = f"The same for all of them: {', '.join(words)}." if words else ""
    return columns, [[row[name] for name in columns] for row in rows_by_agent], remark


def _per_task(column: statistics.Column, group: statistics.Aggregate) -> float | None:
    """Return a column's mean per episode."""
    value = group.figures[column.key]
    return value if value is None or column.total == "mean" else value / max(1, group.episodes)


def lines(report: Report) -> list[str]:
    """Return remarks on the table: attempts, rewards, errors, the location of the files."""
    overall = report.summary.overall
    trials = overall.figures["trials"]
    attempts = "1 attempt per task"
    if trials not in (None, 1.0):
        attempts = f"{number(trials)} attempts per task: compare with agents that had as many"
    reward = "shown to" if report.sees_reward else "hidden from"
    sentences = [f"{report.label}: {attempts}; reward {reward} the agent.", _had(report)]
    if report.is_repeated:
        sentences.append(_repeats_in_words(report))
    if overall.success_rate in (0.0, 1.0):
        which = "failed" if overall.success_rate == 0 else "succeeded"
        sentences.append(f"All {which}: exact (Clopper–Pearson) interval.")
    if (interval := score_interval(report)) is not None:
        sentences.append(
            f"Mean score {overall.mean_score:.3f} (95 % interval {interval[0]:.3f}–"
            f"{interval[1]:.3f}); success is a score of 1."
        )
    sentences += _measured(report)
    sentences += report.findings().lines
    counts = _replies(report.results)
    sentences += filter(None, (describe_decisions(counts), describe_replies(counts)))
    if broken := [result for result in report.results if result.error]:
        first, rate = broken[0], overall.finished_rate
        others = "" if rate is None else f" ({percent(rate)} of the others solved)"
        verb = "ended in an error and counts" if len(broken) == 1 else "ended in errors and count"
        sentences.append(
            f"{len(broken)} of {overall.episodes} episodes {verb} as failed"
            f"{others}; `ldm eval --resume"
            f" {report.directory} --retry-errors` retries them. The first, {first.task.id}:"
            f" {last_line(first.error)}"
        )
    sentences.append(f"Files: {', '.join(map(str, report.directories or [report.directory]))}")
    return sentences


def _had(report: Report) -> str:
    """Describe the agent's conditions and its use of models."""
    figures = report.summary.overall.figures
    calls, tokens, steps = (figures[name] for name in ("calls", "tokens", "mean_steps"))
    used = ""
    if calls and tokens is not None:
        a_step = f", {calls / steps:.2f} a step," if steps else ""
        used = f" ({number(calls)} calls{a_step} and {tokens:,.0f} tokens per task)"
    return f"Conditions: {report.conditions}{used}."


def _repeats_in_words(report: Report) -> str:
    """Describe the success over the repeats of each task."""
    figures = _spread(report)
    rates = ", ".join(percent(rate) for rate in figures.rates)
    chances = ", ".join(
        f"pass@{one.k} {percent(one.rate)} ({span(one.interval)}),"
        f" pass^{one.k} {percent(one.every)}"
        for one in pass_at(report.repeats, seed=report.seed)
    )
    return (
        f"Each of {len(report.results) // len(report.directories)} tasks was played "
        f"{len(report.directories)} times: success {rates} (mean {percent(figures.mean)}, standard "
        f"deviation {100 * (figures.deviation or 0):.1f}); {chances}. Intervals and tests are of "
        "tasks, whose repeats are taken together."
    )


def _measured(report: Report) -> list[str]:
    """Return one line on each of the agent's own figures."""
    sentences = []
    for measure in report.measures:
        kinds = ", ".join(
            f"{kind} {group.measures[measure.name]:.2f}"
            for kind, group in report.summary.by_kind.items()
            if measure.name in group.measures
        )
        mean = report.summary.overall.measures[measure.name]
        sentences.append(f"{measure.name}, {measure.meaning}, on average: {mean:.2f} ({kinds}).")
    return sentences


def _replies(results: Sequence[EpisodeResult]) -> Counter[str]:
    """Return the counts of a model's replies by kind, if the agent noted them ("replies")."""
    counts: Counter[str] = Counter()
    for note in (note for result in results for note in result.notes if note.kind == "replies"):
        counts.update({k: v for k, v in note.data.items() if isinstance(v, int)})
    return counts


def describe_decisions(counts: Mapping[str, int]) -> str:
    """Describe the steps decided by memory and by a model, "" if no step was counted."""
    by = {k.removeprefix(BY_MODEL): n for k, n in counts.items() if k.startswith(BY_MODEL)}
    reasons = {REASONS.get(reason, reason): n for reason, n in by.items()}
    by_memory, by_model = counts.get(BY_MEMORY, 0), sum(reasons.values())
    if not by_memory + by_model:
        return ""
    why = "; ".join(f"{words} {n}" for words, n in sorted(reasons.items()))
    return (
        f"Decided by memory: {by_memory:,} of {by_memory + by_model:,} steps; by the model: "
        f"{by_model:,}{f' ({why})' if why else ''}."
    )


def describe_replies(counts: Mapping[str, int]) -> str:
    """Describe the usability of replies, "" without any; counts: see `Reasoner.counts`."""
    replies, malformed = counts.get("replies", 0), counts.get("malformed", 0)
    if not replies:
        return ""
    parts = [f"Malformed replies: {malformed} of {replies} ({100 * malformed / replies:.1f} %)"]
    parts += (f"{counts[name]} {words}" for name, words in REPLIES.items() if counts.get(name))
    if matched := {name: n for name, n in counts.items() if name.startswith("matched ")}:
        how = ", ".join(f"{name.removeprefix('matched ')} {n}" for name, n in matched.items())
        parts.append(f"actions were matched to admissible ones: {how}")
    return "; ".join(parts) + "."


def score_interval(report: Report) -> statistics.Interval | None:
    """Return the 95 % interval of the mean score, or None if scores are only successes."""
    solved = statistics.by_task(report.results, lambda one: one.solved)
    scores = statistics.by_task(report.results, statistics.score_of)
    means = [[fmean(values) for values in of.values()] for of in (scores, solved)]
    return None if means[0] == means[1] else statistics.bootstrap(means[0])


def as_json_group(reports: Sequence[Report]) -> dict[str, Any]:
    """Return one object for an agent; "compared" holds the others, "control" its control.

    "differences" holds the paired difference of each two.
    """
    first, *others = reports
    group = as_json(first)
    pairs = _differences(reports)
    if control := [as_json(o) for o in others if o.label.startswith(f"{first.label} control=")]:
        group["control"] = control[0]
    if others:
        group["compared"] = [
            {**as_json(other), "difference": _data(pairs[0, number])}
            for number, other in enumerate(others, 1)
        ]
        group["differences"] = [
            {"first": reports[i].label, "second": reports[j].label, "difference": _data(pair)}
            for (i, j), pair in pairs.items()
        ]
    return group


def _differences(reports: Sequence[Report]) -> dict[tuple[int, int], statistics.Difference | None]:
    """Return the paired difference of each two reports, by their places, with corrected p-values.

    The difference is None if two have no task in common.
    """
    pairs: dict[tuple[int, int], statistics.Difference | None] = {}
    for i, j in combinations(range(len(reports)), 2):
        try:
            pairs[i, j] = statistics.difference(reports[i].results, reports[j].results)
        except LdmError:
            pairs[i, j] = None
    measured = {place: pair for place, pair in pairs.items() if pair is not None}
    if len(measured) > 1:
        corrected = statistics.holm([pair.p_value for pair in measured.values()])
        for (place, pair), p_value in zip(measured.items(), corrected, strict=True):
            pairs[place] = replace(pair, corrected_p=p_value)
    return pairs


def _data(pair: statistics.Difference | None) -> dict[str, Any] | None:
    return None if pair is None else asdict(pair)


def gains(reports: Sequence[Report]) -> list[str]:
    """Return a line on the paired difference of each two reports."""
    pairs = _differences(reports)
    sentences = [_gain(reports[i], reports[j], pair) for (i, j), pair in pairs.items()]
    if len(sentences) > 1:
        sentences.append(
            f"The corrected p-values allow for the {len(sentences)} comparisons (Holm's method)."
        )
    return sentences


def _gain(first: Report, second: Report, gain: statistics.Difference | None) -> str:
    if gain is None:
        return f"{first.label} and {second.label} have no task in common."
    if gain.interval is None:
        between = "(the same for every task: no interval)"
    else:
        between = f"[{100 * gain.interval[0]:+.1f}, {100 * gain.interval[1]:+.1f}]"
    corrected = "" if gain.corrected_p is None else f", corrected {_p(gain.corrected_p)}"
    alone = "more often by the first" if gain.repeated else "by the first alone"
    test = "exact permutation test over tasks" if gain.repeated else "McNemar's exact test"
    return (
        f"{first.label} − {second.label}: {100 * gain.mean:+.1f} points "
        f"{between} on the same {gain.tasks} tasks; "
        f"{gain.only_first} were solved {alone}, {gain.only_second} by the second "
        f"({test}: p {_p(gain.p_value)}{corrected})."
    )


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def percent(rate: float | None) -> str:
    """Return a rate in [0, 1] as a percentage, or a dash for None."""
    return "–" if rate is None else f"{100 * rate:.1f} %"


def span(interval: statistics.Interval | None) -> str:
    """Return an interval of rates in per cent."""
    return "–" if interval is None else f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}"


def number(value: float | None) -> str:
    """Return a mean, to one decimal."""
    return "–" if value is None else f"{value:.1f}"


def _row(kind: str, group: statistics.Aggregate) -> tuple[str, ...]:
    figures = (one.text(group.figures[one.key]) for one in statistics.COLUMNS if one.table)
    rate = percent(group.success_rate), span(group.interval)
    return (kind, str(group.episodes), *rate, *figures)
