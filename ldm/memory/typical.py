"""The most typical goal of a goal type, to describe it."""

from __future__ import annotations

import re
from collections import Counter

from ldm.memory.index import BatchIndex
from ldm.memory.rows import Rows


def typical_goals(batch: BatchIndex, rows: Rows) -> tuple[str, ...]:
    """Return for each goal type of a batch the goal with the most common words.

    rows: of the memory. Ties go to the more frequent goal, then to the first by name.
    """
    columns = rows.columns
    span = columns.batch_spans()[batch.id]
    types, goals = columns["goal_type"][span].tolist(), columns["goal"][span].tolist()
    members: dict[int, Counter[str]] = {}
    for goal_type, goal in zip(types, goals, strict=True):
        members.setdefault(goal_type, Counter())[columns.texts[goal]] += 1
    return tuple(_most_typical(members.get(g, Counter())) for g in range(len(batch.goal_types)))


def _most_typical(goals: Counter[str]) -> str:
    words = {goal: set(re.findall(r"\w+", goal.lower())) for goal in goals}
    common = Counter(word for members in words.values() for word in members)

    def rank(goal: str) -> tuple[float, int, str]:
        shared = sum(common[word] for word in words[goal]) / max(1, len(words[goal]))
        return -shared, -goals[goal], goal

    return min(goals, key=rank, default="")
