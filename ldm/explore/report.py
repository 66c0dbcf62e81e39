"""The results of a refinement, as values that the command line prints, and drawn as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ldm.episode import FULL_SCORE
from ldm.explore.gate import Verdict
from ldm.explore.refine import ExploredGoal, Tree
from ldm.explore.tree import NO_PROCESS, Fate, TreeNode
from ldm.reporting import Branch, BranchState, TaskTree
from ldm.text import counted
from ldm.types import by_key

#: Fate → its name and the state of the branch; a task that ended with less has failed.
FATES: dict[Fate, tuple[str, BranchState]] = {
    "grown": ("", ""),
    "pruned": ("pruned", "pruned"),
    "done": ("task ended", "done"),
    "depth": ("depth reached", ""),
    "over": ("search over", ""),
    "dead end": ("dead end", "failed"),
    "invalid": ("refused", "failed"),
    "merged": ("seen before", "pruned"),
}


def drawn(tree: Tree) -> TaskTree:
    """Return the tree of a goal for reports.

    Of siblings the chosen one, on P*, comes first, and untried ones last. The key step is the first
    of P* that is remembered.
    """
    chosen = {node.number for node in tree.path}
    below = by_key((node.parent, node) for node in tree.nodes)
    stack, branches = [*tree.nodes[:1]], list[Branch]()
    while stack:
        node = stack.pop()
        branches.append(_branch(tree, node, node.number in chosen))
        children = sorted(
            below.get(node.number, ()),
            key=lambda one: (one.fate == "pruned", one.number not in chosen),
        )
        stack += reversed(children)
    ground = " | ".join(step.action for step in tree.ground.steps)
    notes = [f"{counted(len(tree.added), 'tuple')} added to {tree.into}:"] if tree.improved else []
    notes += (f"  {row.tuple.observation} -> {row.tuple.action}" for row in tree.added)
    return TaskTree(
        {"nodes": str(tree.tried)},
        f"{', '.join(tree.batches)}: first try, score {tree.ground.score:.2f}: {ground}",
        *(tuple(branches), True, tuple(notes)),
    )


def _branch(tree: Tree, node: TreeNode, chosen: bool) -> Branch:
    figures = {}
    if node.number:
        figures["confidence"] = f"{node.confidence:.2f}"
        if node.path_confidence < node.confidence:
            figures["of the path"] = f"{node.path_confidence:.2g}"
    if node.fate not in ("grown", *NO_PROCESS):
        figures["score"] = f"{node.score:.2f}"
    words, state = FATES[node.fate]
    return Branch(
        node.depth,
        node.action or "the opening",
        "failed" if state == "done" and node.score < FULL_SCORE else state,
        words,
        figures,
        chosen,
        key=chosen and tree.improved and node.depth == tree.key + 1,
        texts={"observation": node.observation} if node.observation else {},
    )


#: A mean difference and the ends of its interval.
Interval = tuple[float, float, float]
#: The number of goals that a line on kept or refused candidates names.
NAMED = 2
Totals = dict[str, int | float | None]

#: The names of columns that differ from those of `totals`.
HEADINGS = {"trees": "explored", "ground": "first try"}


def totals(explored: Sequence[ExploredGoal]) -> Totals:
    """Return the totals of goals; one has a tree per batch with `--decision per-batch`, else one.

    goals: those explored without an error. trees: those grown because the ground process missed the
    full score. nodes: actions tried (`Tree.tried`). steps, replayed: environment steps, the
    ground processes' included. ground, best: mean scores before and after, None without a goal.
    improved: goals with a better process. tuples: added. errors: goals that failed.
    """
    trees = [tree for one in explored for tree in one.trees]
    return {
        "goals": sum(not one.error for one in explored),
        "trees": sum(bool(tree.nodes) for tree in trees),
        "nodes": sum(tree.tried for tree in trees),
        "steps": sum(tree.steps for tree in trees),
        "replayed": sum(tree.replayed for tree in trees),
        "ground": fmean(tree.ground.score for tree in trees) if trees else None,
        "best": fmean(max(t.ground.score, t.best_score) for t in trees) if trees else None,
        "improved": sum(any(tree.improved for tree in one.trees) for one in explored),
        "tuples": len({row.tuple.id for one in explored for row in one.added}),
        "errors": sum(bool(one.error) for one in explored),
        "seconds": round(sum(one.seconds for one in explored), 3),
    }


def by_kind(explored: Sequence[ExploredGoal]) -> dict[str, Totals]:
    """Return the totals of each kind, in alphabetical order."""
    kinds = by_key((one.task.kind, one) for one in explored)
    return {kind: totals(kinds[kind]) for kind in sorted(kinds)}


def rows(explored: Sequence[ExploredGoal]) -> list[dict[str, str]]:
    """Return one row per kind and the row "all": column → cell."""
    all_totals = [*by_kind(explored).items(), ("all", totals(explored))]
    return [
        {"kind": kind} | {HEADINGS.get(name, name): _cell(value) for name, value in values.items()}
        for kind, values in all_totals
    ]


def _cell(value: float | None) -> str:
    return "–" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"


def gate_rows(verdict: Verdict, intervals: Sequence[Interval]) -> list[dict[str, str]]:
    """Return one row per comparison of the gate, column → cell. intervals: of the comparisons."""
    return [
        {
            "learnt": one.sort,
            "kind": one.kind or "all",
            "goals": str(len(one.before)),
            "without": f"{fmean(played.score for played in one.before):.3f}",
            "with": f"{fmean(played.score for played in one.after):.3f}",
            "difference": f"{mean:+.3f}",
            "95 % interval": f"{low:+.3f} to {high:+.3f}",
            "better": str(sum(gain > 0 for gain in one.gains)),
            "worse": str(sum(gain < 0 for gain in one.gains)),
            "steps saved": f"{one.saved:.1f}",
            "kept": "" if one.refused else "yes",
        }
        for one, (mean, low, high) in zip(verdict.comparisons, intervals, strict=True)
    ]


def decisions(verdict: Verdict, gain: Interval | None) -> list[str]:
    """Return lines on the candidates kept and refused: their goals, and the reasons."""
    lines = []
    for one in verdict.comparisons:
        more = f" and {len(one.goals) - NAMED} more" if len(one.goals) > NAMED else ""
        goals = f"{counted(len(one.goals), 'goal')} ({', '.join(one.goals[:NAMED])}{more})"
        outcome = f"refused: {one.refused}" if one.refused else "kept"
        lines.append(f"{one.sort.capitalize()} of kind {one.kind}, from {goals}: {outcome}.")
    if gain is not None:
        mean, low, high = gain
        lines.append(
            f"Change in the goals' scores, each without its own episodes: {mean:+.3f} "
            f"({low:+.3f} to {high:+.3f})."
        )
    return lines


def gate_settings(verdict: Verdict, gain: Interval | None) -> dict[str, str]:
    """Return the gate's decisions for the record of a generation; {} if it played no goals."""
    if gain is None:
        return {}
    accepted = [one for one in verdict.comparisons if not one.refused]
    return {
        "practice": ",".join(one.kind for one in accepted if one.sort == "practice") or "none",
        "kept": str(sum(len(one.goals) for one in accepted)),
        "gain": "{:+.3f} ({:+.3f} to {:+.3f})".format(*gain),
        "kept_goals": " ".join(goal for one in accepted for goal in one.goals),
        "refused": "; ".join(one.refused for one in verdict.comparisons if one.refused),
    }


def gate_data(
    verdict: Verdict, gain: Interval | None, intervals: Sequence[Interval]
) -> dict[str, Any]:
    """Return the gate's decisions as JSON values."""
    return {
        "gain": gain,
        "comparisons": [
            {
                "learnt": one.sort,
                "kind": one.kind,
                "goals": one.goals,
                "played": len(one.before),
                "difference": interval,
                "steps_saved": round(one.saved, 3),
                "refused": one.refused,
            }
            for one, interval in zip(verdict.comparisons, intervals, strict=True)
        ],
    }
