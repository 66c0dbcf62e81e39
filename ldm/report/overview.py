"""The page's data of whole runs: figures with intervals, settings, curves and differences.

They are JSON values; rates are in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ldm.agents import load_agent
from ldm.config import Evaluate, OptimisePlan, Refine, written
from ldm.errors import LdmError
from ldm.explore import ExploredGoal
from ldm.explore.report import totals
from ldm.reporting import Reporting
from ldm.run.grid import labels
from ldm.run.reading import ReadRun, RecordedEpisode
from ldm.run.results import Report, lines
from ldm.run.statistics import COLUMNS, Summary, rate_interval, summarize
from ldm.types import EpisodeResult

Json = dict[str, Any]


@dataclass(frozen=True)
class Content:
    """A run with its episodes and explored goals."""

    run: ReadRun
    episodes: Sequence[RecordedEpisode]
    goals: Sequence[ExploredGoal]

    @property
    def results(self) -> list[EpisodeResult]:
        return [episode.result for episode in self.episodes]

    @cached_property
    def reporting(self) -> Reporting:
        """The reporting of the agent's class; the empty one if it cannot read the records."""
        reporting, results = self.run.reporting, self.results
        try:
            for result in results:
                reporting.tree(result)
                for measure in reporting.measures:
                    measure.of(result)
            reporting.findings(results)
        except (AttributeError, LookupError, TypeError, ValueError):
            return Reporting()
        return reporting

    @cached_property
    def summary(self) -> Summary | None:
        """The rates and means, or None without episodes."""
        if not self.episodes:
            return None
        spec = self.run.spec
        return summarize(self.results, seed=spec.seed, reporting=self.reporting)


def labels_of(runs: Sequence[ReadRun]) -> list[str]:
    """Return distinct labels of the runs: equal ones are numbered."""
    evaluations = [one.spec for one in runs if isinstance(one.spec, Evaluate)]
    named = iter(labels(evaluations))
    plain = [next(named) if isinstance(one.spec, Evaluate) else _named(one.spec) for one in runs]
    places: dict[str, int] = {}
    result = []
    for name in plain:
        places[name] = places.get(name, 0) + 1
        result.append(f"{name} #{places[name]}" if plain.count(name) > 1 else name)
    return result


def _named(spec: Refine | OptimisePlan) -> str:
    if isinstance(spec, OptimisePlan):
        return " ".join(filter(None, (f"plan for {spec.kind}", spec.variant)))
    return f"refinement round {spec.round}" if spec.rounds > 1 else "refinement"


def run_data(content: Content, label: str, report: Report | None) -> Json:
    """Return the data of a run without its episodes."""
    run, summary = content.run, content.summary
    manifest, spec = run.run.manifest, run.spec
    return {
        "id": run.id,
        "label": label,
        "command": manifest.command,
        "env": spec.env.name,
        "split": spec.split,
        "agent": run.agent,
        "started": manifest.started,
        "version": manifest.code.get("version", ""),
        "fingerprint": manifest.fingerprint,
        "finished": run.run.is_finished,
        "rewards": None if report is None else report.sees_reward,
        "settings": _settings(run),
        "summary": summary and summary.overall.as_data(),
        "kinds": summary.as_data()["by_kind"] if summary else {},
        "remarks": _remarks(content, report),
        "plans": _plans(run),
    }


def columns() -> list[Json]:
    """Return the presentation of the figures' columns; in comparisons they are per task."""
    return [
        {
            "name": column.name,
            "key": column.key,
            "heading": column.side or column.table,
            "meaning": column.meaning,
            "digits": column.digits,
            "per_task": column.total == "sum" and bool(column.side),
        }
        for column in COLUMNS
        if column.side or column.table
    ]


def _settings(run: ReadRun) -> list[list[str]]:
    """Return the settings that determine a run, as names and values."""
    manifest, spec = run.run.manifest, run.spec
    pairs: list[tuple[str, object]] = [("run", run.id), ("command", f"ldm {manifest.command}")]
    pairs += [("environment", spec.env.name), ("split", spec.split), ("agent", run.agent)]
    if spec.memory_digest:
        pairs += [("memory", spec.memory), ("generation", spec.generation)]
    options = [
        (name if section == "agent" else f"{section}.{name}", written(value))
        for section in spec.sections()
        for name, value in getattr(spec, section).given
        if section != "models"
    ]
    pairs += options
    pairs += [(f"model {role}", name) for role, name in sorted(manifest.models.items())]
    pairs += [("seed", spec.seed), ("started", manifest.started)]
    code = manifest.code
    pairs += [("ldm", f"{code.get('version', '')} {str(code.get('commit', ''))[:10]}".strip())]
    pairs += [("fingerprint", manifest.fingerprint)]
    return [[name, str(value)] for name, value in pairs if value not in ("", None)]


def _remarks(content: Content, report: Report | None) -> list[str]:
    """Return sentences on facts that tables do not show."""
    remarks = []
    if not content.run.run.is_finished:
        remarks.append(
            "This run is unfinished: only its recorded part is shown. "
            f"{content.run.run.resume_command} resumes it."
        )
    if report is not None:
        remarks += [line for line in lines(report) if not line.startswith("Files: ")]
    if content.goals:
        total = totals(content.goals)
        remarks.append(
            f"{total.improved} of {total.goals} goals were improved; {total.tuples} tuples were "
            f"added by exploration, after {total.steps} environment steps."
        )
    return remarks


def _plans(run: ReadRun) -> list[Json]:
    """Return the plans of an optimisation, X_0 first, each with its success."""
    iterations = run.iterations() if isinstance(run.spec, OptimisePlan) else []
    return [
        {
            "name": f"X_{number}",
            "text": one.plan,
            "success": one.success if one.experiences else None,
            "kept": one.kept,
        }
        for number, one in enumerate(iterations)
    ]


def report_of(content: Content, label: str) -> Report | None:
    """Return the report of an evaluation, or None without episodes."""
    spec, summary = content.run.spec, content.summary
    if not isinstance(spec, Evaluate) or summary is None:
        return None
    return Report(
        env=spec.env.name,
        split=spec.split,
        label=label,
        sees_reward=_sees_reward(content.run),
        directory=content.run.run.directory,
        summary=summary,
        results=tuple(content.results),
        reporting=content.reporting,
    )


def _sees_reward(run: ReadRun) -> bool:
    try:
        return load_agent(run.agent, recorded=True).sees_reward
    except LdmError:
        return False


def curves(contents: Sequence[Content], names: Sequence[str]) -> list[Json]:
    """Return success as a function of each number that alone differs between runs.

    Examples are the memory's generation and an option; within an optimisation, the iterations.
    """
    return [*_over_settings(contents), *_over_iterations(contents, names)]


def _over_settings(contents: Sequence[Content]) -> Iterator[Json]:
    known = [
        (content, content.summary, _settings_of(content.run.spec))
        for content in contents
        if isinstance(content.run.spec, Evaluate)
    ]
    names = sorted({name for _, _, values in known for name in values})
    for name in names:
        series: dict[tuple[Any, ...], list[list[float]]] = {}
        for content, summary, values in known:
            number = _number(values.get(name))
            if number is None or summary is None or summary.overall.interval is None:
                continue
            rest = tuple(pair for pair in sorted(values.items()) if pair[0] != name)
            rate = summary.overall.success_rate or 0.0
            point = [number, rate, *summary.overall.interval]
            series.setdefault((_rest_of(content.run.spec), rest), []).append(point)
        lines = [
            {"name": _title(key), "points": sorted(points)}
            for key, points in series.items()
            if len({point[0] for point in points}) > 1
        ]
        if lines:
            yield {"over": name, "series": lines}


def _settings_of(spec: Any) -> Mapping[str, str]:
    """Return the options of an evaluation's agent, and the generation of its memory."""
    values = {name: written(value) for name, value in spec.agent.given}
    if spec.memory_digest and spec.generation is not None:
        values["generation"] = str(spec.generation)
    return values


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _rest_of(spec: Any) -> tuple[Any, ...]:
    """Return the values, beside options, that evaluations on one line share."""
    memory = spec.memory if spec.memory_digest else ""
    hidden = (spec.without_tuples, spec.without_trajectories)
    tasks = (spec.kinds, spec.limit, spec.tasks, spec.seed)
    return (spec.agent.name, spec.env.name, spec.split, spec.env.given, memory, hidden, tasks)


def _title(key: tuple[Any, ...]) -> str:
    (agent, _, split, *_), options = key
    return " ".join([f"{agent} on {split}", *(f"{name}={value}" for name, value in options)])


def _over_iterations(contents: Sequence[Content], names: Sequence[str]) -> Iterator[Json]:
    series = []
    for content, name in zip(contents, names, strict=True):
        groups: dict[str, list[float]] = {}
        for episode in content.episodes:
            if episode.group:
                groups.setdefault(episode.group, []).append(float(episode.outcome == "solved"))
        points = [
            [float(number), sum(wins) / len(wins), *rate_interval(wins)]
            for number, wins in enumerate(groups.values(), 1)
        ]
        if len(points) > 1:
            series.append({"name": name, "points": points})
    if series:
        yield {"over": "iteration", "series": series}
