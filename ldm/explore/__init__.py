"""Refinement: tree exploration that adds high-reward tuples to the memory (LDM² §3.3).

`refine` explores goals, with the paper's `tree`, with `rollouts` or a `best_first` search;
`positions` restores states, `goals` selects what may be explored, `gate` says what is worth adding,
`report` and `picture` show the results.
"""

from __future__ import annotations

from ldm.explore.best_first import search
from ldm.explore.gate import GateOptions, judge
from ldm.explore.goals import evaluated_leak_keys, new_goals, rejected_goal
from ldm.explore.judgements import Comparison, Judgement, Verdict
from ldm.explore.positions import Position, Positions
from ldm.explore.refine import (
    TREES,
    ExplorationFactory,
    ExplorationSetup,
    ExploredGoal,
    Explorer,
    RefineOptions,
    Tree,
    read_explored_goals,
)
from ldm.explore.rollouts import draw
from ldm.explore.tree import TreeNode, TreeOptions, best_leaf, grow, leaves, path_to

__all__ = [
    "TREES",
    "Comparison",
    "ExplorationFactory",
    "ExplorationSetup",
    "ExploredGoal",
    "Explorer",
    "GateOptions",
    "Judgement",
    "Position",
    "Positions",
    "RefineOptions",
    "Tree",
    "TreeNode",
    "TreeOptions",
    "Verdict",
    "best_leaf",
    "draw",
    "evaluated_leak_keys",
    "grow",
    "judge",
    "leaves",
    "new_goals",
    "path_to",
    "read_explored_goals",
    "rejected_goal",
    "search",
]
