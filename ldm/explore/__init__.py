"""Refinement: tree exploration that adds high-reward tuples to the memory (LDM² §3.3).

`refine` explores goals; `positions` restores states, `tree` grows and prunes, `goals` says what may
be explored, `report` and `picture` show what came of it.
"""

from __future__ import annotations

from ldm.explore.goals import evaluated_sources, new_goals, why_not
from ldm.explore.positions import Position, Positions
from ldm.explore.refine import (
    TREES,
    Equipment,
    Explored,
    Explorer,
    RefineOptions,
    Tree,
    explored_trees,
    refine,
)
from ldm.explore.tree import Node, TreeOptions, best_leaf, grow, leaves, path_to

__all__ = [
    "TREES",
    "Equipment",
    "Explored",
    "Explorer",
    "Node",
    "Position",
    "Positions",
    "RefineOptions",
    "Tree",
    "TreeOptions",
    "best_leaf",
    "evaluated_sources",
    "explored_trees",
    "grow",
    "leaves",
    "new_goals",
    "path_to",
    "refine",
    "why_not",
]
