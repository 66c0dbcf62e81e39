"""Stages of a search: the progress of a process with the things that its goal names.

Some actions are possible from the start, such as going somewhere; others have to be made possible.
An *advance* is one of the latter that names a word of the goal: taking, heating or putting down
what it asks for. The advances of a process are its *stage*. Its other actions only led there, so a
stage is surveyed once, from the node where it was first entered, and each action is tried once in
it: novelty pruning as in iterated width (Lipovetzky and Geffner, ECAI 2012), restarted after every
advance.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ldm.reason.reading import FUNCTION_WORDS
from ldm.types import TimeStep

_WORD = re.compile(r"\w+")


@dataclass(slots=True, eq=False)
class Stage:
    """A stage, and the actions tried in it.

    advances: see above. depth, cost: of its entry. queued: the actions of its
    survey, tried or not. states: hashes of the states that the survey has reached.
    """

    advances: frozenset[str]
    depth: int
    cost: float
    queued: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)


class Experience:
    """Statistics of a search on actions: the words that they name, and how much they reveal.

    A verb is the first word of an action.
    """

    def __init__(self, goal: str, opening: Iterable[str]) -> None:
        """Start a search for a goal. opening: the actions possible at the start."""
        self._goal = words(goal)
        self._opening = frozenset(opening)
        self._actions: set[str] = set()
        self._naming: Counter[str] = Counter()
        self._pairs: set[tuple[str, str]] = set()
        self._steps: Counter[str] = Counter()
        self._revealing: Counter[str] = Counter()

    def add(self, action: str, now: TimeStep) -> None:
        """Record the result of an action; "" for the opening.

        It was revealing if it made a new action possible and its observation has a new pair of
        adjacent words.
        """
        new = [a for a in now.admissible or () if a not in self._actions]
        for each in new:
            self._naming.update(words(each) & self._goal)
        self._actions.update(new)
        tokens = _WORD.findall(now.observation.lower())
        pairs = {pair for pair in zip(tokens, tokens[1:], strict=False) if pair not in self._pairs}
        self._pairs |= pairs
        self._steps[_verb(action)] += 1
        self._revealing[_verb(action)] += bool(new and pairs)

    def advances(self, action: str) -> bool:
        """Return whether an action is an advance, judged by the words after its verb."""
        return action not in self._opening and not self._goal.isdisjoint(
            words(action.partition(" ")[2])
        )

    def named(self, actions: Sequence[str]) -> list[float]:
        """Return the number of goal words that each of n actions names, weighted by rarity.

        A word that only one of all actions possible so far has counts 1; one that all have counts
        0.
        """
        count = len(self._actions)
        most = math.log(count) if count > 1 else 1.0
        return [
            math.fsum(
                math.log(count / self._naming[word]) / most
                for word in words(action) & self._goal
                if self._naming[word]
            )
            for action in actions
        ]

    def barren(self, action: str) -> float:
        """Return the penalty of this verb: 0 if all its steps were revealing, log₂ n if 1 of n."""
        verb = _verb(action)
        return math.log2((1 + self._steps[verb]) / (1 + self._revealing[verb]))


def words(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case, without function words."""
    return frozenset(_WORD.findall(text.lower())) - FUNCTION_WORDS


def _verb(action: str) -> str:
    return action.partition(" ")[0]
