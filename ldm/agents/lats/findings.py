"""What reports say of LATS: how much was tried for a task, and the tree itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ldm.agents.reporting import Branch, BranchState, Measure, Reporting, TaskTree
from ldm.types import EpisodeResult

#: Kind of the note that holds a tree.
NOTE = "lats"


def data_of(result: EpisodeResult) -> Mapping[str, Any] | None:
    """Return the note on an episode's search; None where there is none."""
    return next((note.data for note in result.notes if note.kind == NOTE), None)


def _counted(key: str) -> Callable[[EpisodeResult], float | None]:
    def of(result: EpisodeResult) -> float | None:
        data = data_of(result)
        return None if data is None else float(data[key])

    return of


def _nodes(result: EpisodeResult) -> float | None:
    data = data_of(result)
    return None if data is None else float(len(data["tree"]) - 1)


def _tree(result: EpisodeResult) -> TaskTree | None:
    data = data_of(result)
    if data is None:
        return None
    depths: list[int] = []
    for node in data["tree"]:
        depths.append(0 if node["parent"] is None else depths[node["parent"]] + 1)
    simulations, nodes, depth = data["simulations"], len(depths) - 1, max(depths)
    return TaskTree(
        {"simulations": str(simulations), "nodes": str(nodes), "depth": str(depth)},
        f"{simulations} simulations, {nodes} nodes, depth {depth}",
        tuple(_line(depth, node) for depth, node in zip(depths, data["tree"], strict=True)),
        _branches(data["tree"]),
        paths=True,
    )


def _branches(tree: Sequence[Mapping[str, Any]]) -> tuple[Branch, ...]:
    """Return the tree for a report, each node before those below it."""
    below: dict[int | None, list[int]] = {}
    for number, node in enumerate(tree):
        below.setdefault(node["parent"], []).append(number)
    result: list[Branch] = []
    stack = [(number, 0) for number in reversed(below.get(None, []))]
    while stack:
        number, depth = stack.pop()
        result.append(_branch(depth, tree[number]))
        stack += [(child, depth + 1) for child in reversed(below.get(number, []))]
    return tuple(result)


def _branch(depth: int, node: Mapping[str, Any]) -> Branch:
    """Return a node for a report: the step, its value and visits, and how it ended."""
    state: BranchState = "" if not node["end"] else "done" if node["reward"] >= 1 else "failed"
    figures = {"value": f"{node['value']:.2f}", "visits": str(node["visits"])}
    if node["end"]:
        figures["reward"] = f"{node['reward']:.2f}"
    return Branch(
        depth,
        node["action"] or ("(thought)" if node["thought"] else "the task"),
        state if node["valid"] else "failed",
        node["end"] if node["valid"] else "invalid",
        figures,
        texts={"thought": node["thought"]} if node["thought"] else {},
    )


def _line(depth: int, node: Mapping[str, Any]) -> str:
    """Return a node as a line: value and visits, the step, and how it ended."""
    figures = f"{node['value']:.2f} ×{node['visits']}"
    step = node["action"] or (f"({node['thought']})" if node["thought"] else "the task")
    end = f": {node['end']}, reward {node['reward']:.2f}" if node["end"] else ""
    mark = "" if node["valid"] else " (invalid)"
    return f"{'  ' * depth}{figures} {step}{mark}{end}"


REPORTING = Reporting(
    (
        Measure("simulations", "trajectories tried to their end", _counted("simulations")),
        Measure("nodes", "nodes of the tree", _nodes),
        Measure("replayed", "steps that only led back to a state", _counted("replayed")),
    ),
    tree=_tree,
)
