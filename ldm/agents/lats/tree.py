"""The tree of a search: values and visits, selection and backpropagation, and its report.

Selection and backpropagation of LATS (Zhou et al., arXiv 2310.04406, §4.2 and Algorithm 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from ldm.episode import FULL_SCORE
from ldm.reporting import Branch, BranchState, Reporting, TaskTree, measure_of_note, noted
from ldm.types import End, EpisodeResult, Step

#: Kind of the note that holds a tree.
NOTE = "lats"
#: What a record holds of a node; estimates are rounded.
RECORDED = ("thought", "action", "visits", "valid", "end", "reward", "trial")
ESTIMATES = ("share", "rating", "value")


@dataclass(eq=False)
class Node:
    """A state of the task, and the step that leads to it: a thought and an action, or a thought.

    share: of the samples that proposed the step (the paper's SC). rating: the model's score of the
    state, in [0, 1] (its LM). value: V, from both at first and then also from the rewards of
    trajectories through it. visits: N, from 1, so that the first estimate counts like a trajectory.
    observation, valid, admissible: the result of the step. end: why no step follows; "" if one may.
    reward: of the trajectory up to here, if it ends here. trial: the one in which the step was
    first taken.
    """

    thought: str = ""
    action: str = ""
    parent: Node | None = field(default=None, repr=False)
    share: float = 0.0
    rating: float = 0.0
    value: float = 0.0
    visits: int = 1
    observation: str = ""
    valid: bool = True
    admissible: tuple[str, ...] | None = None
    end: End | None = None
    reward: float = 0.0
    trial: int = 0
    children: list[Node] = field(default_factory=list, repr=False)

    @property
    def path(self) -> tuple[Node, ...]:
        """The nodes from the root's child to this one."""
        path: list[Node] = []
        node = self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return tuple(reversed(path))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps on the path to this node, for prompts."""
        return tuple(
            Step(one.action, one.observation, thought=one.thought, valid=one.valid)
            for one in self.path
        )

    @property
    def succeeded(self) -> bool:
        return self.end is not None and self.reward >= FULL_SCORE

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, each before its children."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))


def as_data(root: Node) -> list[dict[str, Any]]:
    """Return the nodes of a tree as JSON values, for a note; `parent` is an index in the list.

    The trials hold the observations. It is a list because trees may be too deep to nest in JSON.
    """
    places: dict[Node | None, int | None] = {None: None}
    entries = []
    for place, node in enumerate(root.walk()):
        places[node] = place
        recorded = {name: getattr(node, name) for name in RECORDED}
        estimates = {name: round(getattr(node, name), 4) for name in ESTIMATES}
        entries.append({"parent": places[node.parent], **recorded, **estimates})
    return entries


def uct(node: Node, exploration: float) -> float:
    """Return V(s) + w · √(ln N(parent) / N(s)): the value of continuing from a child."""
    assert node.parent is not None  # noqa: S101 - the root is never chosen among siblings
    return node.value + exploration * math.sqrt(math.log(node.parent.visits) / node.visits)


def select(root: Node, exploration: float) -> Node | None:
    """Return the leaf to continue from: from the root down, always the child with the greatest UCT.

    Of equal children the first is taken. Nodes below which all trajectories have ended are skipped,
    since the same steps would give the same results; return None if no other node is left.
    """
    left = unfinished(root)
    if root not in left:
        return None
    node = root
    while node.children:
        children = (child for child in node.children if child in left)
        node = max(children, key=lambda child: uct(child, exploration))
    return node


def unfinished(root: Node) -> set[Node]:
    """Return the nodes on trajectories that have not ended."""
    left: set[Node] = set()
    for node in reversed(list(root.walk())):  # children before their parents
        if node.end is None and (not node.children or not left.isdisjoint(node.children)):
            left.add(node)
    return left


def backup(node: Node, reward: float) -> None:
    """Count a trajectory that ended at `node`, there and in all nodes above it."""
    at: Node | None = node
    while at is not None:
        at.visits += 1
        at.value = (at.value * (at.visits - 1) + reward) / at.visits
        at = at.parent


def best(root: Node) -> Node | None:
    """Return the end of the trajectory that earned most, the earliest of equals; None without any.

    Earliest: by the trial in which it ended.
    """
    ends = [node for node in root.walk() if node.end is not None]
    return min(ends, key=lambda node: (-node.reward, node.trial), default=None)


def data_of(result: EpisodeResult) -> Mapping[str, Any] | None:
    """Return the note on an episode's search, or None."""
    return noted(result, NOTE)


def _tree(result: EpisodeResult) -> TaskTree | None:
    data = data_of(result)
    if data is None:
        return None
    branches = tuple(_branches(data["tree"]))
    nodes, depth = len(branches) - 1, max(one.depth for one in branches)
    return TaskTree(
        {"simulations": str(data["simulations"]), "nodes": str(nodes), "depth": str(depth)},
        f"{data['simulations']} simulations, {nodes} nodes, depth {depth}",
        branches,
        paths=True,
    )


def _branches(tree: Sequence[Mapping[str, Any]]) -> Iterator[Branch]:
    """Yield the tree for reports; `tree` lists each node before those below it."""
    depths: list[int] = []
    for node in tree:
        depths.append(0 if node["parent"] is None else depths[node["parent"]] + 1)
        state: BranchState = "" if not node["end"] else "done" if node["reward"] >= 1 else "failed"
        figures = {"value": f"{node['value']:.2f}", "visits": str(node["visits"])}
        if node["end"]:
            figures["reward"] = f"{node['reward']:.2f}"
        yield Branch(
            depths[-1],
            node["action"] or ("(thought)" if node["thought"] else "the task"),
            state if node["valid"] else "failed",
            (node["end"] or "") if node["valid"] else "invalid",
            figures,
            texts={"thought": node["thought"]} if node["thought"] else {},
        )


REPORTING = Reporting(
    (
        measure_of_note(
            "simulations", "trajectories tried to their end", NOTE, itemgetter("simulations")
        ),
        measure_of_note("nodes", "nodes of the tree", NOTE, lambda data: len(data["tree"]) - 1),
        measure_of_note(
            "replayed", "steps that only led back to a state", NOTE, itemgetter("replayed")
        ),
    ),
    tree=_tree,
)
