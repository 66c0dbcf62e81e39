"""The gate of a refinement: what does not lower the scores of the explored goals joins the memory.

Two sorts of candidates can join it. *Practice*: an episode with the full score, by the ground
process or by exploration, with hindsight; it is remembered whole, in batch memories of its own.
*Improvements*: the tuples that exploration adds to present batches if it earned more, but less than
the full score (LDM² §3.3).

The goals are played without the candidates and with them, cross-fitted: the goals are divided into
folds, and a fold is played by a memory that holds no tuple of its goals. Everything joins, or
everything but what lowers the scores of its own kind, or nothing: whatever all goals do best with.
Of equal scores, those of shorter episodes are higher.

The paper adds all improvements that exploration found, and nothing else; `gate="off"` does that.

An agent that finds something in the fortieth place has searched thirty-nine others first.
Remembered unrevised, such an episode teaches to search on, and the one step that mattered is one of
forty. In hindsight the needed steps are known: without the others, the restarted environment still
gives the full score. So each step that was not needed gets the next needed action, if that was
possible there and leads to the full score from there, too. The lessons of many such episodes are
distributed like the locations of the things.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, NamedTuple

from ldm.episode import FULL_SCORE
from ldm.explore import refine
from ldm.explore.best_first import words
from ldm.explore.tree import Position, Positions
from ldm.memory import FormationOptions
from ldm.memory.formation import form_batch, plan_batches, tuples_of
from ldm.memory.index import BatchIndex, IndexedTuple, OnProgress
from ldm.parallel import Stage
from ldm.policy import Policy
from ldm.types import Count, StateActionTuple, Task, Trajectory, by_key

#: Numbers of adjacent steps left out together; pairs such as opening and closing need two.
BLOCKS = (8, 4, 2, 1)
#: The first word of an action.
_VERB = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The action that should have been taken at a step. saved: the steps that it saves."""

    step: Count
    action: str
    saved: Count


@dataclass(frozen=True, slots=True)
class Revision:
    """The result of hindsight for an episode.

    trajectory: its id. needed: the number of needed steps. shortcuts: at the others. possible: the
    possible actions of each step, None where unknown. error: the traceback of a replay that failed;
    then nothing is revised.
    """

    index: int
    trajectory: str
    needed: Count = 0
    shortcuts: tuple[Shortcut, ...] = ()
    possible: tuple[tuple[str, ...] | None, ...] = ()
    error: str = ""


class Reviser(refine.ExplorationWorker):
    """Revises solved episodes."""

    def __call__(self, item: tuple[int, Trajectory]) -> Revision:
        """Return the revision of an episode."""
        index, way = item

        def revision() -> Revision:
            with closing(Positions(self.setup.env, way.task)) as positions:
                return revise(positions, way, index)

        return self.attempted(revision, Revision(index, way.id))


def revise(positions: Positions, way: Trajectory, index: int = 0) -> Revision:
    """Revise an episode with the full score. Raise the errors of the environment.

    positions: of the episode's task.
    """
    actions = [step.action for _, step in way.moves()]
    needed = _needed(positions, actions)
    if not needed:
        return Revision(index, way.id)
    shortcuts: list[Shortcut] = []
    possible: list[tuple[str, ...] | None] = []
    position = positions.start()
    for number, action in enumerate(actions):
        rest = [actions[n] for n in needed if n > number]
        possible.append(position.now.admissible)
        if (
            number not in needed
            and rest
            and rest[0] != action
            and _is_possible(rest[0], way.task.goal, position)
            and _succeeds(positions, position, rest)
        ):
            shortcuts.append(Shortcut(number, rest[0], len(actions) - number - len(rest)))
        position = positions.moved(position, action)
        if position.now.done:
            break
    positions.drop(position)
    return Revision(index, way.id, len(needed), tuple(shortcuts), tuple(possible))


def revised(rows: Iterable[IndexedTuple], revisions: Iterable[Revision]) -> list[IndexedTuple]:
    """Return the tuples of solved episodes with the actions of hindsight."""
    by_way = {one.trajectory: one for one in revisions}
    return [
        _revised(row, by_way[way]) if (way := row.tuple.trajectory_id) in by_way else row
        for row in rows
    ]


def _revised(row: IndexedTuple, revision: Revision) -> IndexedTuple:
    one = row.tuple
    if one.step < len(revision.possible):
        one = replace(one, possible=revision.possible[one.step])
    for cut in revision.shortcuts:
        if cut.step == one.step and one.outcome is not None:
            one = replace(one, action=cut.action, outcome=replace(one.outcome, saved=cut.saved))
    return replace(row, tuple=one)


def _needed(positions: Positions, actions: Sequence[str]) -> list[int]:
    """Return the numbers of the necessary actions: leaving out one misses the full score.

    Actions that became impossible because others were left out have no effect, and are left out in
    turn. The list is empty if even all actions together miss the full score.
    """
    left = list(range(len(actions)))
    if not _succeeds(positions, positions.start(), actions):
        return []
    for size in BLOCKS:
        position, place = positions.start(), 0
        while place < len(left):
            rest = left[place + size :]
            if _succeeds(positions, position, [actions[n] for n in rest]):
                left[place:] = rest
                continue
            position = positions.moved(position, actions[left[place]])
            place += 1
        positions.drop(position)
    return left


def _is_possible(action: str, goal: str, position: Position) -> bool:
    """Return whether an action could have been taken in a state, as far as is known.

    If actions are not listed, everything that the action names must have been seen.
    """
    if position.now.admissible is not None:
        return action in position.now.admissible
    texts = [goal, position.now.observation, *(observation for observation, _ in position.past)]
    return words(_VERB.sub("", action, count=1)) <= words(" ".join(texts))


def _succeeds(positions: Positions, position: Position, actions: Sequence[str]) -> bool:
    """Return whether actions lead to the full score; `position` can be used again."""
    end = position
    for action in actions:
        if end.now.done:
            break
        before, end = end, positions.after(end, action)
        if before is not position:
            positions.drop(before)
    if end is not position:
        positions.drop(end)
    return end.score >= FULL_SCORE


Sort = Literal["practice", "improvement"]
SORTS: tuple[Sort, ...] = ("practice", "improvement")
#: Stages of a run: the results of each are in a file of its name.
HINDSIGHT, WITHOUT, WITH, KEPT = "hindsight", "gate_without", "gate_with_{}", "gate_kept"
#: Parts into which the goals are divided: each is played by a memory that knows the others.
FOLDS = 5
#: The worth of a score falls by this factor with each step, so that shorter episodes count.
DISCOUNT = 0.998
#: Why what does no harm to its own kind is refused.
TOGETHER = "all goals together do better without it"
#: Smaller differences count as none.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class GateOptions:
    """The options of the gate."""

    gate: Annotated[
        Literal["on", "off", "open"],
        "on: add only what does not lower training scores; off: all improvements, as in the paper; "
        "open: all",
    ] = "on"


class Candidate(NamedTuple):
    """The tuples that one explored goal may add to the memory."""

    task: Task
    sort: Sort
    rows: tuple[IndexedTuple, ...]


class Candidates(NamedTuple):
    """The tuples that a refinement may add. batches: the new ones, which hold the practice."""

    chosen: tuple[Candidate, ...] = ()
    batches: tuple[BatchIndex, ...] = ()

    @property
    def rows(self) -> tuple[IndexedTuple, ...]:
        """The tuples, each once."""
        rows = (row for one in self.chosen for row in one.rows)
        return tuple({row.tuple.id: row for row in rows}.values())

    def only(self, sorts: Collection[tuple[Sort, str]]) -> Candidates:
        """Return the candidates of some sorts and kinds, and the batches that they fill."""
        chosen = tuple(one for one in self.chosen if (one.sort, one.task.kind) in sorts)
        used = {row.batch for one in chosen for row in one.rows}
        return Candidates(chosen, tuple(batch for batch in self.batches if batch.id in used))


@dataclass(frozen=True, slots=True)
class Played:
    """The result of playing a goal. error: the traceback of a failed episode; its score is 0."""

    index: int
    task: str
    score: float
    steps: int
    error: str = ""

    @property
    def worth(self) -> float:
        """The score, discounted by the number of steps."""
        return self.score * DISCOUNT**self.steps


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of the goals of a kind without candidates of a sort, and with them.

    goals: the ids of those that the candidates are from. refused: why they do not join, or "".
    """

    sort: Sort
    kind: str
    goals: tuple[str, ...]
    before: tuple[Played, ...]
    after: tuple[Played, ...]
    refused: str = ""

    @property
    def gains(self) -> tuple[float, ...]:
        """The difference in the score of each goal."""
        return _gains(self.before, self.after)

    @property
    def saved(self) -> float:
        """The mean number of steps by which the episodes are shorter."""
        return fmean(b.steps - a.steps for b, a in zip(self.before, self.after, strict=True))

    def judged(self) -> Comparison:
        """Refuse the candidates if the goals lose more than a standard error, which may be chance.

        The score of a longer episode counts less.
        """
        losses = [b.worth - a.worth for b, a in zip(self.before, self.after, strict=True)]
        error = stdev(losses) / len(losses) ** 0.5 if len(losses) > 1 else 0.0
        if fmean(losses) <= error + TOLERANCE:
            return self
        lost = -fmean(self.gains)
        what = f"lose {lost:.3f}" if lost > TOLERANCE else f"need {-self.saved:.1f} steps more"
        return replace(self, refused=f"goals of kind {self.kind} {what} with its {self.sort}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's result.

    rows, batches: to be added. before, after: the results of all goals without the candidates, and
    with those that are kept; empty if nothing was played.
    """

    rows: tuple[IndexedTuple, ...] = ()
    batches: tuple[BatchIndex, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    before: tuple[Played, ...] = ()
    after: tuple[Played, ...] = ()

    @property
    def gains(self) -> tuple[float, ...]:
        """The difference that the additions make in the score of each goal."""
        return _gains(self.before, self.after)


def judge(
    stage: Stage,
    factory: refine.ExplorationFactory,
    explored: Sequence[refine.ExploredGoal],
    options: GateOptions,
    formation: FormationOptions,
    on_progress: OnProgress = lambda *_: None,
) -> Verdict:
    """Play the explored goals without the candidates and with them, and decide which to add.

    stage: plays trials and records them in the run. factory: builds the memory and policy that the
    goals were explored with. formation: how practice is cut into batches. on_progress: called with
    (stage, done, total).
    """
    if options.gate == "off":
        return Verdict(tuple({row.tuple.id: row for one in explored for row in one.added}.values()))

    def perform(name: str, worker: Any, items: Sequence[Any], record: Any) -> list[Any]:
        """Return the results of a stage, in the items' order, recorded in its file."""
        if not items:
            return []
        words, done = name.replace("_", " "), itertools.count(1)
        on_progress(words, 0, len(items))

        def advance(_: object) -> None:
            on_progress(words, next(done), len(items))

        return stage(f"{name}.jsonl", worker, list(enumerate(items)), record, advance)

    def revise(ways: Sequence[Trajectory]) -> Sequence[Revision]:
        return perform(HINDSIGHT, Reviser, ways, Revision)

    on_progress("form practice", 0, 1)  # a model that is always asked takes minutes
    candidates = collect(factory, explored, formation, revise)
    if not candidates.chosen or options.gate == "open":
        return Verdict(candidates.rows, candidates.batches)
    tasks = [one.task for one in explored if not one.error]
    folds = folds_of(tasks)

    def play(name: str, known: Candidates) -> tuple[Played, ...]:
        return tuple(perform(name, partial(Player, known, folds), tasks, Played))

    return verdict_on(candidates, {task.id: task.kind for task in tasks}, play)


def verdict_on(
    candidates: Candidates,
    kinds: Mapping[str, str],
    play: Callable[[str, Candidates], tuple[Played, ...]],
) -> Verdict:
    """Try one sort of candidates after the other, each beside what was kept before.

    kinds: id → kind of the goals. What was learnt of one kind also decides in others, so all goals
    are played with everything, and with everything but what lowers its own kind; of these results
    and those without candidates the best counts.
    """
    before = now = play(WITHOUT, Candidates())
    accepted: frozenset[tuple[Sort, str]] = frozenset()
    trials, comparisons = {accepted: before}, list[Comparison]()
    for sort in SORTS:
        chosen = (one.task for one in candidates.chosen if one.sort == sort)
        goals = by_key((task.kind, task.id) for task in chosen)
        if not goals:
            continue
        tried = accepted | {(sort, kind) for kind in goals}
        trials[tried] = after = play(WITH.format(sort), candidates.only(tried))
        for kind in sorted(goals):
            old, new = (
                tuple(one for one in played if kinds[one.task] == kind) for played in (now, after)
            )
            comparisons.append(Comparison(sort, kind, tuple(goals[kind]), old, new).judged())
        accepted |= {(one.sort, one.kind) for one in comparisons if not one.refused}
        now = tuple(
            a if (sort, kinds[a.task]) in accepted else b for b, a in zip(now, after, strict=True)
        )
    if accepted not in trials:
        trials[accepted] = play(KEPT, candidates.only(accepted))
    # Of equal ones the last, which was chosen most carefully.
    best = max(reversed(trials), key=lambda one: round(fmean(p.worth for p in trials[one]), 9))
    settled = [
        replace(one, refused="" if (one.sort, one.kind) in best else one.refused or TOGETHER)
        for one in comparisons
    ]
    additions = candidates.only(best)
    return Verdict(additions.rows, additions.batches, tuple(settled), before, trials[best])


def _gains(before: Iterable[Played], after: Iterable[Played]) -> tuple[float, ...]:
    return tuple(a.score - b.score for b, a in zip(before, after, strict=True))


def folds_of(tasks: Iterable[Task]) -> dict[str, int]:
    """Divide the sources of goals evenly into folds, each kind by itself: source → fold."""
    ordered = sorted({(task.kind, task.leak_key) for task in tasks})
    return {source: number % FOLDS for number, (_, source) in enumerate(ordered)}


class Player(refine.ExplorationWorker):
    """Plays goals with some candidates, each without the tuples of its fold."""

    def __init__(
        self, known: Candidates, folds: Mapping[str, int], setup: refine.ExplorationSetup
    ) -> None:
        super().__init__(setup)
        memory = setup.memory
        self._memory = memory.with_rows(known.rows, known.batches) if known.chosen else memory
        self._folds = folds
        self._policies: dict[frozenset[str], Policy] = {}

    def __call__(self, item: tuple[int, Task]) -> Played:
        """Return the result of playing a goal."""
        index, task = item

        def played() -> Played:
            policy = self.policy(self._folds[task.leak_key])
            with closing(Positions(self.setup.env, task)) as positions:
                end = start = positions.start()
                batches = policy.batches(task.goal, task.kind)
                for _, position in self.setup.greedy(positions, start, task, policy, batches):
                    end = position
                return Played(index, task.id, end.earned, len(end.past))

        return self.attempted(played, Played(index, task.id, 0.0, 0))

    def policy(self, fold: int) -> Policy:
        """Return the policy whose memory has neither tuples nor lessons of the fold's goals."""
        hidden = frozenset(
            trajectory
            for source, trajectory in self._memory.rows.pairs("source", "trajectory_id")
            if self._folds.get(source) == fold
        )
        if hidden not in self._policies:
            memory = self._memory.without(trajectories=hidden)
            self._policies[hidden] = self.setup.policy.with_memory(memory)
        return self._policies[hidden]


def collect(
    factory: refine.ExplorationFactory,
    explored: Sequence[refine.ExploredGoal],
    formation: FormationOptions,
    revise: Callable[[Sequence[Trajectory]], Iterable[Revision]] = lambda _: (),
) -> Candidates:
    """Return the solved episodes of explored goals, formed as batches, and the improvements.

    revise: looks at the solutions in hindsight. Goals whose solution the memory holds give no
    practice, and goals with practice give no improvements.
    """
    ways = {one.task.id: way for one in explored if (way := solution(one)) is not None}
    better = [
        Candidate(one.task, "improvement", one.added)
        for one in explored
        if one.added and one.task.id not in ways
    ]
    if not ways:
        return Candidates(tuple(better))
    earned = {one.task.id: max((t.ground.score for t in one.trees), default=0) for one in explored}
    setup = factory()
    with closing(setup.env):
        held, number = setup.memory.rows, setup.memory.generation + 1

        def tuples_from(way: Trajectory) -> list[StateActionTuple]:
            advantage = round(way.score - earned[way.task.id], 9)
            return tuples_of(way, setup.reasoner, number, advantage=advantage)

        full = held.with_outcome(lambda one: one is None or one.score >= FULL_SCORE)
        remembered = held.take(full).distinct("source").values()
        new = {way.id: way for way in ways.values() if way.task.leak_key not in remembered}
        formed = [
            form_batch(name, members, setup.reasoner, number, tuples_from)
            for name, members in plan_batches(
                new.values(), formation, [one.id for one in setup.memory.batches]
            ).items()
        ]
    rows = revised((row for _, of_batch in formed for row in of_batch), revise([*new.values()]))
    by_way = by_key((row.tuple.trajectory_id, row) for row in rows)
    practice = (Candidate(new[way].task, "practice", tuple(by_way[way])) for way in by_way)
    return Candidates((*practice, *better), tuple(index for index, _ in formed))


def solution(explored: refine.ExploredGoal) -> Trajectory | None:
    """Return the shortest episode with the full score, a ground process if there is one."""
    grounds = [tree.ground for tree in explored.trees if tree.ground.success]
    ways = (refine.best_trajectory(explored.task, tree) for tree in explored.trees if tree.nodes)
    solved = grounds or [way for way in ways if way.success]
    return min(solved, key=lambda way: len(way.steps), default=None)
