"""Refinement: tree exploration that adds high-reward tuples to the memory (LDM² §3.3).

`refine` explores goals, with the paper's `tree` or a `best_first` search; `gate` revises solved
episodes in hindsight and decides what joins the memory; `report` shows the results.
"""

from __future__ import annotations

from ldm.explore.gate import GateOptions, Verdict, judge
from ldm.explore.refine import (
    ExplorationFactory,
    ExplorationSetup,
    ExploredGoal,
    RefineOptions,
    Tree,
    read_explored_goals,
)

__all__ = [
    "ExplorationFactory",
    "ExplorationSetup",
    "ExploredGoal",
    "GateOptions",
    "RefineOptions",
    "Tree",
    "Verdict",
    "judge",
    "read_explored_goals",
]
