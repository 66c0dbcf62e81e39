"""The tree of decision processes (LDM² §3.3): grown level by level, pruned by confidence.

`Positions` returns to the states of a task, by `fork()` or else by replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from ldm.episode import FULL_SCORE, NO_ACTION, Environment, checked
from ldm.errors import ForkUnsupported, ReplayDivergence
from ldm.reason import Answer
from ldm.types import Amount, Number, Past, Positive, Task, TimeStep, stable_hash


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """A state of a task that exploration has reached.

    now: its observation. past: (o_1, a_1) … up to it. score: the sum of the rewards so far. env:
    the environment in this state, or None if it has to be replayed.
    """

    now: TimeStep
    past: Past
    score: float
    env: Environment | None = field(default=None, repr=False)

    @property
    def earned(self) -> float:
        """The score, from 0 to 1."""
        return min(1.0, max(0.0, self.score))

    @property
    def state(self) -> str:
        """A hash of the observation: equal for states that look the same."""
        return stable_hash(self.now.observation, self.now.admissible, self.now.done)

    @property
    def situation(self) -> str:
        """A hash that is equal for states that look the same, with the same observed before.

        Earlier observations count, in any order: decisions rest on them, and they tell states apart
        that look the same (a cold egg and a hot one, out of sight).
        """
        before = sorted({observation for observation, _ in self.past})
        return stable_hash(self.state, round(self.score, 9), before)


class Positions:
    """Navigation between positions of one task; close it when done.

    steps: environment steps to new positions. replayed: steps back to known ones.
    """

    def __init__(self, env: Environment, task: Task) -> None:
        """Prepare a task. env: used until `close`, which does not close it."""
        self.steps = 0
        self.replayed = 0
        self._env = env
        self._task = task
        self._forks = True
        self._open: list[Environment] = []
        self._current: Position | None = None

    def start(self) -> Position:
        """Return the task's opening."""
        now = self._env.reset(self._task)
        start = Position(now, (), now.reward, self._fork(self._env))
        if start.env is None:
            self._current = start
        return start

    def after(self, position: Position, action: str) -> Position:
        """Return the position that `action` leads to; `position` itself can be used again.

        Raise ReplayDivergence if replaying the path to `position` gives other observations.
        """
        action = action if action.strip() else NO_ACTION
        env = self._environment_at(position)
        now = checked(env.step(action), self._task)
        self.steps += 1
        past = (*position.past, (position.now.observation, action))
        reached = Position(
            now, past, position.score + now.reward, None if position.env is None else env
        )
        if reached.env is None:
            self._current = reached
        return reached

    def moved(self, position: Position, action: str) -> Position:
        """Return the position that `action` leads to, and drop `position`."""
        reached = self.after(position, action)
        self.drop(position)
        return reached

    def drop(self, position: Position) -> None:
        """Close the environment of `position`, which cannot be used after that."""
        if position.env is not None and position.env in self._open:
            self._open.remove(position.env)
            position.env.close()

    def close(self) -> None:
        """Close the environments of all positions."""
        while self._open:
            self._open.pop().close()

    def _environment_at(self, position: Position) -> Environment:
        if position.env is not None and (fork := self._fork(position.env)) is not None:
            return fork
        if position is not self._current:
            self._replay(position)
        self._current = None
        return self._env

    def _fork(self, env: Environment) -> Environment | None:
        if not self._forks:
            return None
        try:
            fork = env.fork()
        except ForkUnsupported:
            self._forks = False
            return None
        self._open.append(fork)
        return fork

    def _replay(self, position: Position) -> None:
        """Replay the path to `position`, checking every observation."""
        now = self._env.reset(self._task)
        observations = [observation for observation, _ in position.past]
        for number, expected in enumerate([*observations, position.now.observation]):
            if now.observation != expected:
                raise ReplayDivergence(
                    f"{self._task.id}: the same actions led elsewhere after step {number}: "
                    f"{now.observation[:80]!r} instead of {expected[:80]!r}.",
                    "The environment is not deterministic; it cannot be explored by replay.",
                )
            if number < len(position.past):
                now = self._env.step(position.past[number][1])
                self.replayed += 1


#: The fate of a node. "grown": it has children. "pruned": too little confidence, never tried. The
#: others are leaves: the task ended, the depth was reached, the search was over, no action was
#: possible. Two do not end a decision process: "invalid", whose action the environment refused, and
#: "merged", whose state a best-first search has already searched.
Fate = Literal["grown", "pruned", "done", "depth", "over", "dead end", "invalid", "merged"]
LEAVES: tuple[Fate, ...] = ("done", "depth", "over", "dead end")
#: Fates of nodes that belong to no decision process.
NO_PROCESS: tuple[Fate, ...] = ("pruned", "invalid", "merged")


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Limits of a search (LDM² §3.3, which states only the width; the rest is ours)."""

    width: Annotated[Positive, "Paths kept after each level of the tree (n)"] = 4
    concentration: Annotated[
        Amount, "Share of the votes from which only the majority is tried; above 1: never"
    ] = 0.8
    proposals: Annotated[Positive, "Actions proposed in a state (z)"] = 5
    depth: Annotated[Positive, "Maximum steps of a path"] = 50
    budget: Annotated[Positive, "Steps of a best-first search for a goal"] = 3_000


@dataclass(frozen=True, slots=True)
class TreeNode:
    """An action in the tree and the state it led to. Node 0 is the task's opening.

    parent: the number of the node before, -1 for node 0. confidence: of the action.
    path_confidence: the product along the path. observation: empty if the action was not tried.
    score: of the path so far.
    """

    number: int
    parent: int
    depth: int
    action: str
    confidence: Number
    path_confidence: Number
    fate: Fate
    observation: str = ""
    score: Number = 0.0


Decide = Callable[[Position], Answer]


class Growth:
    """Grows a tree. places: the number of paths allowed in addition to the finished ones."""

    def __init__(self, positions: Positions, decide: Decide, options: TreeOptions) -> None:
        self._positions = positions
        self._decide = decide
        self._depth = options.depth
        self._places = options.width
        self._nodes: list[TreeNode] = []
        self._at: dict[int, Position] = {}

    def run(self) -> tuple[TreeNode, ...]:
        """Return the whole tree, by number; a child comes after its parent.

        Finished paths count towards the `width`, open ones share the rest. The search ends with the
        first full score: paths still open could only be longer.
        Raise the errors of the environment and of `decide`, and ReplayDivergence.
        """
        self._at[0] = start = self._positions.start()
        self._nodes.append(opening(start))
        open_paths = [0]
        for _ in range(self._depth):
            tried = self._level(open_paths)
            ended = [number for number in tried if self._nodes[number].fate == "done"]
            open_paths = [number for number in tried if self._nodes[number].fate == "grown"]
            self._places -= len(ended)
            self._leave(ended)
            if any(self._nodes[number].score >= FULL_SCORE for number in ended):
                self._leave(open_paths, "over")
                open_paths = []
            if not open_paths:
                return tuple(self._nodes)
        self._leave(open_paths, "depth")
        return tuple(self._nodes)

    def _level(self, parents: Sequence[int]) -> list[int]:
        """Propose actions in the states of all open paths, then try the most confident ones.

        Return the numbers of the new valid nodes. A path without a possible action is finished, and
        counts towards the width.
        """
        first = len(self._nodes)
        untried = Counter[int]()
        for parent in parents:
            children = self._children(parent)
            untried[parent] = len(children)
            self._nodes += children
        dead_ends = {parent for parent in parents if not untried[parent]}
        valid: list[int] = []
        for node in sorted(self._nodes[first:], key=lambda n: (-n.path_confidence, n.number)):
            if len(valid) + len(dead_ends) >= self._places:
                break
            fate = self._try(node)
            if fate != "invalid":
                valid.append(node.number)
            else:
                untried[node.parent] -= 1
                if not untried[node.parent]:
                    dead_ends.add(node.parent)
        self._places -= len(dead_ends)
        self._leave(sorted(dead_ends), "dead end")
        self._leave([parent for parent in parents if parent not in dead_ends])
        return valid

    def _children(self, parent: int) -> list[TreeNode]:
        """Return the untried children of an open path's last node, most confident first."""
        decision = self._decide(self._at[parent])
        node = self._nodes[parent]
        confidences: dict[str, float] = {}
        for proposal in decision.proposals:
            confidences.setdefault(proposal.action, proposal.confidence)
        return [
            child(node, number, action, confidence)
            for number, (action, confidence) in enumerate(confidences.items(), len(self._nodes))
        ]

    def _try(self, node: TreeNode) -> Fate:
        """Execute a node's action; return its fate."""
        position = self._positions.after(self._at[node.parent], node.action)
        tried = self._nodes[node.number] = entered(node, position)
        self._at[node.number] = position
        if tried.fate == "invalid":
            self._leave([node.number])
        return tried.fate

    def _leave(self, numbers: Sequence[int], fate: Fate | None = None) -> None:
        """Drop the positions of nodes that are not continued, and set their fate."""
        for number in numbers:
            if fate is not None:
                self._nodes[number] = replace(self._nodes[number], fate=fate)
            self._positions.drop(self._at.pop(number))


def opening(start: Position) -> TreeNode:
    """Return node 0 of a tree."""
    return entered(TreeNode(0, -1, 0, "", 1.0, 1.0, "grown"), start)


def child(parent: TreeNode, number: int, action: str, confidence: float) -> TreeNode:
    """Return the node of an untried action."""
    return TreeNode(
        number=number,
        parent=parent.number,
        depth=parent.depth + 1,
        action=action,
        confidence=confidence,
        # Rounded, so that the order of the factors decides no tie.
        path_confidence=float(f"{parent.path_confidence * confidence:.12g}"),
        fate="pruned",
    )


def entered(node: TreeNode, position: Position) -> TreeNode:
    """Return a node with the state that its action led to, and its fate."""
    now = position.now
    fate: Fate = "done" if now.done else "grown" if now.valid else "invalid"
    return replace(node, fate=fate, observation=now.observation, score=position.earned)


def ended(nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
    """Return the nodes at the end of a search: processes end at nodes without a valid child."""
    followed = {node.parent for node in nodes if node.fate not in NO_PROCESS}
    return tuple(
        replace(node, fate="over") if node.fate == "grown" and node.number not in followed else node
        for node in nodes
    )


def leaves(nodes: Sequence[TreeNode]) -> list[TreeNode]:
    """Return the ends of the decision processes in a tree, by number."""
    return [node for node in nodes if node.fate in LEAVES]


def best_leaf(nodes: Sequence[TreeNode]) -> TreeNode:
    """Return the end of P*: highest score, then shortest, then most confident, then first."""
    return min(leaves(nodes), key=lambda n: (-round(n.score, 9), n.depth, -n.path_confidence))


def path_to(nodes: Sequence[TreeNode], leaf: TreeNode) -> list[TreeNode]:
    """Return the nodes from the opening (node 0) to `leaf`, both included."""
    path = [leaf]
    while path[-1].parent >= 0:
        path.append(nodes[path[-1].parent])
    return path[::-1]
