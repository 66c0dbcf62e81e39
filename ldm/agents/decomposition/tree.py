"""The tree of a controller's tasks: for the record of a run, and for reports on it.

Reports compare its own judgement with the truth (ADaPT, arXiv 2311.05772, Table 7 and Fig. 10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ldm.agents.decomposition.logic import Plan, written
from ldm.reporting import Branch, BranchState, Findings, Measure, Reporting, TaskTree, noted
from ldm.types import EpisodeResult

#: The field with the tree in the note of an agent that divides tasks; its kind is the agent's name.
TREE = "tree"

#: How an executor ended: by its own judgement; out of steps; because the environment's task ended;
#: because the episode was stopped from outside (its budget or the calls of a task were spent).
Ending = Literal["", "completed", "failed", "budget", "ended", "stopped"]


@dataclass
class Node:
    """A task in the recursion.

    step: its number in the parent's plan, 0 for the root. k: its depth, from 1. mode: "judge" if
    one look decided. executor, steps: how its own executor ended, if one was run, and after how
    many steps (without those that prepared its prompt). success: the controller's judgement,
    sub-tasks included; None if it was cut short. done: whether the environment's task had ended by
    then.
    """

    task: str
    k: int = 1
    step: int = 0
    mode: Literal["loop", "judge"] = "loop"
    executor: Ending = ""
    steps: int = 0
    success: bool | None = None
    done: bool = False
    plan: dict[str, str] = field(default_factory=dict)
    logic: str = ""
    flaw: str = ""
    children: list[Node] = field(default_factory=list)

    def planned(self, plan: Plan) -> None:
        """Record the plan for this task."""
        self.plan = {str(number): text for number, text in plan.steps.items()}
        self.logic = "" if plan.logic is None else written(plan.logic)
        self.flaw = plan.flaw

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, in the order in which they began."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def ran(self) -> bool:
        """Whether its executor did anything before the trial ended."""
        return self.steps > 0 or self.executor not in ("", "stopped")

    @property
    def k_max(self) -> int:
        """The maximum depth at which an executor ran, at least 1."""
        return max((node.k for node in self.walk() if node.ran), default=1)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Node:
        """Return the tree in JSON values as `asdict` gives them."""
        return cls(**{**data, "children": [cls.of(child) for child in data["children"]]})


def tree_of(result: EpisodeResult) -> Node | None:
    """Return the tree in the record of an episode, or None."""
    data = noted(result, result.agent) or {}
    return Node.of(data[TREE]) if TREE in data else None


def branches(node: Node, depth: int = 0) -> Iterator[Branch]:
    """Yield the tree for reports: tasks with their plans, and the steps that were not tried."""
    number = f"Step {node.step}: " if node.step else ""
    texts = {"plan": node.logic, "flaw": node.flaw}
    yield Branch(
        depth,
        f"{number}{node.task}",
        _state(node),
        _ended(node),
        {"k": str(node.k)},
        texts={name: text for name, text in texts.items() if text},
    )
    for child in node.children:
        yield from branches(child, depth + 1)
    carried_out = {child.step for child in node.children}
    for place, task in node.plan.items():
        if int(place) not in carried_out:
            yield Branch(depth + 1, f"Step {place}: {task}", "open", "not tried")


def _state(node: Node) -> BranchState:
    if node.success is None:
        return "" if node.done else "open"
    return "done" if node.success else "failed"


def _ended(node: Node) -> str:
    how = {
        "": "not begun",
        "completed": "says completed",
        "failed": "says failed",
        "budget": "spent its steps",
        "ended": "the environment ended the task",
        "stopped": "stopped",
    }[node.executor]
    by = "judged" if node.mode == "judge" else f"{node.steps} steps"
    outcome = {True: "success", False: "failure", None: "open"}[node.success]
    over = outcome if node.children and not node.done else ""
    begun = "planned first" if node.plan and not node.executor else f"executor {how} ({by})"
    return ", ".join(part for part in (begun, over) if part)


def judged(results: Sequence[EpisodeResult]) -> dict[str, list[bool]]:
    """Return whether tasks were solved, by how their controllers judged them.

    These are the keys of `_JUDGED`: the judgement, or the reason for its absence.
    """
    solved: dict[str, list[bool]] = {name: [] for name in _JUDGED}
    for result in results:
        root = tree_of(result)
        if root is not None and not result.error:
            over = {True: "success", False: "failure", None: "ended" if root.done else "stopped"}
            solved[over[root.success]].append(result.success)
    return {name: some for name, some in solved.items() if some}


def planned(results: Sequence[EpisodeResult]) -> tuple[int, int]:
    """Return the number of plans, and of those without readable logic."""
    trees = [tree for result in results if (tree := tree_of(result)) is not None]
    nodes = [node for tree in trees for node in tree.walk() if node.plan or node.flaw]
    return len(nodes), sum(bool(node.flaw) for node in nodes)


#: The controller's judgement → its comparison with the truth, given (tasks, solved).
_JUDGED = {
    "success": "of {} tasks that it held to be done {} are",
    "failure": "of {} that it gave up {} are done",
    "ended": "of {} that the environment ended {} are solved",
    "stopped": "of {} that were stopped {} are solved",
}


def _depth(result: EpisodeResult) -> float | None:
    """Return the greatest depth used to succeed (Table 7)."""
    root = tree_of(result) if result.success else None
    return None if root is None else float(root.k_max)


def _findings(results: Sequence[EpisodeResult]) -> Findings:
    if not any(tree_of(result) for result in results if result.end != "error"):
        return Findings()
    judgements = judged(results)
    parts = [_JUDGED[name].format(len(some), sum(some)) for name, some in judgements.items()]
    plans, flawed = planned(results)
    return Findings(
        (
            f"Self-judged and true success: {'; '.join(parts)}.",
            f"Plans: {plans}; {flawed} of them without a usable order "
            "(And over their steps, if any).",
        ),
        {
            "self_judged": [
                {"said": name, "episodes": len(some), "right": sum(some)}
                for name, some in judgements.items()
            ],
            "plans": plans,
            "flawed_plans": flawed,
        },
    )


def _tree(result: EpisodeResult) -> TaskTree | None:
    root = tree_of(result)
    if root is None:
        return None
    return TaskTree(
        {
            "k_max": str(root.k_max),
            "parts": str(sum(1 for _ in root.walk())),
            "held to be": {True: "done", False: "failed", None: "open"}[root.success],
        },
        f"k_max {root.k_max}",
        tuple(branches(root)),
    )


REPORTING = Reporting(
    (Measure("k_max", "the greatest depth used to succeed", _depth),), _findings, _tree
)
