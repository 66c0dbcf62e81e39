"""Where ways lead: the places that an episode has shown, and what was not tried in them yet.

A place is known again by most of its lines, as what lies there may change. A way back to what was
not tried yet is no repetition; one to where nothing is left is one more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import accumulate
from math import inf

from ldm.reason.reading import alike
from ldm.reason.vocabulary import read_command
from ldm.types import Past

#: How often a place is left by a known way until its other ways count as closed.
PASSED = 3


class Ways:
    """The places of an episode, and the ways between them."""

    def __init__(self, past: Past, sight: str, moves: Collection[str]) -> None:
        """Read a past. moves: the actions that lead to other places, `Vocabulary.moves`."""
        self._moves = moves
        self._texts: list[str] = []
        places = [*accumulate([*(text for text, _ in past), sight], self._place, initial=-1)][1:]
        self._here = places[-1]
        self._led: list[dict[str, int]] = [{} for _ in self._texts]
        self._done, self._passed = Counter[str](), Counter[int]()
        for (_, action), place, then in zip(past, places, places[1:], strict=False):
            self._done[action] += place == self._here
            if action in moves:
                self._passed[place] += action in self._led[place]
                self._led[place][action] = then
        self._steps = [0.0 if self._promises(place) else inf for place in range(len(self._texts))]
        for _ in self._texts:
            for place, ways in enumerate(self._led):
                nearest = min((self._steps[to] + 1 for to in ways.values()), default=inf)
                self._steps[place] = min(self._steps[place], nearest)

    def _place(self, before: int, text: str) -> int:
        """Return the number of the place that a text shows; one without ways is a message."""
        if before >= 0 and not any(read_command(move).named_in(text) for move in self._moves):
            return before
        for number, known in enumerate(self._texts):
            if alike(text, known):
                self._texts[number] = text
                return number
        self._texts.append(text)
        return len(self._texts) - 1

    def _promises(self, place: int) -> bool:
        """Return whether a place names ways that were not tried, and was seldom left by others."""
        named = {x for x in self._moves if read_command(x).named_in(self._texts[place])}
        return self._passed[place] < PASSED and not named <= self._led[place].keys()

    def repeats(self, move: str) -> float:
        """Return how often a move was done here; 0 for the shortest way to what was not tried."""
        often = float(self._done[move])
        steps = 1 + self._steps[self._led[self._here][move]] if often else 0.0
        return often + 1 if steps == inf else often * (steps > self._steps[self._here])
