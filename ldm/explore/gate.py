"""The gate of a refinement: tuples that raise the score on training goals join the memory.

Two things can join it. *Practice*: episodes with the full score, found by the ground process or by
exploration, are remembered whole, in batch memories of their own. *Improvements*: the tuples that
exploration adds to present batches if it earned more, but less than the full score (LDM² §3.3).

Practice is tried by task kind, with hindsight (`ldm.explore.hindsight`); if that does not help,
unrevised. If neither helps, practice is limited to nearly identical goals, provided that does no
harm. Each improvement, unless the same path is practice that is kept, is tried alone, on the goals
most like its own; those that do no harm are tried together on all goals of their kinds. Only nearly
identical goals recall them. No goal judges tuples of its own: it is played without them, and
without any other tuples of its source.

The paper adds all improvements that exploration found, and nothing else; `gate="off"` does that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Annotated, ClassVar, Literal

from ldm.explore.candidates import Candidates, Remembered, collect
from ldm.explore.hindsight import Revision, Solved
from ldm.explore.judgements import TOLERANCE, Comparison, Judgement, Verdict
from ldm.explore.refine import ExplorationFactory, ExploredGoal
from ldm.explore.trials import Played, Trial, Trials
from ldm.memory import FormationOptions, IndexedTuple
from ldm.parallel import Stage
from ldm.reason.voting import NEARBY
from ldm.types import Task, Trajectory

#: Stages of a run: the results of each are in a file of its name.
HINDSIGHT, BASE, WHOLE = "hindsight", "gate_base", "gate_whole"
PRACTICE, PLAIN, NARROW = "gate_practice", "gate_plain", "gate_narrow"
ALONE, TOGETHER = "gate_alone", "gate_together"
#: Why an improvement of one step is refused.
SINGLE = "a single step, which ends the episode"
#: The number of goals on which an improvement is tried alone.
NEIGHBOURS = 4


@dataclass(frozen=True, slots=True)
class GateOptions:
    """The gate's criteria."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    gate: Annotated[
        Literal["on", "off", "open"],
        "Add only what does not lower training scores (on), all improvements and no practice, as "
        "in the paper (off), or everything (open)",
    ] = "on"
    solved: Annotated[bool, "Practise goals that the first attempt solves, too"] = True
    max_part: Annotated[
        float, "Maximum share of all steps at which an improvement may be recalled"
    ] = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.max_part <= 1:
            raise ValueError("max_part must be above 0 and at most 1")


def judge(
    stage: Stage,
    factory: ExplorationFactory,
    explored: Sequence[ExploredGoal],
    options: GateOptions,
    formation: FormationOptions,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Verdict:
    """Play the explored goals without the candidates and with them, and decide which to add.

    stage: plays trials and records them in the run. factory: builds the memory and policy that the
    goals were explored with. formation: how practice is cut into batches. on_progress: called with
    (stage, done, total).
    """
    if options.gate == "off":
        return Verdict(tuple({row.tuple.id: row for one in explored for row in one.added}.values()))
    trials = Trials(stage, on_progress)

    def revise(ways: Sequence[Trajectory]) -> Sequence[Revision]:
        solved = [Solved(number, way) for number, way in enumerate(ways)]
        return trials.results(HINDSIGHT, solved, Revision)

    on_progress("form practice", 0, 1)  # a model that is always asked takes minutes
    candidates = collect(factory, explored, formation, solved=options.solved, revise=revise)
    if not candidates.rows or options.gate == "open":
        return Verdict(candidates.rows, candidates.batches)
    sound = [one for one in explored if not one.error]
    return _Gate(sound, options, replace(trials, candidates=candidates)).verdict()


@dataclass(frozen=True, slots=True)
class _Practice:
    """The result for practice.

    played: all goals with all practice. now: all goals, those of a kind whose practice is kept with
    it, the others without any.
    """

    judgements: tuple[Judgement, ...]
    comparisons: tuple[Comparison, ...]
    played: tuple[Played, ...]
    now: tuple[Played, ...]

    @property
    def kinds(self) -> dict[str, Remembered]:
        """How the practice of each kind that joins the memory is remembered."""
        return _remembered(self.comparisons)

    @property
    def trajectories(self) -> tuple[str, ...]:
        return _accepted(self.judgements)


class _Gate:
    """Judges the candidates: practice first, then improvements beside practice that is kept."""

    def __init__(
        self, explored: Sequence[ExploredGoal], options: GateOptions, trials: Trials
    ) -> None:
        self._tasks = [one.task for one in explored]
        self._grounds = {one.task.id: one.trees[0].ground for one in explored if one.trees}
        self._candidates = trials.candidates
        self._options = options
        self._trials = trials

    def verdict(self) -> Verdict:
        """Play the trials, and decide."""
        base = self._play(self._trials, BASE)
        practice = self._practice(base)
        # A path that is refused as practice would be recalled whole, as its tuples are the same.
        left = self._candidates.only(frozenset(practice.trajectories), NEARBY)
        trials = replace(self._trials, candidates=left)
        alone = self._judged_alone(trials, base)
        improved, compared = self._judged_together(trials, alone, practice)
        judgements = (*practice.judgements, *improved)
        comparisons = (*practice.comparisons, *compared)
        rows, end = _accepted_rows(left, practice, improved, base), base
        if rows:
            end = self._whole(trials, practice, improved)
            lost = fmean(one.score for one in base) - fmean(one.score for one in end)
            if lost > TOLERANCE:
                why = f"all goals lose {lost:.3f} with all that was kept"
                judgements = tuple(replace(one, refused=one.refused or why) for one in judgements)
                comparisons = tuple(replace(one, chosen=False) for one in comparisons)
                rows, end = (), base
        return Verdict(
            rows,
            left.batches if rows else (),
            judgements,
            comparisons,
            tuple(one.score for one in base),
            tuple(one.score for one in end),
        )

    def _play(
        self,
        trials: Trials,
        stage: str,
        recallable: Iterable[str] = (),
        kinds: Mapping[str, Remembered] | None = None,
        tasks: Sequence[Task] | None = None,
    ) -> tuple[Played, ...]:
        """Play goals, by default all, with some of the candidates.

        kinds: how the practice of some kinds is remembered.
        """
        known, how = tuple(recallable), tuple((kinds or {}).items())
        chosen = self._tasks if tasks is None else tasks
        items = [Trial(number, task, known, how) for number, task in enumerate(chosen)]
        return tuple(trials.results(stage, items, Played))

    def _of_kinds(self, kinds: Collection[str]) -> list[Task]:
        return [task for task in self._tasks if task.kind in kinds]

    def _practice(self, base: Sequence[Played]) -> _Practice:
        """Try ways of remembering the practice of each kind until one helps, the widest first.

        Practice is in batches of one kind, and a goal is played with the batches of its kind: one
        kind's practice does not change the goals of another.
        """
        episodes = _episodes(self._candidates.practice)
        if not episodes:
            return _Practice((), (), tuple(base), tuple(base))
        known = [one.trajectories[0] for one in episodes]
        played = self._play(self._trials, PRACTICE, known)
        results = {one.task: one for one in played}
        kind_of = {task.id: task.kind for task in self._tasks}
        left = list(dict.fromkeys(kind_of[one.task] for one in episodes))
        tested = self._compared(left, Remembered(), base, results)
        plain = bool(self._candidates.plain)
        narrower = [(PLAIN, Remembered(plain=True))] * plain
        for stage, how in (*narrower, (NARROW, Remembered(NEARBY, plain))):
            practised = _remembered(tested)
            left = [kind for kind in left if kind not in practised]
            kinds, tasks = {**practised, **dict.fromkeys(left, how)}, self._of_kinds(left)
            again = self._play(self._trials, stage, known, kinds, tasks)
            results |= {one.task: one for one in again}
            tested += self._compared(left, how, base, results)
        practised = _remembered(tested)
        refused = {
            one.kind: f"goals of kind {one.kind} {one.unproven} with its practice"
            for one in tested
            if one.kind not in practised
        }
        return _Practice(
            tuple(replace(one, refused=refused.get(kind_of[one.task], "")) for one in episodes),
            tuple(tested),
            played,
            tuple(results[one.task] if kind_of[one.task] in practised else one for one in base),
        )

    def _compared(
        self,
        kinds: Iterable[str],
        how: Remembered,
        base: Sequence[Played],
        results: Mapping[str, Played],
    ) -> list[Comparison]:
        """Compare the goals of each kind without practice and with it."""
        comparisons = []
        for kind in kinds:
            ids = {task.id for task in self._of_kinds((kind,))}
            before = [one for one in base if one.task in ids]
            after = [results[one.task] for one in before]
            comparisons.append(Comparison.of("practice", kind, how, before, after))
        if how.reach:
            return [replace(one, chosen=one.holds) for one in comparisons]
        return [replace(one, chosen=one.holds_among(comparisons)) for one in comparisons]

    def _judged_alone(self, trials: Trials, base: Sequence[Played]) -> list[Judgement]:
        """Judge each improvement alone on the goals most like its own.

        A single step is not tried: it ends the episode, and is only as good as the steps before it.
        """
        ways = trials.candidates.improvements
        neighbours = {way.trajectory: self._neighbours(way.task) for way in ways}
        judgements = [
            Judgement(
                *(way.task.id, "improvement", (way.trajectory,), len(way.rows)),
                refused=SINGLE if len(way.rows) == 1 else "",
            )
            for way in ways
        ]
        pairs = [(way, task) for way in _accepted(judgements) for task in neighbours[way]]
        items = [Trial(number, task, (way,)) for number, (way, task) in enumerate(pairs)]
        scores = {one.task: one.score for one in base}
        gains: dict[str, list[float]] = {trajectory: [] for trajectory in neighbours}
        played = trials.results(ALONE, items, Played)
        for (trajectory, task), one in zip(pairs, played, strict=True):
            gains[trajectory].append(one.score - scores[task.id])
        return [one.tried(gains[one.trajectories[0]]) for one in judgements]

    def _neighbours(self, owner: Task) -> list[Task]:
        """Return the goals of other sources that share the most words with a goal.

        Those of its kind come first; ties are broken by id.
        """

        def distance(task: Task) -> tuple[bool, float, str]:
            return task.kind != owner.kind, -_likeness(task.goal, owner.goal), task.id

        others = [task for task in self._tasks if task.leak_key != owner.leak_key]
        return sorted(others, key=distance)[:NEIGHBOURS]

    def _judged_together(
        self, trials: Trials, alone: Sequence[Judgement], practice: _Practice
    ) -> tuple[Sequence[Judgement], Sequence[Comparison]]:
        """Try the improvements that passed alone together, beside the practice that is kept.

        Goals of kinds without any are not played: nothing changes for them.
        """
        passed = {one.task for one in alone if not one.refused}
        tasks = self._of_kinds({task.kind for task in self._tasks if task.id in passed})
        if not tasks:
            return alone, ()
        known = (*practice.trajectories, *_accepted(alone))
        played = self._play(trials, TOGETHER, known, practice.kinds, tasks)
        results = {one.task: one for one in played}
        before = [one for one in practice.now if one.task in results]
        compared = Comparison.of("improvement", "", Remembered(NEARBY), before, played)
        if not compared.holds:
            why = f"the goals {compared.unproven} with all improvements together"
            return [replace(j, refused=j.refused or why) for j in alone], [compared]
        end = [results.get(one.task, one) for one in practice.now]
        judgements = _without_frequent(alone, end, self._options.max_part)
        return judgements, [replace(compared, chosen=True)]

    def _whole(
        self, trials: Trials, practice: _Practice, improved: Sequence[Judgement]
    ) -> tuple[Played, ...]:
        """Play all goals with exactly the candidates that were kept.

        In other trials refused candidates were part of the memory and helped to tell the kinds of
        goals apart, and practice of one kind may be recalled for goals of another.
        """
        kinds, trajectories = practice.kinds, (*practice.trajectories, *_accepted(improved))
        usual = all(how == Remembered() for how in kinds.values())
        if usual and trajectories == tuple(
            t for one in practice.judgements for t in one.trajectories
        ):
            return practice.played
        return self._play(trials, WHOLE, trajectories, kinds)


def _episodes(rows: Iterable[IndexedTuple]) -> list[Judgement]:
    """Return a judgement for each episode of practice, none refused yet."""
    sizes = Counter((row.tuple.task_id, row.tuple.trajectory_id) for row in rows)
    return [Judgement(task, "practice", (way,), size) for (task, way), size in sizes.items()]


def _likeness(text: str, other: str) -> float:
    """Return the share of words that two texts have in common, from 0 to 1."""
    words, others = Counter(text.lower().split()), Counter(other.lower().split())
    return (words & others).total() / max(1, (words | others).total())


def _accepted(judgements: Iterable[Judgement]) -> tuple[str, ...]:
    """Return the trajectories that are not refused."""
    return tuple(way for one in judgements if not one.refused for way in one.trajectories)


def _remembered(comparisons: Iterable[Comparison]) -> dict[str, Remembered]:
    """Return how the practice of each kind that joins the memory is remembered."""
    return {
        one.kind: Remembered(one.reach, one.plain) for one in comparisons if one.is_kept_practice
    }


def _accepted_rows(
    candidates: Candidates,
    practice: _Practice,
    improved: Iterable[Judgement],
    base: Sequence[Played],
) -> tuple[IndexedTuple, ...]:
    """Return the tuples that were kept, with the number of attempts that confirm them.

    Practice is confirmed by each goal that gained by it and followed it, an improvement by each
    neighbour that gained when it was tried alone.
    """
    confirmed = Counter[str]()
    for before, after in zip(base, practice.now, strict=True):
        if after.score > before.score + TOLERANCE:
            confirmed.update(dict(after.followed).keys())
    ways = {way: one for one in improved if not one.refused for way in one.trajectories}
    rows = [
        _confirmed(row, confirmed[row.tuple.trajectory_id])
        for row in candidates.practice_as(practice.kinds)
    ]
    rows += [
        _confirmed(row, ways[way.trajectory].wins)
        for way in candidates.improvements
        if way.trajectory in ways
        for row in way.rows
    ]
    return tuple(rows)


def _confirmed(row: IndexedTuple, count: int) -> IndexedTuple:
    """Return a tuple whose outcome says how many other attempts confirm it."""
    if row.tuple.outcome is None:
        return row
    outcome = replace(row.tuple.outcome, confirmed=count)
    return replace(row, tuple=replace(row.tuple, outcome=outcome))


def _without_frequent(
    judgements: Sequence[Judgement], played: Sequence[Played], max_part: float
) -> list[Judgement]:
    """Refuse the improvements that were recalled in too many of all steps.

    played: all goals, those of kinds without improvements included: a tuple recalled in every step
    of its own kind is useful there, one recalled in every step of all a shop's goals is not.
    """
    counts: Counter[str] = Counter()
    for one in played:
        counts.update(dict(one.recalled))
    most = max_part * sum(one.steps for one in played)
    why = f"recalled in more than {max_part:.0%} of all steps"
    return [
        replace(one, refused=why)
        if not one.refused and any(counts[way] > most for way in one.trajectories)
        else one
        for one in judgements
    ]
