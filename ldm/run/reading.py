"""Read recorded runs: episodes, explored goals and recalled tuples, and the list of runs.

An unfinished run has its records so far.

Episodes are printed as lines: actions, recalled tuples as text, and votes. Everything is bounded: a
record may hold megabytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ldm import records
from ldm.agents import load_agent, reporting_named
from ldm.agents.autoplan.plans import Experience, Iteration
from ldm.config import Evaluate, OptimisePlan, Refine
from ldm.episode import CALLS
from ldm.errors import LdmError
from ldm.explore.refine import ExploredGoal, read_explored_goals
from ldm.files import open_own
from ldm.llm.calls import FILE, Call
from ldm.memory import inspect
from ldm.policy import CONSULTED, VOTES
from ldm.reason.prompting import REASONS
from ldm.reason.relevance import Relevance
from ldm.reporting import Reporting
from ldm.run.runner import SUMMARY, played
from ldm.runs import Run, open_run
from ldm.text import counted, last_line, read_json
from ldm.types import EpisodeResult, StateActionTuple, Step, Trajectory

Spec = Evaluate | Refine | OptimisePlan
#: The form of a tuple's id; records may hold anything.
_ID = re.compile(r"[0-9a-f]{16}\Z")
SPECS: Mapping[str, type[Spec]] = {one.command: one for one in (Evaluate, Refine, OptimisePlan)}


class Votes(NamedTuple):
    """The vote of one step's recalls.

    shares: the actions with most votes, each with its share. reason: why a model decided; "" if the
    vote decided. known: whether the run recorded it.
    """

    shares: tuple[tuple[str, float], ...] = ()
    reason: str = ""
    known: bool = False


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """An episode with all its trials. group: its part of the run, as "iteration 2", or "".

    texts: name → text about it, such as a reflection.
    """

    result: EpisodeResult
    trials: tuple[Trajectory, ...]
    group: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """The outcome: solved, failed or error."""
        return "error" if self.result.error else "solved" if self.result.success else "failed"

    def votes(self, trial: int) -> list[Votes]:
        """Return the votes of a trial, one per environment step."""
        shares, reasons = self._noted(VOTES, trial, "steps"), self._noted(CONSULTED, trial, "steps")
        return [
            Votes(_shares(votes), why if isinstance(why, str) else "", votes is not None)
            for votes, why in zip_longest(shares, reasons)
        ]

    def calls(self, trial: int) -> dict[int, list[str]]:
        """Return step → keys of its model calls."""
        made: dict[int, list[str]] = {}
        for call in self._noted(CALLS, trial, "calls"):
            match call:
                case [int(step), str(key)]:
                    made.setdefault(step, []).append(key)
        return made

    def _noted(self, kind: str, trial: int, name: str) -> list[Any]:
        """Return a list in the note of a kind, or [] if it is missing or another agent's."""
        for note in self.result.notes:
            if note.kind == kind and note.trial == trial:
                value = note.data.get(name)
                return value if isinstance(value, list) else []
        return []


def _shares(votes: Any) -> tuple[tuple[str, float], ...]:
    """Return the actions of a vote with their shares; notes of others may hold anything."""
    pairs: list[tuple[str, float]] = []
    for vote in votes if isinstance(votes, list) else ():
        match vote:
            case [str(action), float() | int() as share]:
                pairs.append((action, share))
    return tuple(pairs)


@dataclass(frozen=True)
class ReadRun:
    """A recorded run and its spec."""

    run: Run
    spec: Spec

    @property
    def id(self) -> str:
        return self.run.directory.name

    @property
    def agent(self) -> str:
        return self.spec.agent.name if isinstance(self.spec, Evaluate) else ""

    @cached_property
    def reporting(self) -> Reporting:
        """The reporting of the agent's class."""
        return reporting_named(self.agent) if self.agent else Reporting()

    def facts(self, episode: RecordedEpisode, place: int) -> Iterator[tuple[str, ...]]:
        """Yield, for each step of a trial that a vote decided, the facts that spoke for it most."""
        task, trial, past = episode.result.task, episode.trials[place], list[tuple[str, str]]()
        sight, votes, spec, taught = trial.opening, iter(episode.votes(place)), self.spec, None
        if isinstance(spec, Evaluate) and not spec.agent.text("control", ""):
            taught = _taught(spec.memory, spec.memory_digest, task.env, spec.generation)
        for step in trial.steps:
            if not step.action:
                continue
            vote = next(votes, Votes())
            others = [action for action, _ in vote.shares if action != step.action]
            facts: tuple[str, ...] = ()
            if taught and others and vote.shares[0][0] == step.action and not vote.reason:
                now = taught.situation(task.goal, task.kind, tuple(past), sight)
                facts = taught.because(now, step.action, others[0])
            yield facts
            past.append((sight, step.action))
            sight = step.observation

    def episodes(self) -> list[RecordedEpisode]:
        """Return the episodes of an evaluation, or the attempts of an optimisation, in order."""
        match self.run.manifest.command:
            case "eval":
                return [RecordedEpisode(x.result, x.trajectories) for x in played(self.run)]
            case "autoplan":
                iterations = enumerate(self.iterations(), 1)
                return [_attempted(i, one) for i, group in iterations for one in group.experiences]
        return []

    def goals(self) -> list[ExploredGoal]:
        """Return the explored goals of a refinement."""
        if self.run.manifest.command != "refine" or not self.run.is_finished:
            return []
        return read_explored_goals(self.run)

    def iterations(self) -> list[Iteration]:
        """Return the iterations of an optimisation; the last one has its final plan."""
        return records.read(self.run.result, Iteration) if self.run.is_finished else []

    def calls(self) -> Iterator[Call]:
        """Yield the recorded model calls, in the order in which they were made."""
        path = self.run.directory / FILE
        if path.is_file():
            yield from (c for c in records.scan(path, Call, torn_tail=True) if isinstance(c, Call))


def read_run(name: str | Path, folder: Path, *, trust: bool = False) -> ReadRun:
    """Return a recorded run, by its directory or its id below `folder`.

    trust: import the module of its agent, for the reporting of its class.
    Raise LdmError if there is no such run, or its run.json is invalid.
    """
    run = open_run(str(name), folder)
    if (spec_type := SPECS.get(run.manifest.command)) is None:
        raise LdmError(
            f"{run.directory} was recorded by `ldm {run.manifest.command}`, which has no report.",
            f"Name runs of {', '.join(SPECS)}.",
        )
    one = ReadRun(run, run.spec(spec_type))
    if trust and ":" in one.agent:
        load_agent(one.agent)
    return one


@lru_cache(8)
def _taught(place: str, digest: str, env: str, generation: int | None) -> Relevance | None:
    """Return what a run's memory teaches, or None if there is none; digest: of the memory."""
    with suppress(LdmError):
        return inspect(place, env, generation).learnt() if digest else None
    return None


def tuples_of(
    run: ReadRun, episodes: Sequence[RecordedEpisode]
) -> dict[str, StateActionTuple | None]:
    """Return the recalled tuples by id, in the order in which they were first recalled.

    They are read from the run's memory; as an id is a hash of its tuple, a grown memory has the
    same ones. None for tuples that the memory no longer holds.
    """
    spec = run.spec
    steps = (step for one in episodes for trial in one.trials for step in trial.steps)
    recalled = dict.fromkeys(tuple_id for step in steps for tuple_id, _ in step.recalls)
    if not recalled or not isinstance(spec, Evaluate) or not spec.memory_digest:
        return recalled
    known: dict[str, StateActionTuple] = {}
    for generation in (spec.generation, None):
        if missing := [one for one in recalled if one not in known and _ID.match(one)]:
            with suppress(LdmError):
                rows = inspect(spec.memory, episodes[0].result.task.env, generation).rows
                known |= {one.id: one for one in rows.take(rows.named(missing)).tuples}
    return {tuple_id: known.get(tuple_id) for tuple_id in recalled}


def _attempted(number: int, one: Experience) -> RecordedEpisode:
    trials = () if one.trajectory is None else (one.trajectory,)
    replies = {name: text for name, text in asdict(one.reflection).items() if text}
    return RecordedEpisode(one.result, trials, f"iteration {number}", replies)


Status = Literal["finished", "stopped", "running"]
#: The place of a task in a line of a part file.
_INDEX = re.compile(rb'^\{"index": ?(\d+)')


def entry_of(run: Run) -> dict[str, Any]:
    """Return the entry of a run in the list, without importing any module that it names.

    agent: of an evaluation; "" of others. model: those that are called, "" for none. score: the
    success rate of a finished evaluation. tasks, recorded: the numbers of all and of recorded ones.
    """
    manifest = run.manifest
    models = {name for role, name in manifest.models.items() if role not in ("embedder", "server")}
    tasks = len(manifest.protocol.get("tasks", ()))
    status, recorded = _progress(run, tasks)
    return {
        "id": manifest.id,
        "command": manifest.command,
        "env": run.named("env"),
        "split": run.named("split"),
        "agent": run.named("agent"),
        "model": ", ".join(sorted(models)),
        "score": _score(run) if status == "finished" else None,
        "tasks": tasks,
        "recorded": recorded,
        "status": status,
        "started": manifest.started,
        "fingerprint": manifest.fingerprint,
    }


def _progress(run: Run, tasks: int) -> tuple[Status, int]:
    """Return whether a run is finished, and how many of its tasks are recorded."""
    if run.is_finished:
        return "finished", tasks
    places = set()
    for part in run.parts.glob("*.jsonl"):
        with open_own(part) as file:
            places |= {match[1] for line in file if (match := _INDEX.match(line))}
    return "running" if run.is_locked else "stopped", len(places)


def _score(run: Run) -> float | None:
    try:
        summary = read_json(run.directory / SUMMARY)
        rate = summary["overall"]["success_rate"]
    except (LdmError, OSError, ValueError, LookupError, TypeError):
        return None  # it is derived, and may be missing
    return float(rate) if isinstance(rate, int | float) else None


EPISODE_COLUMNS = ("task", "goal", "outcome", "score", "steps", "invalid", "calls")
Tuples = Mapping[str, StateActionTuple | None]


class Bounds(NamedTuple):
    """Bounds of the output. text: characters of a text. recalls: nearest tuples of a step.

    steps: of a trial.
    """

    text: int = 300
    recalls: int = 3
    steps: int = 200


def short(text: str, most: int) -> str:
    """Return a text on one line, cut if it is longer."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else f"{line[:most]}…"


def episode_row(episode: RecordedEpisode) -> tuple[str, ...]:
    """Return the row of an episode, by EPISODE_COLUMNS."""
    result = episode.result
    what = result.task.id, short(result.task.goal, 60), episode.outcome, f"{result.score:.2f}"
    return (*what, *map(str, (result.env_steps, result.invalid, result.usage.calls)))


def episode_lines(
    episode: RecordedEpisode,
    tuples: Tuples,
    bounds: Bounds,
    trial: int | None = None,
    facts: Callable[[int], Iterable[Sequence[str]]] = lambda _: (),
) -> Iterator[str]:
    """Yield an episode step by step. trial: from 0; None is the one that counts.

    tuples: the recalled ones by id; None for those that the memory no longer holds. facts: returns
    those that decided each step of a trial.
    """
    result = episode.result
    yield result.task.id
    yield f"goal: {short(result.task.goal, bounds.text)}"
    yield (
        f"{episode.outcome}: score {result.score:.2f}, {result.env_steps} steps"
        f"{f', {result.invalid} invalid' if result.invalid else ''}"
        f", ended by {result.end.replace('_', ' ')}"
        f"{f', {result.usage.calls} model calls' if result.usage.calls else ''}"
    )
    if result.error:
        yield f"error: {short(last_line(result.error), bounds.text)}"
    for name, text in episode.texts.items():
        yield f"{name}: {short(text, bounds.text)}"
    if not episode.trials:
        yield "No step was recorded."
        return
    place = max(0, result.submitted) if trial is None else trial
    if len(episode.trials) > 1:
        yield f"trial {place + 1} of {len(episode.trials)}"
    recorded, votes, calls = episode.trials[place], iter(episode.votes(place)), episode.calls(place)
    because = iter(facts(place))
    yield f"start: {short(recorded.opening, bounds.text)}"
    for number, step in enumerate(recorded.steps[: bounds.steps]):
        vote = next(votes, None) if step.action else None
        yield from _step_lines(number, step, vote, tuples, bounds)
        if step.action and (reasons := next(because, ())):
            yield f"    because: {short('; '.join(reasons), bounds.text)}"
        if number in calls:
            yield f"    a model was asked: {counted(len(calls[number]), 'call')}"
        if step.observation:
            yield f"    → {short(step.observation, bounds.text)}"
    if (rest := len(recorded.steps) - bounds.steps) > 0:
        yield f"{rest} more steps; `ldm report` shows all."


def _step_lines(
    number: int, step: Step, vote: Votes | None, tuples: Tuples, bounds: Bounds
) -> Iterator[str]:
    if not step.action:
        yield f"{number + 1:>3} thought: {short(step.thought, bounds.text)}"
        return
    reward = f"  (reward {step.reward:+.2f})" if step.reward else ""
    invalid = "" if step.valid else "  (invalid)"
    yield f"{number + 1:>3} {short(step.action, bounds.text)}{invalid}{reward}"
    if step.thought:
        yield f"    thought: {short(step.thought, bounds.text)}"
    if vote is not None:
        yield f"    {_vote_line(vote)}"
    if step.recalls:
        yield from _recall_lines(step, tuples, bounds)


def _vote_line(vote: Votes) -> str:
    shares = ", ".join(f"{short(action, 50)} {100 * share:.1f} %" for action, share in vote.shares)
    if vote.reason:
        why = "" if vote.reason == "always" else f" ({REASONS.get(vote.reason, vote.reason)})"
        return f"a model decided{why}; recalls vote for: {shares or 'nothing'}"
    if not vote.shares:
        return "no recalled action fits: the action done least often was taken"
    return f"the vote decided: {shares}"


def _recall_lines(step: Step, tuples: Tuples, bounds: Bounds) -> Iterator[str]:
    followed = set(step.followed or ())
    known = "" if step.followed is None else f", {len(followed)} followed"
    yield f"    recalled {len(step.recalls)}{known}:"
    places = sorted(range(len(step.recalls)), key=lambda i: (-step.recalls[i][1], i))
    for place in places[: bounds.recalls]:
        tuple_id, similarity = step.recalls[place]
        mark = "*" if place in followed else " "
        yield f"    {mark} {similarity:.2f} {_tuple_line(tuple_id, tuples.get(tuple_id))}"


def _tuple_line(tuple_id: str, one: StateActionTuple | None) -> str:
    if one is None:
        return f"{tuple_id} (no longer in the memory)"
    outcome = f", score {one.outcome.score:.2f}" if one.outcome else ""
    generation = f", generation {one.generation}" if one.generation else ""
    return (
        f"{short(one.goal, 60)} | {short(one.observation, 60)} → {short(one.action, 60)} "
        f"({one.origin}{outcome}{generation})"
    )
