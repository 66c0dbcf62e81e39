"""Goals and plans, as planners write them and controllers are given them (DEPS, §3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """One step of a plan.

    verb, item, count: such as mine, log, 3; item is "" if the goal is a sentence.
    materials: the (item, count) pairs that it uses up. tool: needed and kept, "" for none.
    rank: its place in the plan, from 1. text: the step as the planner wrote it, or the sentence.
    others: the alternatives that the step names, any of which will do as well.
    """

    verb: str
    item: str = ""
    count: int = 1
    materials: tuple[tuple[str, int], ...] = ()
    tool: str = ""
    rank: int = 0
    text: str = ""
    others: tuple[Goal, ...] = ()

    def ranked(self, rank: int) -> Goal:
        """Return the goal and its alternatives at a place in a plan."""
        return replace(self, rank=rank, others=tuple(one.ranked(rank) for one in self.others))

    @property
    def name(self) -> str:
        """The goal without count and tool: "mine log", or the sentence."""
        return f"{self.verb} {self.item}" if self.item else self.text

    @property
    def words(self) -> str:
        """The goal in words: "mine 3 log with wooden_pickaxe"."""
        if not self.item:
            return self.text
        return f"{self.verb} {self.count} {self.item}" + (f" with {self.tool}" if self.tool else "")

    def as_data(self) -> dict[str, Any]:
        """Return JSON values, for a note."""
        return {"rank": self.rank, "goal": self.words, "text": self.text}


@dataclass(frozen=True, slots=True)
class Plan:
    """A planner's reply, and the goals parsed from it.

    dropped: lines that name no known goal.
    """

    text: str
    goals: tuple[Goal, ...] = ()
    dropped: tuple[str, ...] = ()


def listing(counts: Mapping[str, int] | Sequence[tuple[str, int]]) -> str:
    """Return counted items as text, such as "3 log, 1 stick"; "nothing" for none."""
    pairs = counts.items() if isinstance(counts, Mapping) else counts
    return ", ".join(f"{count} {item}" for item, count in pairs if count) or "nothing"
