"""The gate of a refinement: what raises the score on training goals joins the memory.

Two things can join it. *Practice*: episodes with the full score, whether the ground process or
exploration came to them, are remembered whole, in batch memories of their own. *Improvements*: the
tuples that exploration adds to present batches where it earned more, but not everything (LDM²
§3.3).

Practice is tried by task kind; where it does not help, it may still be recalled for goals that are
hardly any but the same, unless that does harm. The improvements of a goal, unless its practice is
recalled everywhere, are first tried alone, on the goals most like it; those that do no harm are
tried together on all goals, once for each `reach` (how near a goal must be to recall them). No goal
judges tuples of its own: it is played without them, as it is without anything else that the memory
holds of its source.

The paper adds what exploration improved, and nothing else; `gate="off"` does that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import ClassVar, Literal

from ldm.episode import FULL_SCORE
from ldm.explore.refine import ExplorationFactory, ExploredGoal, best_trajectory
from ldm.explore.trials import Learnt, Played, Stages, Trial
from ldm.memory import BatchIndex, FormationOptions, IndexedTuple, form_batch, plan_batches
from ldm.runs import Run
from ldm.types import Outcome, Task, Trajectory

PRACTICE = "gate_practice.jsonl"
NEARBY = "gate_nearby.jsonl"
ALONE = "gate_alone.jsonl"
TOGETHER = "gate_together.jsonl"
WHOLE = "gate_whole.jsonl"
#: Differences of scores below this are none.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class GateOptions:
    """How the gate judges.

    gate: "off" adds every improvement and no practice, as the paper does. practice: whether solved
    episodes are remembered whole. reach: of improvements, see `IndexedTuple`; -1 tries REACHES, and
    the last of them for practice that does not help every goal of its kind.
    neighbours: on how many goals the improvements of each goal are tried alone; 0 tries them
    together only. share: an improvement that has a part in more than this of the steps of all
    goals is refused, as it says the same everywhere.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    gate: Literal["on", "off"] = "on"
    practice: bool = True
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


#: Why an improvement of one step is refused.
SINGLE = "a single step, which ends the episode"
#: The bounds that are tried, widest first: from every goal to hardly any but the same.
REACHES = (0.0, 0.5, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gate found about what was learnt from one goal.

    learnt: "practice" or "improvement". tuples: how many. wins, losses: on how many of its
    neighbours the score rose and fell with them. refused: why they are left out, "" where they are
    kept.
    """

    task: str
    learnt: Literal["practice", "improvement"]
    trajectories: tuple[str, ...]
    tuples: int
    wins: int = 0
    losses: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scores of some goals with a part of what was learnt, and without it.

    learnt: which part. kind: of the goals, "" for all kinds. reach: of that part. before, after:
    a score a goal. steps: the mean number, with it. chosen: whether it joins the memory.
    """

    learnt: Literal["practice", "improvement"]
    kind: str
    reach: float
    before: tuple[float, ...]
    after: tuple[float, ...]
    steps: float
    chosen: bool = False

    @property
    def difference(self) -> float:
        """The mean difference."""
        return fmean(self.after) - fmean(self.before)

    @property
    def error(self) -> float:
        """The standard error of the mean difference; 0 for a single goal."""
        gains = [after - before for before, after in zip(self.before, self.after, strict=True)]
        return stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0

    @property
    def holds(self) -> bool:
        """Whether the goals gain at least one standard error, or nothing changes.

        A mean of a few games can come out above zero where large losses stand against gains.
        """
        return self.difference >= self.error - TOLERANCE


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's result.

    rows, batches: what is added. before, after: the score of each goal without all that is added
    and with it, without its own; empty where nothing was played.
    """

    rows: tuple[IndexedTuple, ...]
    batches: tuple[BatchIndex, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()

    @property
    def gains(self) -> tuple[float, ...]:
        """The difference that all that is added makes for each goal."""
        return tuple(after - before for before, after in zip(self.before, self.after, strict=True))


def judge(  # noqa: PLR0913 - passed by name in every call
    run: Run,
    factory: ExplorationFactory,
    explored: Sequence[ExploredGoal],
    options: GateOptions,
    formation: FormationOptions,
    *,
    workers: int = 1,
    threads: bool = False,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Verdict:
    """Play the explored goals with and without what was learnt, and say what to add.

    factory: builds the memory and policy that the goals were explored with.
    formation: how practice is cut into batches.
    on_progress: called with (stage, done, total).
    What was played is recorded in `run`; called again after an interruption, it goes on.
    Raises what `ldm.explore.refine` raises.
    """
    if options.gate == "off":
        rows = {row.tuple.id: row for one in explored for row in one.added}.values()
        reach = max(0.0, options.reach)
        return Verdict(tuple(replace(row, reach=reach) for row in rows))
    learnt = learn(factory, explored, formation, practice=options.practice)
    if not learnt.rows:
        return Verdict(())
    stages = Stages(run, factory, learnt, workers, threads, on_progress)
    return _Gate([one.task for one in explored if not one.error], learnt, options, stages).verdict()


def learn(
    factory: ExplorationFactory,
    explored: Sequence[ExploredGoal],
    formation: FormationOptions,
    *,
    practice: bool,
) -> Learnt:
    """Return what the goals came to: solved episodes as batches, and improvements.

    Goals of which the memory holds a full-score episode already give no practice.
    """
    improvements = {row.tuple.id: row for one in explored for row in one.added}
    solved = {one.task.id: t for one in explored if (t := solution(one))} if practice else {}
    if not solved:
        return Learnt((), (), tuple(improvements.values()))
    setup = factory()
    try:
        columns = setup.memory.rows.columns
        full = columns.take(columns.with_outcome(_full_score))
        remembered = frozenset(full.distinct("source").values())
        new = [t for t in solved.values() if t.task.leak_key not in remembered]
        existing = [batch.id for batch in setup.memory.batches]
        formed = [
            form_batch(plan, setup.reasoner, setup.memory.generation + 1)
            for plan in plan_batches(new, formation, existing)
        ]
    finally:
        setup.env.close()
    return Learnt(
        tuple(row for batch in formed for row in batch.rows),
        tuple(batch.index for batch in formed),
        tuple(improvements.values()),
    )


def _full_score(outcome: Outcome | None) -> bool:
    return outcome is None or outcome.score >= FULL_SCORE


def solution(explored: ExploredGoal) -> Trajectory | None:
    """Return an episode with the full score: the ground process, or the best way explored."""
    grounds = [tree.ground for tree in explored.trees if tree.ground.success]
    if grounds:
        return min(grounds, key=lambda ground: len(ground.steps))
    ways = [best_trajectory(explored.task, tree) for tree in explored.trees if tree.nodes]
    return min((w for w in ways if w.success), key=lambda way: len(way.steps), default=None)


class _Gate:
    """Judges what was learnt: practice first, then improvements beside practice that is kept."""

    def __init__(
        self, tasks: Sequence[Task], learnt: Learnt, options: GateOptions, stages: Stages
    ) -> None:
        self._tasks = tasks
        self._learnt = learnt
        self._options = options
        self._stages = stages
        self._practice = _by_task(learnt.practice)
        self._improvements = _by_task(learnt.improvements)
        self._kinds = {task.id: task.kind for task in tasks}

    def verdict(self) -> Verdict:
        """Play what has to be played, and decide."""
        count = len(self._tasks)
        trials = self._trials((), 0.0)
        if self._practice:
            trials += self._trials(_all(self._practice), 0.0, count)
        played = self._stages.play(PRACTICE, trials)
        base, practised = played[:count], played[count:] or played[:count]
        tested = self._practice_by_kind(base, practised)
        nearby, tested = self._practice_nearby(base, tested)
        reaches = {one.kind: one.reach for one in tested if one.chosen}
        now = [
            base[i] if task.kind not in reaches else nearby.get(i, practised[i])
            for i, task in enumerate(self._tasks)
        ]
        judgements = self._judged_practice(tested)
        kept = {one.task: one.trajectories for one in judgements if not one.refused}
        everywhere = {task for task in kept if not reaches[self._kinds[task]]}
        alone = self._judged_alone(base, [t for t in self._improvements if t not in everywhere])
        improved, compared = self._together(alone, now, _all(kept), reaches)
        judgements += improved
        comparisons = (*tested, *compared)
        rows, end = self._kept_rows(judgements, comparisons), base
        if rows:
            end = self._whole(practised, judgements, comparisons)
            lost = fmean(one.score for one in base) - fmean(one.score for one in end)
            if lost > TOLERANCE:
                why = f"all goals lose {lost:.3f} with all that was kept"
                judgements = [replace(one, refused=one.refused or why) for one in judgements]
                comparisons = tuple(replace(one, chosen=False) for one in comparisons)
                rows, end = (), base
        chosen = {one.kind for one in comparisons if one.chosen and one.learnt == "practice"}
        return Verdict(
            rows,
            tuple(one for one in self._learnt.batches if one.kind in chosen),
            tuple(judgements),
            comparisons,
            tuple(one.score for one in base),
            tuple(one.score for one in end),
        )

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
        reaches = {one.kind: one.reach for one in comparisons if _is_chosen_practice(one)}
        if not (refused or improved or any(reaches.values())):
            return practised
        shown = tuple(t for one in judgements if not one.refused for t in one.trajectories)
        reach = next((c.reach for c in comparisons if c.chosen and c.learnt == "improvement"), 0.0)
        trials = [
            Trial(number, task, shown, reach, reaches.get(task.kind, 0.0))
            for number, task in enumerate(self._tasks)
        ]
        return self._stages.play(WHOLE, trials)

    def _practice_by_kind(
        self, base: Sequence[Played], practised: Sequence[Played]
    ) -> list[Comparison]:
        """Compare the goals of each kind with and without all practice.

        Practice is in batches of one kind, and a goal is played with the batches of its kind: what
        one kind's practice does, another's does not change.
        """
        comparisons = []
        for kind in dict.fromkeys(self._kinds[task] for task in self._practice):
            of_kind = [i for i, task in enumerate(self._tasks) if task.kind == kind]
            pair = [base[i] for i in of_kind], [practised[i] for i in of_kind]
            one = _comparison("practice", kind, 0.0, *pair)
            comparisons.append(replace(one, chosen=one.holds))
        return comparisons

    def _practice_nearby(
        self, base: Sequence[Played], tested: Sequence[Comparison]
    ) -> tuple[dict[int, Played], list[Comparison]]:
        """Try the practice of kinds that it does not help with the narrowest reach.

        Return what came of their goals, by number, and all comparisons.
        """
        reach = self._options.reaches[-1]
        kinds = [one.kind for one in tested if not one.chosen]
        places = [i for i, task in enumerate(self._tasks) if task.kind in kinds]
        if not places or not reach:
            return {}, list(tested)
        shown = _all(self._practice)
        trials = [Trial(n, self._tasks[i], shown, 0.0, reach) for n, i in enumerate(places)]
        played = dict(zip(places, self._stages.play(NEARBY, trials), strict=True))
        compared = list(tested)
        for kind in kinds:
            of_kind = [i for i in places if self._tasks[i].kind == kind]
            pair = [base[i] for i in of_kind], [played[i] for i in of_kind]
            one = _comparison("practice", kind, reach, *pair)
            compared.append(replace(one, chosen=one.holds))
        return played, compared

    def _judged_practice(self, tested: Sequence[Comparison]) -> list[Judgement]:
        chosen = {one.kind for one in tested if one.chosen}
        refused = {
            one.kind: f"goals of kind {one.kind} {_unproven(one)} with its practice"
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
        practice_reaches: Mapping[str, float],
    ) -> tuple[list[Judgement], list[Comparison]]:
        """Try the improvements that passed alone together, at each reach.

        Goals of kinds without any are not played: nothing changes for them.
        base: what came of the goals without them. practice: the trajectories of kept practice.
        practice_reaches: of each kind whose practice is kept.
        Return the judgements and the comparisons.
        """
        passed = [one for one in alone if not one.refused]
        kinds = {self._kinds[one.task] for one in passed}
        places = [i for i, task in enumerate(self._tasks) if task.kind in kinds]
        if not places:
            return list(alone), []
        shown = (*practice, *(t for one in passed for t in one.trajectories))
        reaches = self._options.reaches
        trials = [(self._tasks[i], reach) for reach in reaches for i in places]
        played = self._stages.play(
            TOGETHER,
            [
                Trial(n, task, shown, reach, practice_reaches.get(task.kind, 0.0))
                for n, (task, reach) in enumerate(trials)
            ],
        )
        count = len(places)
        parts = [played[n * count : (n + 1) * count] for n in range(len(reaches))]
        without = [base[i] for i in places]
        compared = [
            _comparison("improvement", "", reach, without, part)
            for reach, part in zip(reaches, parts, strict=True)
        ]
        best = max(compared, key=lambda c: (round(c.difference, 9), -round(c.steps, 9), c.reach))
        if not best.holds:
            why = f"the goals {_unproven(best)} with all improvements together, at the best reach"
            return [replace(j, refused=j.refused or why) for j in alone], compared
        end, part = list(base), parts[compared.index(best)]
        for i, one in zip(places, part, strict=True):
            end[i] = one
        compared = [replace(one, chosen=one is best) for one in compared]
        return _without_frequent(alone, end, self._options.share), compared

    def _trials(self, shown: Iterable[str], reach: float, first: int = 0) -> list[Trial]:
        trajectories = tuple(shown)
        return [Trial(first + i, task, trajectories, reach) for i, task in enumerate(self._tasks)]

    def _judged_alone(self, base: Sequence[Played], goals: Sequence[str]) -> list[Judgement]:
        """Judge the improvements of each of `goals` alone, on the goals most like it.

        A single step is not tried: it ends the episode, and is as good as what came before it.
        """
        sizes = Counter(row.tuple.task_id for row in self._learnt.improvements)
        single = [
            Judgement(goal, "improvement", self._improvements[goal], 1, refused=SINGLE)
            for goal in goals
            if sizes[goal] == 1
        ]
        goals = [goal for goal in goals if sizes[goal] > 1]
        neighbours = {goal: self._neighbours(goal) for goal in goals}
        trials = [(near, self._improvements[goal]) for goal in goals for near in neighbours[goal]]
        reach = self._options.reaches[0]
        played = iter(
            self._stages.play(
                ALONE, [Trial(i, near, shown, reach) for i, (near, shown) in enumerate(trials)]
            )
        )
        scores = {one.task: one.score for one in base}
        judgements = single
        for goal in goals:
            near = [next(played) for _ in neighbours[goal]]
            gains = [one.score - scores[one.task] for one in near]
            wins = sum(gain > TOLERANCE for gain in gains)
            losses = sum(gain < -TOLERANCE for gain in gains)
            lost = -fmean(gains) if gains else 0.0
            refused = f"{len(near)} goals like it lose {lost:.3f}" if lost > TOLERANCE else ""
            shown = self._improvements[goal]
            judgements.append(
                Judgement(goal, "improvement", shown, sizes[goal], wins, losses, refused)
            )
        return judgements

    def _neighbours(self, task_id: str) -> list[Task]:
        """Return the goals with most words in common with a goal's, of other sources.

        Those of its kind come first; ties are broken by id.
        """
        owner = next(task for task in self._tasks if task.id == task_id)
        words = Counter(owner.goal.lower().split())

        def distance(task: Task) -> tuple[bool, float, str]:
            others = Counter(task.goal.lower().split())
            common, union = (words & others).total(), (words | others).total()
            return task.kind != owner.kind, -common / max(1, union), task.id

        others = [task for task in self._tasks if task.leak_key != owner.leak_key]
        return sorted(others, key=distance)[: self._options.neighbours]

    def _kept_rows(
        self, judgements: Sequence[Judgement], comparisons: Sequence[Comparison]
    ) -> tuple[IndexedTuple, ...]:
        """Return what was kept: practice with its reach, improvements with their confirmations."""
        reaches = {one.kind: one.reach for one in comparisons if _is_chosen_practice(one)}
        kinds = {one.id: one.kind for one in self._learnt.batches}
        practice = (
            replace(row, reach=reaches[kinds[row.batch]])
            for row in self._learnt.practice
            if kinds[row.batch] in reaches
        )
        improvements = [one for one in judgements if one.learnt == "improvement"]
        chosen = [one for one in comparisons if one.learnt == "improvement"]
        return (*practice, *self._kept_improvements(improvements, chosen))

    def _kept_improvements(
        self, kept: Iterable[Judgement], compared: Sequence[Comparison]
    ) -> tuple[IndexedTuple, ...]:
        """Return the improvements that were kept, with their reach and how many goals confirm."""
        wins = {t: j.wins for j in kept if not j.refused for t in j.trajectories}
        reach = next((one.reach for one in compared if one.chosen), 0.0)
        rows = []
        for row in self._learnt.improvements:
            source, outcome = row.tuple, row.tuple.outcome
            if source.trajectory_id in wins:
                if outcome is not None:
                    outcome = replace(outcome, confirmed=wins[source.trajectory_id])
                    source = replace(source, outcome=outcome)
                rows.append(replace(row, tuple=source, reach=reach))
        return tuple(rows)


def _is_chosen_practice(one: Comparison) -> bool:
    return one.chosen and one.learnt == "practice"


def _unproven(one: Comparison) -> str:
    """Return by how much the goals gain or lose, in words, where that is refused."""
    if one.difference < -TOLERANCE:
        return f"lose {-one.difference:.3f}"
    return f"gain {one.difference:.3f}, less than the standard error of {one.error:.3f},"


def _by_task(rows: Iterable[IndexedTuple]) -> dict[str, tuple[str, ...]]:
    """Map task ids to the trajectories that the rows have of them."""
    by_task: dict[str, dict[str, None]] = {}
    for row in rows:
        by_task.setdefault(row.tuple.task_id, {})[row.tuple.trajectory_id] = None
    return {task: tuple(trajectories) for task, trajectories in by_task.items()}


def _all(by_task: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(t for trajectories in by_task.values() for t in trajectories)


def _comparison(
    learnt: Literal["practice", "improvement"],
    kind: str,
    reach: float,
    before: Sequence[Played],
    after: Sequence[Played],
) -> Comparison:
    return Comparison(
        learnt,
        kind,
        reach,
        tuple(played.score for played in before),
        tuple(played.score for played in after),
        fmean(played.steps for played in after),
    )


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
