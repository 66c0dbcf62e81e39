"""The results of a refinement, as values that the command line prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, ClassVar

from ldm.explore.gate import Verdict
from ldm.explore.refine import ExploredGoal

COLUMNS = (
    "kind",
    "goals",
    "explored",
    "nodes",
    "steps",
    "replayed",
    "ground",
    "best",
    "improved",
    "tuples",
    "errors",
    "seconds",
)
GATE_COLUMNS = ("reach", "goals", "without", "with", "difference", "better", "worse", "chosen")


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of goals; a goal has one tree per batch with `--decision per-batch`, else one.

    goals: those explored without an error. trees: those grown, where the ground process did not
    have the full score. nodes: tried ones. steps, replayed: environment steps, the ground
    processes' included. ground, best: mean scores before and after, None without a goal.
    improved: goals with a better process. tuples: added. errors: goals that failed.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    goals: int
    trees: int
    nodes: int
    steps: int
    replayed: int
    ground: float | None
    best: float | None
    improved: int
    tuples: int
    errors: int
    seconds: float


def totals(explored: Sequence[ExploredGoal]) -> Totals:
    """Return the totals of some goals."""
    trees = [tree for one in explored for tree in one.trees]
    return Totals(
        goals=sum(not one.error for one in explored),
        trees=sum(bool(tree.nodes) for tree in trees),
        nodes=sum(node.fate != "pruned" for tree in trees for node in tree.nodes[1:]),
        steps=sum(tree.steps for tree in trees),
        replayed=sum(tree.replayed for tree in trees),
        ground=fmean(tree.ground.score for tree in trees) if trees else None,
        best=fmean(max(t.ground.score, t.best_score) for t in trees) if trees else None,
        improved=sum(any(tree.improved for tree in one.trees) for one in explored),
        tuples=len({row.tuple.id for one in explored for row in one.added}),
        errors=sum(bool(one.error) for one in explored),
        seconds=round(sum(one.seconds for one in explored), 3),
    )


def by_kind(explored: Sequence[ExploredGoal]) -> dict[str, Totals]:
    """Return the totals of each kind, in alphabetical order."""
    kinds: dict[str, list[ExploredGoal]] = {}
    for one in explored:
        kinds.setdefault(one.task.kind, []).append(one)
    return {kind: totals(kinds[kind]) for kind in sorted(kinds)}


def rows(explored: Sequence[ExploredGoal]) -> list[tuple[str, ...]]:
    """Return a row per kind and the row "all", by COLUMNS."""
    all_totals = [*by_kind(explored).items(), ("all", totals(explored))]
    return [(name, *map(_cell, asdict(values).values())) for name, values in all_totals]


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def gate_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """Return a row per reach that the gate tried, by GATE_COLUMNS."""
    return [
        (
            f"{one.reach:g}",
            str(len(one.before)),
            f"{fmean(one.before):.3f}",
            f"{fmean(one.after):.3f}",
            f"{one.difference:+.3f}",
            str(sum(a > b for b, a in zip(one.before, one.after, strict=True))),
            str(sum(a < b for b, a in zip(one.before, one.after, strict=True))),
            "yes" if one is verdict.chosen else "",
        )
        for one in verdict.comparisons
    ]


def refusals(verdict: Verdict, gain: tuple[float, float, float] | None) -> list[str]:
    """Return lines on what the gate kept and refused, and what the kept is worth."""
    kept = [one for one in verdict.judgements if not one.refused]
    refused = [one for one in verdict.judgements if one.refused]
    lines = []
    if verdict.judgements:
        lines.append(f"Gate: the tuples of {len(kept)} goals are kept, of {len(refused)} refused.")
    if gain is not None:
        lines[-1] += " Gain on goals without their own: {:+.3f} ({:+.3f} to {:+.3f}).".format(*gain)
    lines += [f"  refused {one.task}: {one.refused}" for one in refused]
    return lines


def gate_data(verdict: Verdict, gain: tuple[float, float, float] | None) -> dict[str, Any]:
    """Return what the gate decided, as JSON values."""
    return {
        "reach": None if verdict.chosen is None else verdict.chosen.reach,
        "gain": gain,
        "kept": [one.task for one in verdict.judgements if not one.refused],
        "refused": {one.task: one.refused for one in verdict.judgements if one.refused},
    }
