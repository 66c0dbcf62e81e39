"""The gate of a refinement: what does not lower the score on training goals joins the memory.

A goal's tuples are first tried alone, on the goals most like it: are they worse off with them? What
passes is tried together on all goals, once for each `reach` (how near a goal must be to recall
them). No goal judges tuples of its own: it is played without them, as it is without anything else
that the memory holds of its source.

The paper adds everything that exploration finds (LDM² §3.3); `gate="off"` does that.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import ClassVar, Literal, TypeVar

from ldm import records
from ldm.errors import RunStopped
from ldm.explore.positions import Positions
from ldm.explore.refine import ExplorationFactory, ExplorationSetup, ExploredGoal
from ldm.memory import IndexedTuple, Memory
from ldm.policy import Observed
from ldm.reasoner import Notes
from ldm.runs import Run, run_items, writing
from ldm.types import Task

ALONE = "gate_alone.jsonl"
TOGETHER = "gate_together.jsonl"
#: Differences of scores below this are none.
TOLERANCE = 1e-9

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GateOptions:
    """How the gate judges.

    gate: "off" adds everything, as the paper does. reach: the only one to try, see `IndexedTuple`;
    -1 tries REACHES. neighbours: on how many goals the tuples of each goal are tried alone; 0 tries
    them together only. share: a trajectory that has a part in more of the steps than this, over all
    goals, is refused: it says the same everywhere.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    gate: Literal["on", "off"] = "on"
    reach: float = -1.0
    neighbours: int = 4
    share: float = 0.5

    def __post_init__(self) -> None:
        if not (self.reach == -1 or 0 <= self.reach <= 1):
            raise ValueError("reach is from 0 to 1, or -1")
        if self.neighbours < 0 or not 0 < self.share <= 1:
            raise ValueError("neighbours is 0 or more, and share is above 0 and at most 1")

    @property
    def reaches(self) -> tuple[float, ...]:
        return REACHES if self.reach == -1 else (self.reach,)


#: The bounds that are tried, widest first: from every goal to hardly any but the same.
REACHES = (0.0, 0.5, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Trial:
    """A goal to be played with some of the candidates.

    hidden: trajectories among the candidates that it does without. reach: of the others.
    """

    index: int
    task: Task
    hidden: tuple[str, ...]
    reach: float


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a trial.

    score, steps: of the episode. recalled: candidate trajectory → in how many steps it was
    recalled. error: the traceback of an episode that failed; it counts with the score 0.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    index: int
    task: str
    score: float
    steps: int
    recalled: tuple[tuple[str, int], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gate found about the tuples of one goal.

    wins, losses: on how many of its neighbours the score rose and fell with them. refused: why they
    are left out, "" where they are kept.
    """

    task: str
    trajectories: tuple[str, ...]
    tuples: int
    wins: int = 0
    losses: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scores of all goals without any candidate and with the kept ones, at one reach."""

    reach: float
    before: tuple[float, ...]
    after: tuple[float, ...]
    steps: float

    @property
    def difference(self) -> float:
        """The mean difference."""
        return fmean(self.after) - fmean(self.before)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's result. rows: what is added. chosen: at this reach; None where nothing is."""

    rows: tuple[IndexedTuple, ...]
    judgements: tuple[Judgement, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    chosen: Comparison | None = None


def judge(  # noqa: PLR0913 - passed by name in every call
    run: Run,
    factory: ExplorationFactory,
    explored: Sequence[ExploredGoal],
    options: GateOptions,
    *,
    workers: int = 1,
    threads: bool = False,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Verdict:
    """Play the explored goals with and without what was learnt, and say what to add.

    factory: builds the memory and policy that the goals were explored with.
    on_progress: called with (stage, done, total).
    What was played is recorded in `run`; called again after an interruption, it goes on.
    Raises what `ldm.explore.refine` raises.
    """
    candidates = _Candidates.of(explored)
    if options.gate == "off" or not candidates.by_task:
        reach = 0.0 if options.reach == -1 else options.reach
        return Verdict(tuple(replace(row, reach=reach) for row in candidates.rows))
    stages = _Stages(run, factory, candidates.rows, workers, threads, on_progress)
    tasks = [one.task for one in explored if not one.error]
    base = stages.play(ALONE, _trials_alone(tasks, candidates, options))
    before, alone = base[: len(tasks)], base[len(tasks) :]
    judgements = _judged_alone(tasks, before, alone, candidates, options)
    kept = {t for j in judgements if not j.refused for t in j.trajectories}
    trials = _trials_together(tasks, candidates, kept, options)
    played = stages.play(TOGETHER, trials)
    comparisons = tuple(
        _comparison(reach, before, played[i * len(tasks) : (i + 1) * len(tasks)])
        for i, reach in enumerate(options.reaches)
    )
    best = max(comparisons, key=lambda c: (round(c.difference, 9), -round(c.steps, 9), c.reach))
    if best.difference < -TOLERANCE:
        refused = "all goals together score less with what was learnt"
        judgements = [replace(j, refused=j.refused or refused) for j in judgements]
        return Verdict((), tuple(judgements), comparisons)
    first = options.reaches.index(best.reach) * len(tasks)
    judgements = _too_frequent(judgements, played[first : first + len(tasks)], options)
    kept = {t for j in judgements if not j.refused for t in j.trajectories}
    rows = tuple(
        replace(row, reach=best.reach) for row in candidates.rows if row.tuple.trajectory_id in kept
    )
    return Verdict(_confirmed(rows, judgements), tuple(judgements), comparisons, best)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What the goals came to. by_task: task id → its trajectories."""

    rows: tuple[IndexedTuple, ...]
    by_task: Mapping[str, tuple[str, ...]]
    sources: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, explored: Iterable[ExploredGoal]) -> _Candidates:
        rows = {row.tuple.id: row for one in explored for row in one.added}
        by_task: dict[str, dict[str, None]] = {}
        by_source: dict[str, set[str]] = {}
        for row in rows.values():
            by_task.setdefault(row.tuple.task_id, {})[row.tuple.trajectory_id] = None
            by_source.setdefault(row.tuple.source, set()).add(row.tuple.trajectory_id)
        return cls(
            tuple(rows.values()),
            {task: tuple(trajectories) for task, trajectories in by_task.items()},
            {source: frozenset(trajectories) for source, trajectories in by_source.items()},
        )

    def hidden(self, task: Task, shown: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the trajectories that `task` does without: all but `shown`, and its own."""
        everything = {t for trajectories in self.by_task.values() for t in trajectories}
        own = self.sources.get(task.leak_key, frozenset())
        return tuple(sorted(everything - (set(shown) - own)))


def _trials_alone(
    tasks: Sequence[Task], candidates: _Candidates, options: GateOptions
) -> list[Trial]:
    """Return the trials without any candidate, then those with each goal's alone."""
    trials = [Trial(i, task, candidates.hidden(task), 0.0) for i, task in enumerate(tasks)]
    for task, trajectories in candidates.by_task.items():
        owner = next(t for t in tasks if t.id == task)
        for near in _neighbours(owner, tasks, options.neighbours):
            hidden = candidates.hidden(near, trajectories)
            trials.append(Trial(len(trials), near, hidden, options.reaches[0]))
    return trials


def _trials_together(
    tasks: Sequence[Task], candidates: _Candidates, kept: Iterable[str], options: GateOptions
) -> list[Trial]:
    shown = tuple(kept)
    return [
        Trial(r * len(tasks) + i, task, candidates.hidden(task, shown), reach)
        for r, reach in enumerate(options.reaches)
        for i, task in enumerate(tasks)
    ]


def _neighbours(owner: Task, tasks: Sequence[Task], count: int) -> list[Task]:
    """Return the goals with most words in common with `owner`'s, of other sources; its kind first.

    Ties are broken by id.
    """
    words = Counter(owner.goal.lower().split())

    def distance(task: Task) -> tuple[bool, float, str]:
        others = Counter(task.goal.lower().split())
        common, union = (words & others).total(), (words | others).total()
        return task.kind != owner.kind, -common / max(1, union), task.id

    others = [task for task in tasks if task.leak_key != owner.leak_key]
    return sorted(others, key=distance)[:count]


def _judged_alone(
    tasks: Sequence[Task],
    before: Sequence[Played],
    alone: Sequence[Played],
    candidates: _Candidates,
    options: GateOptions,
) -> list[Judgement]:
    scores = {played.task: played.score for played in before}
    judgements, start = [], 0
    for task, trajectories in candidates.by_task.items():
        owner = next(t for t in tasks if t.id == task)
        count = len(_neighbours(owner, tasks, options.neighbours))
        gains = [p.score - scores[p.task] for p in alone[start : start + count]]
        start += count
        refused = ""
        if sum(gains) < -TOLERANCE:
            refused = f"{count} goals like it lose {-fmean(gains):.3f} with it"
        judgements.append(
            Judgement(
                task,
                trajectories,
                sum(row.tuple.task_id == task for row in candidates.rows),
                sum(gain > TOLERANCE for gain in gains),
                sum(gain < -TOLERANCE for gain in gains),
                refused,
            )
        )
    return judgements


def _comparison(reach: float, before: Sequence[Played], after: Sequence[Played]) -> Comparison:
    return Comparison(
        reach,
        tuple(played.score for played in before),
        tuple(played.score for played in after),
        fmean(played.steps for played in after),
    )


def _too_frequent(
    judgements: Sequence[Judgement], played: Sequence[Played], options: GateOptions
) -> list[Judgement]:
    """Refuse the goals with a trajectory that was recalled in too many of all steps."""
    counts: Counter[str] = Counter()
    for one in played:
        counts.update(dict(one.recalled))
    most = options.share * sum(one.steps for one in played)
    return [
        replace(j, refused=f"recalled in more than {options.share:.0%} of all steps")
        if not j.refused and any(counts[t] > most for t in j.trajectories)
        else j
        for j in judgements
    ]


def _confirmed(
    rows: Iterable[IndexedTuple], judgements: Iterable[Judgement]
) -> tuple[IndexedTuple, ...]:
    """Return the rows with how many other goals did better with them."""
    wins = {t: j.wins for j in judgements for t in j.trajectories}
    confirmed = []
    for row in rows:
        outcome = row.tuple.outcome
        if outcome is not None:
            outcome = replace(outcome, confirmed=wins[row.tuple.trajectory_id])
        confirmed.append(replace(row, tuple=replace(row.tuple, outcome=outcome)))
    return tuple(confirmed)


@dataclass(frozen=True, slots=True)
class _Stages:
    """Plays trials, several at a time, and records them in the run."""

    run: Run
    factory: ExplorationFactory
    rows: tuple[IndexedTuple, ...]
    workers: int
    threads: bool
    on_progress: Callable[[str, int, int], None]

    def play(self, name: str, trials: Sequence[Trial]) -> list[Played]:
        """Return what came of the trials, in their order, now or as recorded in file `name`."""
        path = self.run.directory / name
        stage = name.removesuffix(".jsonl").replace("_", " ")
        with self.run.lock():
            if path.is_file():
                played = records.read(path, Played)
            else:
                done = Counter[str]()

                def advance(_: Played) -> None:
                    done[stage] += 1
                    self.on_progress(stage, done[stage], len(trials))

                played = run_items(
                    self.run,
                    _PlayerFactory(self.factory, self.rows),
                    trials,
                    Played,
                    workers=self.workers,
                    threads=self.threads,
                    on_result=advance,
                )
                with writing(path):
                    records.write(path, played)
            self.run.discard_parts()
        return played


@dataclass(frozen=True, slots=True)
class _PlayerFactory:
    factory: ExplorationFactory
    rows: tuple[IndexedTuple, ...] = field(repr=False)

    def __call__(self) -> _Player:
        return _Player(self.factory(), self.rows)


class _Player:
    """Plays goals greedily with some of the candidates; the worker of the gate."""

    def __init__(self, setup: ExplorationSetup, rows: Sequence[IndexedTuple]) -> None:
        self._setup = setup
        self._rows = rows
        self._candidates = frozenset(row.tuple.trajectory_id for row in rows)
        self._by_tuple = {row.tuple.id: row.tuple.trajectory_id for row in rows}
        self._own: dict[str, list[str]] = {}
        for row in setup.memory.rows:
            self._own.setdefault(row.tuple.source, []).append(row.tuple.trajectory_id)
        self._memories: dict[float, Memory] = {}

    def __call__(self, trial: Trial) -> Played:
        """Play a trial; a failure is data, as in an evaluation."""
        try:
            return self._play(trial)
        except RunStopped:
            raise
        except Exception:  # one failed episode must not lose the others
            return Played(trial.index, trial.task.id, 0.0, 0, error=traceback.format_exc())

    def close(self) -> None:
        self._setup.env.close()

    def _play(self, trial: Trial) -> Played:
        policy = self._setup.policy.with_memory(self._memory(trial))
        task, batches = trial.task, policy.batches(trial.task.goal)
        recalled: Counter[str] = Counter()
        positions = Positions(self._setup.env, task)
        notes, steps = Notes(), 0
        try:
            position = positions.start()
            while not position.now.done and steps < self._setup.options.depth:
                now = Observed(
                    goal=task.goal,
                    past=position.past,
                    observation=position.now.observation,
                    admissible=position.now.admissible,
                    previous_notes=notes,
                    key=task.id,
                    localize=self._setup.env.localize,
                )
                decision = policy.decide(now, batches)
                recalled.update(
                    {self._by_tuple[i] for i, _ in decision.used if i in self._by_tuple}
                )
                notes, steps, before = decision.notes, steps + 1, position
                position = positions.after(before, decision.action)
                positions.drop(before)
        finally:
            positions.close()
        score = min(1.0, max(0.0, position.score))
        return Played(trial.index, task.id, score, steps, tuple(sorted(recalled.items())))

    def _memory(self, trial: Trial) -> Memory:
        if trial.reach not in self._memories:
            rows = [replace(row, reach=trial.reach) for row in self._rows]
            self._memories[trial.reach] = self._setup.memory.with_rows(rows)
        own = self._own.get(trial.task.leak_key, [])
        return self._memories[trial.reach].without(trajectories=[*trial.hidden, *own])
