"""What reports say of ADaPT: how deep it went, and its own judgement against the truth.

As the paper does in its Table 7 and Fig. 10 (arXiv 2311.05772).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ldm.agents.decomposition.tree import branches, judged, lines, planned, tree_of
from ldm.agents.reporting import Findings, Measure, Reporting, TaskTree
from ldm.types import EpisodeResult

#: Words for how a controller's judgement of its tasks compares with the truth: (tasks, solved).
_JUDGED = {
    "success": "of {} tasks that it held to be done {} are",
    "failure": "of {} that it gave up {} are done",
    "ended": "of {} that the environment ended {} are solved",
    "stopped": "of {} that were stopped {} are solved",
}


def _depth(result: EpisodeResult) -> float | None:
    root = tree_of(result)
    return None if root is None else float(root.k_max)


def _findings(results: Sequence[EpisodeResult]) -> Findings:
    if not any(tree_of(result) for result in results if result.end != "error"):
        return Findings()
    judgements = judged(results)
    parts = [_JUDGED[one.said].format(one.episodes, one.right) for one in judgements]
    plans, flawed = planned(results)
    return Findings(
        (
            f"Self-judged and true success: {'; '.join(parts)}.",
            f"Plans: {plans}; {flawed} of them without a usable order "
            "(And over their steps, if any).",
        ),
        {
            "self_judged": [asdict(one) for one in judgements],
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
        tuple(lines(root)),
        tuple(branches(root)),
    )


REPORTING = Reporting((Measure("k_max", "the greatest depth used", _depth),), _findings, _tree)
