"""The gate of a refinement: what raises the score on training goals joins the memory.

Two things can join it. *Practice*: episodes with the full score, whether the ground process or
exploration came to them, are remembered whole, in batch memories of their own. *Improvements*: the
tuples that exploration adds to present batches where it earned more, but not everything (LDM²
§3.3).

Practice is tried by task kind, with hindsight (`ldm.explore.hindsight`); where that does not help,
as it was; where it does not help either, it may still be recalled for goals that are hardly any but
the same, unless that does harm. Each improvement, unless the same way is practice
that is kept, has its key step confirmed (`ldm.explore.confirmation`) and is then tried
alone, on the goals most like its own; those that do no harm are tried together on all goals, once
for each `reach` (how near a goal must be to recall them). No goal judges tuples of its own: it is
played without them, as it is without anything else that the memory holds of its source.

The paper adds what exploration improved, and nothing else; `gate="off"` does that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar, Literal

from ldm.explore.confirmation import SIBLINGS, Check, Confirmation, likeness
from ldm.explore.hindsight import Revision, Solved
from ldm.explore.judgements import TOLERANCE, Comparison, Judgement, Verdict
from ldm.explore.learnt import Improvement, Learnt, Remembered, improvements, learn
from ldm.explore.refine import ExplorationFactory, ExploredGoal
from ldm.explore.trials import Played, Stages, Trial
from ldm.memory import FormationOptions, IndexedTuple
from ldm.parallel import Stage
from ldm.reason.voting import NEARBY
from ldm.types import Task, Trajectory

HINDSIGHT = "hindsight.jsonl"
PRACTICE = "gate_practice.jsonl"
PLAIN = "gate_plain.jsonl"
NEARBY_TRIALS = "gate_nearby.jsonl"
CONFIRMED = "gate_confirmed.jsonl"
ALONE = "gate_alone.jsonl"
TOGETHER = "gate_together.jsonl"
WHOLE = "gate_whole.jsonl"
#: Why an improvement of one step is refused.
SINGLE = "a single step, which ends the episode"
#: The bounds that are tried, widest first: from goals of the same kind to hardly any but the same.
REACHES = (0.5, 0.7, 0.8, NEARBY)


@dataclass(frozen=True, slots=True)
class GateOptions:
    """How the gate judges.

    gate: "off" adds every improvement and no practice, as the paper does; "open" also adds all
    practice, and judges nothing either. practice: whether solved episodes are remembered whole;
    solved: those of the ground process as well, or only what exploration found. hindsight: what
    they did needlessly is replaced by what was to be done (`ldm.explore.hindsight`).
    reach: of improvements, see `IndexedTuple`; -1 tries REACHES, and the last of them for practice
    that does not help every goal of its kind.
    siblings: with how many other actions in its place each key step is compared; 0 confirms none.
    neighbours: on how many goals the key step and the improvements of each goal are tried alone; 0
    tries them together only. share: an improvement that has a part in more than this of the steps
    of all goals is refused, as it says the same everywhere.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    gate: Literal["on", "off", "open"] = "on"
    practice: bool = True
    solved: bool = True
    hindsight: bool = True
    reach: float = -1.0
    siblings: int = SIBLINGS
    neighbours: int = 4
    share: float = 0.5

    def __post_init__(self) -> None:
        if not (self.reach == -1 or 0 <= self.reach <= 1):
            raise ValueError("reach is from 0 to 1, or -1")
        if min(self.siblings, self.neighbours) < 0 or not 0 < self.share <= 1:
            raise ValueError("siblings, neighbours are 0 or more, share is above 0 and at most 1")

    @property
    def reaches(self) -> tuple[float, ...]:
        return REACHES if self.reach == -1 else (self.reach,)


def judge(
    stage: Stage,
    factory: ExplorationFactory,
    explored: Sequence[ExploredGoal],
    options: GateOptions,
    formation: FormationOptions,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Verdict:
    """Play the explored goals with and without what was learnt, and say what to add.

    stage: plays trials, and records them. factory: builds the memory and policy that the goals were
    explored with. formation: how practice is cut into batches.
    on_progress: called with (stage, done, total).
    """
    if options.gate == "off":
        rows = {row.tuple.id: row for one in explored for row in one.added}.values()
        reach = max(0.0, options.reach)
        return Verdict(tuple(replace(row, reach=reach) for row in rows))
    stages = Stages(stage, Learnt((), (), ()), on_progress)

    def revise(ways: Sequence[Trajectory]) -> Sequence[Revision]:
        if not options.hindsight:
            return ()
        return stages.revise(HINDSIGHT, [Solved(number, way) for number, way in enumerate(ways)])

    if options.practice:
        on_progress("form practice", 0, 1)  # where a model is always asked, that takes minutes
    learnt = learn(
        *(factory, explored, formation),
        practice=options.practice,
        solved=options.solved,
        revise=revise,
    )
    if not learnt.rows or options.gate == "open":
        return Verdict(learnt.rows, learnt.batches)
    stages = replace(stages, learnt=learnt)
    return _Gate([one for one in explored if not one.error], learnt, options, stages).verdict()


class _Gate:
    """Judges what was learnt: practice first, then improvements beside practice that is kept."""

    def __init__(
        self,
        explored: Sequence[ExploredGoal],
        learnt: Learnt,
        options: GateOptions,
        stages: Stages,
    ) -> None:
        self._tasks = [one.task for one in explored]
        self._learnt = learnt
        self._options = options
        self._stages = stages
        self._practice = _by_task(learnt.practice)
        self._improvements = improvements(explored)
        self._grounds = {one.task.id: one.trees[0].ground for one in explored if one.trees}
        self._kinds = {task.id: task.kind for task in self._tasks}

    def verdict(self) -> Verdict:
        """Play what has to be played, and decide."""
        count = len(self._tasks)
        trials = self._trials((), 0.0)
        if self._practice:
            trials += self._trials(_all(self._practice), 0.0, count)
        played = self._stages.play(PRACTICE, trials)
        base, practised = played[:count], played[count:] or played[:count]
        ends, tested = self._tested_practice(base, practised)
        remembered = _remembered(tested)
        now = [
            ends[i] if task.kind in remembered else base[i] for i, task in enumerate(self._tasks)
        ]
        judgements = self._judged_practice(tested)
        practice = [t for one in judgements if not one.refused for t in one.trajectories]
        left = self._unpractised(practice)
        alone = self._judged_alone(base, left)
        improved, compared = self._together(alone, now, practice, remembered)
        judgements += improved
        comparisons = (*tested, *compared)
        rows, end = self._kept_rows(judgements, comparisons, base, now), base
        if rows:
            end = self._whole(practised, judgements, comparisons)
            lost = fmean(one.score for one in base) - fmean(one.score for one in end)
            if lost > TOLERANCE:
                why = f"all goals lose {lost:.3f} with all that was kept"
                judgements = [replace(one, refused=one.refused or why) for one in judgements]
                comparisons = tuple(replace(one, chosen=False) for one in comparisons)
                rows, end = (), base
        chosen = {one.kind for one in comparisons if one.is_kept_practice}
        return Verdict(
            rows,
            tuple(one for one in self._learnt.batches if one.kind in chosen),
            tuple(judgements),
            comparisons,
            tuple(one.score for one in base),
            tuple(one.score for one in end),
        )

    def _unpractised(self, practice: Sequence[str]) -> list[Improvement]:
        """Return the improvements to judge: those whose way is not remembered whole already.

        Trials to come are played with these and the kept practice alone. A way that is both would
        otherwise be recalled whole, as its tuples are the same.
        """
        left = [one for one in self._improvements if one.trajectory not in practice]
        self._learnt = self._learnt.only(frozenset(practice), left)
        self._stages = replace(self._stages, learnt=self._learnt)
        return left

    def _whole(
        self,
        practised: list[Played],
        judgements: Sequence[Judgement],
        comparisons: Sequence[Comparison],
    ) -> list[Played]:
        """Play all goals with exactly what was kept, and return what came of them.

        What was refused was part of the memory in other trials, where it helped to tell the kinds
        of goals apart; and practice of one kind may be recalled for goals of another.
        """
        refused = any(one.refused for one in judgements if one.learnt == "practice")
        improved = any(not one.refused for one in judgements if one.learnt == "improvement")
        remembered = _remembered(comparisons)
        if not (refused or improved or any(how != Remembered() for how in remembered.values())):
            return practised
        recallable = tuple(t for one in judgements if not one.refused for t in one.trajectories)
        reach = next((c.reach for c in comparisons if c.chosen and c.learnt == "improvement"), 0.0)
        trials = [
            Trial(number, task, recallable, reach, tuple(remembered.items()))
            for number, task in enumerate(self._tasks)
        ]
        return self._stages.play(WHOLE, trials)

    def _tested_practice(
        self, base: Sequence[Played], practised: Sequence[Played]
    ) -> tuple[dict[int, Played], list[Comparison]]:
        """Try the practice of each kind until a way to remember it helps, the widest first.

        Practice is in batches of one kind, and a goal is played with the batches of its kind: what
        one kind's practice does, another's does not change.
        Return what came of the goals at last, by number, and all comparisons.
        """
        ends = dict(enumerate(practised))
        kinds = list(dict.fromkeys(self._kinds[task] for task in self._practice))
        tested = self._compared(kinds, Remembered(), base, ends)
        plain, narrow = bool(self._learnt.plain), self._options.reaches[-1]
        others = [(PLAIN, Remembered(plain=True))] * plain
        others += [(NEARBY_TRIALS, Remembered(narrow, plain))] * bool(narrow)
        recallable = _all(self._practice)
        for name, how in others:
            remembered = _remembered(tested)
            left = [kind for kind in kinds if kind not in remembered]
            places = [i for i, task in enumerate(self._tasks) if task.kind in left]
            practice = tuple({**remembered, **dict.fromkeys(left, how)}.items())
            trials = [
                Trial(n, self._tasks[i], recallable, 0.0, practice) for n, i in enumerate(places)
            ]
            ends |= dict(zip(places, self._stages.play(name, trials), strict=True))
            tested += self._compared(left, how, base, ends)
        return ends, tested

    def _compared(
        self,
        kinds: Iterable[str],
        how: Remembered,
        base: Sequence[Played],
        ends: Mapping[int, Played],
    ) -> list[Comparison]:
        """Compare the goals of each kind without practice and with what it came to."""
        comparisons = []
        for kind in kinds:
            places = [i for i, task in enumerate(self._tasks) if task.kind == kind]
            pair = [base[i] for i in places], [ends[i] for i in places]
            comparisons.append(Comparison.of("practice", kind, how, *pair))
        if how.reach:
            return [replace(one, chosen=one.holds) for one in comparisons]
        return [replace(one, chosen=one.holds_among(comparisons)) for one in comparisons]

    def _judged_practice(self, tested: Sequence[Comparison]) -> list[Judgement]:
        chosen = {one.kind for one in tested if one.chosen}
        refused = {
            one.kind: f"goals of kind {one.kind} {one.unproven} with its practice"
            for one in tested
            if one.kind not in chosen
        }
        sizes = Counter(row.tuple.task_id for row in self._learnt.practice)
        return [
            Judgement(
                task, "practice", ids, sizes[task], refused=refused.get(self._kinds[task], "")
            )
            for task, ids in self._practice.items()
        ]

    def _together(
        self,
        alone: Sequence[Judgement],
        base: Sequence[Played],
        practice: Sequence[str],
        remembered: Mapping[str, Remembered],
    ) -> tuple[list[Judgement], list[Comparison]]:
        """Try the improvements that passed alone together, at each reach.

        Goals of kinds without any are not played: nothing changes for them.
        base: what came of the goals without them. practice: the trajectories of kept practice.
        remembered: how the practice of each kind is remembered.
        Return the judgements and the comparisons.
        """
        passed = [one for one in alone if not one.refused]
        kinds = {self._kinds[one.task] for one in passed}
        places = [i for i, task in enumerate(self._tasks) if task.kind in kinds]
        if not places:
            return list(alone), []
        recallable = (*practice, *(t for one in passed for t in one.trajectories))
        reaches = self._options.reaches
        trials = [(self._tasks[i], reach) for reach in reaches for i in places]
        played = self._stages.play(
            TOGETHER,
            [
                Trial(n, task, recallable, reach, tuple(remembered.items()))
                for n, (task, reach) in enumerate(trials)
            ],
        )
        count = len(places)
        parts = [played[n * count : (n + 1) * count] for n in range(len(reaches))]
        without = [base[i] for i in places]
        compared = [
            Comparison.of("improvement", "", Remembered(reach), without, part)
            for reach, part in zip(reaches, parts, strict=True)
        ]
        best = max(compared, key=lambda c: (round(c.difference, 9), -round(c.steps, 9), c.reach))
        if not best.holds:
            why = f"the goals {best.unproven} with all improvements together, at the best reach"
            return [replace(j, refused=j.refused or why) for j in alone], compared
        end, part = list(base), parts[compared.index(best)]
        for i, one in zip(places, part, strict=True):
            end[i] = one
        compared = [replace(one, chosen=one is best) for one in compared]
        return _without_frequent(alone, end, self._options.share), compared

    def _trials(self, recallable: Iterable[str], reach: float, first: int = 0) -> list[Trial]:
        trajectories = tuple(recallable)
        return [Trial(first + i, task, trajectories, reach) for i, task in enumerate(self._tasks)]

    def _judged_alone(self, base: Sequence[Played], ways: Sequence[Improvement]) -> list[Judgement]:
        """Judge each improvement by its key step, and alone on the goals most like its own.

        A single step is not tried: it ends the episode, and is as good as what came before it.
        """
        confirmations = self._confirmed([way for way in ways if len(way.rows) > 1])
        judgements = []
        for way in ways:
            refused, confirmed = SINGLE, 0
            if (one := confirmations.get(way.trajectory)) is not None:
                refused, confirmed = one.refused, one.won
            judgements.append(
                Judgement(
                    *(way.task.id, "improvement", (way.trajectory,), len(way.rows)),
                    confirmed=confirmed,
                    refused=refused,
                )
            )
        return self._tried_alone(base, judgements)

    def _confirmed(self, ways: Sequence[Improvement]) -> dict[str, Confirmation]:
        """Return what the checks of the key steps say, by trajectory."""
        checks: list[Check] = []
        spans: dict[str, slice] = {}
        siblings = self._options.siblings
        for way in ways:
            first = len(checks)
            if siblings:
                checks.append(Check(len(checks), way.task, way.key, siblings))
                played = (n for n in self._neighbours(way.task.id) if n.id in self._grounds)
                checks += [
                    Check(number, near, way.key, siblings, self._grounds[near.id])
                    for number, near in enumerate(played, start=len(checks))
                ]
            spans[way.trajectory] = slice(first, len(checks))
        checked = self._stages.check(CONFIRMED, checks)
        return {
            trajectory: Confirmation.of(checks[span], checked[span])
            for trajectory, span in spans.items()
        }

    def _tried_alone(
        self, base: Sequence[Played], judgements: Sequence[Judgement]
    ) -> list[Judgement]:
        """Play the neighbours of each improvement that is not refused yet with it alone."""
        tried = [one for one in judgements if not one.refused]
        neighbours = {one.trajectories: self._neighbours(one.task) for one in tried}
        trials = [
            (near, one.trajectories) for one in tried for near in neighbours[one.trajectories]
        ]
        reach = self._options.reaches[0]
        played = iter(
            self._stages.play(
                ALONE, [Trial(i, near, known, reach) for i, (near, known) in enumerate(trials)]
            )
        )
        scores = {one.task: one.score for one in base}
        judged = []
        for judgement in judgements:
            near = [next(played) for _ in neighbours.get(judgement.trajectories, ())]
            gains = [one.score - scores[one.task] for one in near]
            lost = -fmean(gains) if gains else 0.0
            refused = f"{len(near)} goals like it lose {lost:.3f}" if lost > TOLERANCE else ""
            judged.append(
                replace(
                    judgement,
                    wins=sum(gain > TOLERANCE for gain in gains),
                    losses=sum(gain < -TOLERANCE for gain in gains),
                    refused=judgement.refused or refused,
                )
            )
        return judged

    def _neighbours(self, task_id: str) -> list[Task]:
        """Return the goals with most words in common with a goal's, of other sources.

        Those of its kind come first; ties are broken by id.
        """
        owner = next(task for task in self._tasks if task.id == task_id)

        def distance(task: Task) -> tuple[bool, float, str]:
            return task.kind != owner.kind, -likeness(task.goal, owner.goal), task.id

        others = [task for task in self._tasks if task.leak_key != owner.leak_key]
        return sorted(others, key=distance)[: self._options.neighbours]

    def _kept_rows(
        self,
        judgements: Sequence[Judgement],
        comparisons: Sequence[Comparison],
        base: Sequence[Played],
        practised: Sequence[Played],
    ) -> tuple[IndexedTuple, ...]:
        """Return what was kept: practice with its reach, improvements with theirs.

        Practice is confirmed by each goal that gained by it and followed it on the way.
        """
        remembered = _remembered(comparisons)
        kinds = {one.id: one.kind for one in self._learnt.batches}
        confirmed = Counter[str]()
        for before, after in zip(base, practised, strict=True):
            if after.score > before.score + TOLERANCE:
                confirmed.update(dict(after.followed).keys())
        rows = [
            _confirmed(row, confirmed[row.tuple.trajectory_id])
            for row in self._learnt.practice_as(remembered)
            if kinds[row.batch] in remembered
        ]
        verdicts = {
            trajectory: one.confirmed
            for one in judgements
            if one.learnt == "improvement" and not one.refused
            for trajectory in one.trajectories
        }
        reach = next((c.reach for c in comparisons if c.chosen and c.learnt == "improvement"), 0.0)
        rows += [
            replace(_confirmed(row, verdicts[row.tuple.trajectory_id]), reach=reach)
            for row in self._learnt.improvements
            if row.tuple.trajectory_id in verdicts
        ]
        return tuple(rows)


def _confirmed(row: IndexedTuple, count: int) -> IndexedTuple:
    """Return a tuple whose outcome says how many other attempts confirm it."""
    if row.tuple.outcome is None:
        return row
    outcome = replace(row.tuple.outcome, confirmed=count)
    return replace(row, tuple=replace(row.tuple, outcome=outcome))


def _by_task(rows: Iterable[IndexedTuple]) -> dict[str, tuple[str, ...]]:
    """Map task ids to the trajectories that the rows have of them."""
    by_task: dict[str, dict[str, None]] = {}
    for row in rows:
        by_task.setdefault(row.tuple.task_id, {})[row.tuple.trajectory_id] = None
    return {task: tuple(trajectories) for task, trajectories in by_task.items()}


def _remembered(comparisons: Iterable[Comparison]) -> dict[str, Remembered]:
    """Return how the practice of each kind that joins the memory is remembered."""
    return {one.kind: one.remembered for one in comparisons if one.is_kept_practice}


def _all(by_task: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(t for trajectories in by_task.values() for t in trajectories)


def _without_frequent(
    judgements: Sequence[Judgement], played: Sequence[Played], share: float
) -> list[Judgement]:
    """Refuse the goals with a trajectory that was recalled in too many of all steps.

    played: of all goals, those of kinds without improvements included: what speaks in every step of
    its own kind is of use there, what speaks in every step of a shop's goals is not.
    """
    counts: Counter[str] = Counter()
    for one in played:
        counts.update(dict(one.recalled))
    most = share * sum(one.steps for one in played)
    why = f"recalled in more than {share:.0%} of all steps"
    return [
        replace(j, refused=why)
        if not j.refused and any(counts[t] > most for t in j.trajectories)
        else j
        for j in judgements
    ]
