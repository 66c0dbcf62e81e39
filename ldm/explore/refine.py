"""Exploration of training goals for better decisions (LDM² §3.3).

Each goal is played by the ground process P_g, greedy with the present memory, and explored as a
tree of decision processes. If its best, P*, earns more than P_g, its steps from the key step on
become tuples. All goals read the same generation; the tuples of all of them form the next one.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from ldm import records
from ldm.episode import FULL_SCORE, Environment
from ldm.errors import LdmError, RunStopped
from ldm.explore.best_first import Search
from ldm.explore.tree import Growth, Position, Positions, TreeNode, TreeOptions, best_leaf, path_to
from ldm.memory import Memory
from ldm.memory.formation import tuples_of
from ldm.memory.index import IndexedTuple
from ldm.policy import Policy
from ldm.reason import Answer, Process, Reasoner, State
from ldm.runs import Run
from ldm.types import History, Origin, Seconds, Step, Task, Trajectory, Usage

TREES = "trees.jsonl"
#: Actions in a state whose votes a best-first search reads; the others count as without votes.
ALTERNATIVES = 50
R = TypeVar("R", bound=Any)


@dataclass(frozen=True, slots=True)
class RefineOptions(TreeOptions):
    """Options of exploration, by the paper's tree (`tree.py`) or our search (`best_first.py`)."""

    explorer: Annotated[
        Literal["tree", "best-first"], "Best-first, or the paper's tree; default: by gate and model"
    ] = "tree"
    decision: Annotated[
        Literal["pooled", "per-batch"],
        "Explore a goal once with all batch memories of its kind, or once with each of them",
    ] = "pooled"


@dataclass(frozen=True, slots=True)
class Tree:
    """The exploration of one goal with some batch memories.

    batches: the memories that were searched. ground: P_g. nodes: the tree, by number; empty if P_g
    has the full score. best: the node at the end of P*, -1 without a tree. key: the index of the
    key step among the actions of P*, -1 if P* is no better than P_g. into, added: the batch and its
    new tuples. steps, replayed: environment steps to new states, P_g's included, and back to known
    ones.
    """

    batches: tuple[str, ...]
    ground: Trajectory
    nodes: tuple[TreeNode, ...] = ()
    best: int = -1
    key: int = -1
    into: str = ""
    added: tuple[IndexedTuple, ...] = ()
    steps: int = 0
    replayed: int = 0

    def __post_init__(self) -> None:
        for place, node in enumerate(self.nodes):
            before = node.parent == -1 if place == 0 else 0 <= node.parent < place
            if node.number != place or not before:
                raise ValueError(f"node {place} is out of order, or its parent does not precede it")
        if not -1 <= self.best < max(1, len(self.nodes)):
            raise ValueError(f"there is no node {self.best}, the best one")

    @property
    def improved(self) -> bool:
        return self.key >= 0

    @property
    def tried(self) -> int:
        """The number of actions tried: all nodes but the opening and pruned proposals."""
        return sum(node.fate != "pruned" for node in self.nodes[1:])

    @property
    def best_score(self) -> float:
        """The score of P*, or of P_g without a tree."""
        return self.nodes[self.best].score if self.nodes else self.ground.score

    @property
    def path(self) -> list[TreeNode]:
        """P*, from the opening on; empty without a tree."""
        return path_to(self.nodes, self.nodes[self.best]) if self.nodes else []


@dataclass(frozen=True, slots=True)
class ExploredGoal:
    """A line of trees.jsonl: one goal with its trees, one a batch or one for all.

    seconds: wall time; the only field that differs between two runs with the same seed.
    error: the traceback of an exploration that failed; it adds nothing.
    usage: of the model, where one is asked.
    """

    index: int
    task: Task
    trees: tuple[Tree, ...] = ()
    seconds: Seconds = 0.0
    error: str = ""
    usage: Annotated[Usage, Field(exclude_if=Usage().__eq__)] = Usage()  # noqa: RUF009 - frozen

    @property
    def added(self) -> tuple[IndexedTuple, ...]:
        return tuple(row for tree in self.trees for row in tree.added)


@dataclass(frozen=True, slots=True)
class ExplorationSetup:
    """The environment, memory, reasoner and policy with which goals are explored.

    spent: the usage of each call of the model so far.
    """

    env: Environment
    memory: Memory
    reasoner: Reasoner
    policy: Policy
    options: RefineOptions = field(default_factory=RefineOptions)
    spent: list[Usage] = field(default_factory=list)

    def observed(self, task: Task, position: Position, plan: tuple[str, ...] = ()) -> State:
        """Return the situation at `position`. plan: of the decision before."""
        return State(
            goal=task.goal,
            history=History(past=position.past),
            observation=position.now.observation,
            admissible=position.now.admissible,
            plan=plan,
            key=task.id,
            localize=self.env.localize,
            steps_left=self.options.depth - len(position.past),
            kind=task.kind,
        )

    def greedy(
        self,
        positions: Positions,
        start: Position,
        task: Task,
        policy: Policy,
        batches: Sequence[str],
    ) -> Iterator[tuple[Answer, Position]]:
        """Follow the best decisions from `start` on; yield each with the position it leads to."""
        position, plan = start, tuple[str, ...]()
        while not position.now.done and len(position.past) < self.options.depth:
            decision = policy.decide(self.observed(task, position, plan), batches, recorded=False)
            plan, position = decision.plan, positions.moved(position, decision.action)
            yield decision, position


#: Builds the setup in the process that needs it.
ExplorationFactory = Callable[[], ExplorationSetup]


class ExplorationWorker:
    """A worker with a setup, whose failures are data."""

    def __init__(self, setup: ExplorationSetup) -> None:
        self.setup = setup

    def attempted(self, work: Callable[[], R], failed: R) -> R:
        """Return the result of `work`, or `failed` with the traceback of its error."""
        try:
            return work()
        except RunStopped:
            raise
        except Exception:  # one failure must not lose the others
            return replace(failed, error=traceback.format_exc())

    def close(self) -> None:
        self.setup.env.close()


class Explorer(ExplorationWorker):
    """Explores goals one by one."""

    def __call__(self, item: tuple[int, Task]) -> ExploredGoal:
        """Return the result for one goal."""
        failed, started = ExploredGoal(*item), time.perf_counter()
        self.setup.spent.clear()
        explored = self.attempted(lambda: replace(failed, trees=self.explore(item[1])), failed)
        usage = sum(self.setup.spent, Usage())
        return replace(explored, seconds=round(time.perf_counter() - started, 3), usage=usage)

    def explore(self, task: Task) -> tuple[Tree, ...]:
        """Return the trees of a goal. Raise the errors of the environment and the reasoner."""
        batches = self.setup.policy.batches(task.goal, task.kind)
        if self.setup.options.decision == "pooled":
            return (self._tree(task, batches),)
        return tuple(self._tree(task, (batch,)) for batch in batches)

    def _tree(self, task: Task, batches: tuple[str, ...]) -> Tree:
        nodes: tuple[TreeNode, ...] = ()
        with closing(Positions(self.setup.env, task)) as positions:
            ground, confidences = self._ground(task, positions, batches)
            if ground.score < FULL_SCORE:
                nodes = self._explored(task, positions, batches)
        best = best_leaf(nodes).number if nodes else -1
        tree = Tree(
            *(batches, ground, nodes, best), steps=positions.steps, replayed=positions.replayed
        )
        if tree.best_score <= ground.score:
            return tree
        way = best_trajectory(task, tree)
        process = _process(way, [node.confidence for node in tree.path[1:]])
        key = self.setup.reasoner.compare(process, _process(ground, confidences))
        return self._with_added_tuples(replace(tree, key=min(max(key, 0), len(way.steps) - 1)), way)

    def _explored(
        self, task: Task, positions: Positions, batches: tuple[str, ...]
    ) -> tuple[TreeNode, ...]:
        """Return the decision processes tried by the search."""
        policy, options = self.setup.policy, self.setup.options

        def decide(position: Position) -> Answer:
            now = self.setup.observed(task, position)
            if options.explorer == "best-first":
                return policy.rank(now, batches, ALTERNATIVES)
            return policy.branch(now, batches, options.proposals, options.concentration)

        if options.explorer == "best-first":
            return Search(positions, task.goal, decide, options).run()
        return Growth(positions, decide, options).run()

    def _ground(
        self, task: Task, positions: Positions, batches: tuple[str, ...]
    ) -> tuple[Trajectory, list[float]]:
        """Return P_g, one greedy decision process, and the confidences of its actions."""
        setup = self.setup
        start = end = positions.start()
        steps: list[Step] = []
        confidences: list[float] = []
        for decision, end in setup.greedy(positions, start, task, setup.policy, batches):
            now, action = end.now, end.past[-1][1]
            steps.append(Step(action, now.observation, now.reward, valid=now.valid))
            confidences.append(decision.proposals[0].confidence)
        return _finished(task, start.now.observation, steps, end.score, "agent"), confidences

    def _with_added_tuples(self, tree: Tree, way: Trajectory) -> Tree:
        """Return the tree of an improved goal with the tuples that it adds to the memory.

        They join the batch that supplies most of the recalls in their states.
        """
        memory, advantage = self.setup.memory, round(tree.best_score - tree.ground.score, 9)
        tuples = tuples_of(way, self.setup.reasoner, memory.generation + 1, tree.key, advantage)
        counts = Counter[str]()
        for one in tuples if len(tree.batches) > 1 else ():  # a classifying model is paid each time
            now = State(one.goal, one.history, one.observation, key=way.task.id)
            counts.update(each.batch for each in self.setup.policy.recall(now, tree.batches))
        into = min(counts, key=lambda batch: (-counts[batch], batch), default=tree.batches[0])
        placed = memory.place(into, tuples, self.setup.policy.classifier)
        return replace(tree, into=into, added=placed)


def read_explored_goals(run: Run) -> list[ExploredGoal]:
    """Return the results of a finished refinement. Raise LdmError for an unfinished one."""
    path = run.directory / TREES
    if not path.is_file():
        raise LdmError(f"{run.directory} is unfinished.", f"Resume with `{run.resume_command}`.")
    return records.read(path, ExploredGoal)


def best_trajectory(task: Task, tree: Tree) -> Trajectory:
    """Return P* of a tree as an episode; its rewards are the differences of the scores."""
    steps = [
        Step(node.action, node.observation, node.score - before.score)
        for before, node in pairwise(tree.path)
    ]
    return _finished(task, tree.path[0].observation, steps, tree.best_score, "explored")


def _finished(
    task: Task, opening: str, steps: Sequence[Step], score: float, origin: Origin
) -> Trajectory:
    score = min(1.0, max(0.0, score))
    return Trajectory(task, opening, tuple(steps), score, score >= FULL_SCORE, origin)


def _process(trajectory: Trajectory, confidences: Sequence[float]) -> Process:
    steps = tuple((step.action, step.observation) for step in trajectory.steps)
    return Process(trajectory.task.goal, trajectory.opening, steps, tuple(confidences))
