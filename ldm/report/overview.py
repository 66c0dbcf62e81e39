"""The page's data of whole runs: figures with intervals, settings, curves and differences.

They are JSON values; rates are in [0, 1].

Of single episodes and explored goals, tuples are numbered in the order in which they are first
recalled, and steps refer to them by number: an id of 16 characters would be repeated a million
times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat
from typing import Any

from ldm.agents import load_agent
from ldm.config import Evaluate, OptimisePlan, Refine, written
from ldm.episode import CALLS
from ldm.errors import LdmError
from ldm.explore.refine import ExploredGoal, Tree
from ldm.explore.report import drawn, totals
from ldm.llm.calls import Call
from ldm.policy import CONSULTED, VOTES
from ldm.reason.prompting import REASONS
from ldm.reporting import Branch, Reporting, TaskTree
from ldm.run.grid import labels
from ldm.run.reading import ReadRun, RecordedEpisode, Votes
from ldm.run.results import Report, lines
from ldm.run.statistics import COLUMNS, Summary, rate_interval, summarize
from ldm.text import shared
from ldm.types import EpisodeResult, StateActionTuple, Step, Trajectory, by_key

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
    return [
        f"{name} #{plain[:place].count(name) + 1}" if plain.count(name) > 1 else name
        for place, name in enumerate(plain)
    ]


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
    pairs += [
        (name if section == "agent" else f"{section}.{name}", written(value))
        for section in spec.sections()
        for name, value in getattr(spec, section).given
        if section != "models"
    ]
    pairs += [(f"model {role}", name) for role, name in sorted(manifest.models.items())]
    version, commit = (str(manifest.code.get(name, "")) for name in ("version", "commit"))
    pairs += [("seed", spec.seed), ("started", manifest.started)]
    pairs += [("ldm", f"{version} {commit[:10]}".strip()), ("fingerprint", manifest.fingerprint)]
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
            f"{total['improved']} of {total['goals']} goals were improved; {total['tuples']} "
            f"tuples were added by exploration, after {total['steps']} environment steps."
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
    charts: dict[str, dict[tuple[Any, ...], list[list[float]]]] = {}
    for content in contents:
        spec, summary = content.run.spec, content.summary
        if not isinstance(spec, Evaluate) or summary is None:
            continue
        overall, values = summary.overall, _settings_of(spec)
        for name, value in values.items():
            if (number := _number(value)) is not None:
                rest = tuple(pair for pair in sorted(values.items()) if pair[0] != name)
                line = charts.setdefault(name, {}).setdefault((_rest_of(spec), rest), [])
                line.append([number, overall.success_rate or 0.0, *(overall.interval or ())])
    for name, chart in sorted(charts.items()):
        series = [
            {"name": _title(key), "points": sorted(points)}
            for key, points in chart.items()
            if len({point[0] for point in points}) > 1
        ]
        if series:
            yield {"over": name, "series": series}


def _settings_of(spec: Evaluate) -> Mapping[str, str]:
    """Return the options of an evaluation's agent, and the generation of its memory."""
    values = {name: written(value) for name, value in spec.agent.given}
    if spec.memory_digest and spec.generation is not None:
        values["generation"] = str(spec.generation)
    return values


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _rest_of(spec: Evaluate) -> tuple[Any, ...]:
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
        attempts = (one for one in content.episodes if one.group)
        groups = by_key((one.group, float(one.outcome == "solved")) for one in attempts)
        points = [
            [float(number), sum(wins) / len(wins), *rate_interval(wins)]
            for number, wins in enumerate(groups.values(), 1)
        ]
        if len(points) > 1:
            series.append({"name": name, "points": points})
    if series:
        yield {"over": "iteration", "series": series}


#: Characters of one text that the page holds; a record may have lines of many megabytes.
LONGEST = 2_000_000
#: Similarities are whole numbers of this fraction.
SIMILARITY = 1000
#: Notes that are shown at steps and so not listed.
SHOWN_BY_STEPS = (VOTES, CONSULTED, CALLS)


@dataclass
class Numbering:
    """The tuples of all runs of a report by number, and the entries that recalled them.

    uses: for each tuple, for each entry that recalled it: the entry's number, the number of steps
    that recalled it, and of those that followed it.
    """

    tuples: dict[str, StateActionTuple | None] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    uses: list[list[int]] = field(default_factory=list)

    def take(self, tuples: Mapping[str, StateActionTuple | None]) -> None:
        """Give numbers to new tuples."""
        for tuple_id, one in tuples.items():
            if tuple_id not in self.numbers:
                self.numbers[tuple_id] = len(self.numbers)
                self.uses.append([])
            if self.tuples.get(tuple_id) is None:
                self.tuples[tuple_id] = one

    def used(self, entry: int, trials: Sequence[Trajectory]) -> None:
        """Count the recalls of an entry."""
        steps = (step for trial in trials for step in trial.steps)
        recalls = (
            (self.numbers[tuple_id], place in (step.followed or ()))
            for step in steps
            for place, (tuple_id, _) in enumerate(step.recalls)
        )
        for number, followed in by_key(recalls).items():
            self.uses[number] += [entry, len(followed), sum(followed)]

    def as_data(self) -> list[Json]:
        """Return the tuples' texts, by number."""
        return [_tuple(tuple_id, self.tuples[tuple_id]) for tuple_id in self.numbers]


def cut(text: str) -> str:
    """Return a text, cut if it is too long for the page."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n… {len(text) - LONGEST} more characters are in the record"


def episode_data(
    run: ReadRun, episode: RecordedEpisode, reporting: Reporting, numbers: Mapping[str, int]
) -> Json:
    """Return an episode of a run with all its trials, its tree and its notes.

    reporting: of the agent's class. numbers: of the recalled tuples.
    """
    result = episode.result
    tree = reporting.tree(result)
    notes = [note for note in result.notes if note.kind not in SHOWN_BY_STEPS]
    return {
        "trials": [_trial(run, episode, place, numbers) for place in range(len(episode.trials))],
        "submitted": result.submitted,
        "end": result.end,
        "error": cut(result.error),
        "texts": [[name, cut(text)] for name, text in episode.texts.items()],
        "notes": [[note.kind, note.trial, note.data] for note in notes],
        "trees": [_tree(tree)] if tree else [],
    }


def goal_data(goal: ExploredGoal) -> Json:
    """Return an explored goal: the ground process as a trial, its trees and added tuples."""
    grounds = [tree.ground for tree in goal.trees][:1]
    return {
        "trials": [{**_steps(ground, {}), "name": "ground process"} for ground in grounds],
        "submitted": 0,
        "end": "error" if goal.error else "",
        "error": cut(goal.error),
        "texts": [],
        "notes": [],
        "trees": [_explored(tree) for tree in goal.trees],
    }


def call_data(calls: Sequence[Call]) -> list[Json]:
    """Return model calls, without the beginnings of prompts that repeat the call before.

    messages: role, number of leading characters shared with the same message of the call before,
    and the rest.
    """
    before: Sequence[str] = ()
    data = []
    for call in calls:
        texts, messages = list[str](), list[list[Any]]()
        for message, earlier in zip(call.request.messages, chain(before, repeat("")), strict=False):
            texts.append(cut(message.content))
            same = shared(texts[-1], earlier)
            messages.append([message.role, same, texts[-1][same:]])
        data.append(
            {
                "key": call.key,
                "role": call.role,
                "model": call.request.model,
                "messages": messages,
                "reply": cut(call.text),
                "finish": call.finish,
                "error": call.error,
                "usage": [call.usage.prompt_tokens, call.usage.completion_tokens],
                "temperature": call.request.sampling.temperature,
            }
        )
        before = texts
    return data


def _trial(run: ReadRun, episode: RecordedEpisode, place: int, numbers: Mapping[str, int]) -> Json:
    trial, facts = episode.trials[place], run.facts(episode, place)
    data = _steps(trial, numbers)
    votes, calls = iter(episode.votes(place)), episode.calls(place)
    for number, (step, entry) in enumerate(zip(trial.steps, data["steps"], strict=True)):
        vote = next(votes, Votes()) if step.action else Votes()
        if vote.known:
            entry["votes"] = [list(share) for share in vote.shares]
        if vote.reason:
            entry["asked"] = REASONS.get(vote.reason, vote.reason)
        if step.action and (because := next(facts)):
            entry["because"] = [cut(fact) for fact in because]
        if number in calls:
            entry["calls"] = calls[number]
    if after := calls.get(len(trial.steps)):
        data["calls"] = after
    return data


def _steps(trial: Trajectory, numbers: Mapping[str, int]) -> Json:
    return {
        "opening": cut(trial.opening),
        "score": trial.score,
        "success": trial.success,
        "steps": [_step(step, numbers) for step in trial.steps],
    }


def _step(step: Step, numbers: Mapping[str, int]) -> Json:
    data: Json = {"action": cut(step.action), "seen": cut(step.observation)}
    more = {"thought": cut(step.thought), "reward": step.reward, "invalid": not step.valid}
    data |= {name: value for name, value in more.items() if value}
    if recalls := [pair for pair in step.recalls if pair[0] in numbers]:
        data["recalls"] = [
            number
            for tuple_id, similarity in recalls
            for number in (numbers[tuple_id], round(similarity * SIMILARITY))
        ]
        if step.followed is not None:
            data["followed"] = list(step.followed)
    return data


def _tuple(tuple_id: str, one: StateActionTuple | None) -> Json:
    if one is None:
        return {"id": tuple_id}
    outcome = one.outcome
    return {
        "id": tuple_id,
        "goal": cut(one.goal),
        "kind": one.kind,
        "seen": cut(one.observation),
        "history": cut(one.history.text),
        "action": cut(one.action),
        "origin": one.origin,
        "generation": one.generation,
        "task": one.task_id,
        "step": one.step,
        **({"score": outcome.score, "value": outcome.value} if outcome else {}),
    }


def _explored(tree: Tree) -> Json:
    outcome = f"best score {max(tree.ground.score, tree.best_score):.2f}"
    improved = ", improved" if tree.improved else ""
    title = f"ground process {tree.ground.score:.2f}, {outcome}{improved}"
    added = [_tuple(row.tuple.id, row.tuple) for row in tree.added]
    return {**_tree(drawn(tree)), "title": title, "added": added}


def _tree(tree: TaskTree) -> Json:
    branches = [*map(_branch, tree.branches)]
    return {"title": tree.headline, "paths": tree.paths, "branches": branches}


def _branch(branch: Branch) -> Json:
    data: Json = {"depth": branch.depth, "text": cut(branch.text)}
    for name in ("state", "words", "chosen", "key"):
        if value := getattr(branch, name):
            data[name] = value
    if branch.figures:
        data["figures"] = [list(pair) for pair in branch.figures.items()]
    if branch.texts:
        data["texts"] = [[name, cut(text)] for name, text in branch.texts.items()]
    return data


def entry_rows(
    episodes: Sequence[RecordedEpisode], goals: Sequence[ExploredGoal]
) -> Iterator[Json]:
    """Yield the row of each episode or explored goal in lists."""
    for episode in episodes:
        result = episode.result
        yield {
            "task": result.task.id,
            "kind": result.task.kind,
            "goal": cut(result.task.goal)[:300],
            "outcome": episode.outcome,
            "group": episode.group,
            "score": result.score,
            **{column.name: column.of(result) for column in COLUMNS},
        }
    for goal in goals:
        improved = any(tree.improved for tree in goal.trees)
        yield {
            "task": goal.task.id,
            "kind": goal.task.kind,
            "goal": cut(goal.task.goal)[:300],
            "outcome": "error" if goal.error else "improved" if improved else "unchanged",
            "group": "",
            "score": max((max(t.ground.score, t.best_score) for t in goal.trees), default=0.0),
            "steps": sum(tree.steps for tree in goal.trees),
            "trials": len(goal.trees),
            "seconds": goal.seconds,
        }
