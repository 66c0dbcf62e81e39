"""Invented names, drawn from a seed: no model knows them, and no two are the same."""

from __future__ import annotations

import random
from collections.abc import Callable


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ONSETS = _words("b br c d dr f g gr h j k kl l m n p r s sk st t th tr v w z")
_VOWELS = _words("a a e e i o u á é í ö ü ø")
_CODAS = _words("l n r s nd rk st lm ss nt rg")
_TOWN = _words("burgh dale ford gate haven holm mouth stead thorpe wick")
_RIVER = ("", "", "e", "a", "is", "on")
_FIRST = _words(
    "Adela Anselm Berit Bruno Carla Corin Dagny Devran Edda Emeric Fenna Florin Gerda Gideon "
    "Hanne Ivar Ines Jorun Karel Lavinia Leif Maren Milo Nadja Nils Odette Oskar Petra Quirin "
    "Ragna Rufus Senna Sixten Tamsin Tobias Una Valter Vera Wanda Yorick Zelda"
)
_ADJECTIVES = _words(
    "Amber Broken Crooked Distant Empty Frozen Gentle Hollow Iron Last Lost Midnight Narrow "
    "Painted Quiet Restless Salt Second Silver Stolen Tender Twisted Velvet Wandering Winter"
)
_NOUNS = _words(
    "Anchor Bridge Candle Clockmaker Compass Curtain Ferry Garden Harbour Horizon Island Kite "
    "Ladder Lantern Letter Meadow Mirror Orchard Parade Pilot River Shadow Signal Sparrow "
    "Station Staircase Summer Thread Tower Voyage Window"
)
_PLURALS = _words(
    "Cartographers Echoes Falcons Foxes Gardeners Lanterns Pilots Postcards Robins Sailors "
    "Strangers Swallows Tailors Umbrellas Weavers"
)


class Names:
    """A source of names that have not been drawn before."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._drawn: set[str] = set()

    def town(self) -> str:
        """Return a town's name, a tenth of them with a dash."""
        stem = self._new(lambda: self._stem(1) + self._rng.choice(_TOWN))
        if self._rng.random() < 0.1:
            return f"{stem}-on-{self._stem(1)}"
        return stem

    def river(self) -> str:
        """Return a river's name without the word river."""
        return self._new(lambda: self._stem(1) + self._rng.choice(_RIVER))

    def person(self) -> str:
        """Return a first name and a surname."""
        return self._new(lambda: f"{self._rng.choice(_FIRST)} {self._stem(2)}")

    def title(self) -> str:
        """Return the title of a book, film or album."""
        return self._new(
            lambda: (
                f"The {self._rng.choice(_ADJECTIVES)} {self._rng.choice(_NOUNS)}"
                if self._rng.random() < 0.4
                else f"{self._rng.choice(_ADJECTIVES)} {self._rng.choice(_NOUNS)}"
            )
        )

    def band(self) -> str:
        """Return a band's name, some with an ampersand or an exclamation mark."""

        def drawn() -> str:
            adjective, noun = self._rng.choice(_ADJECTIVES), self._rng.choice(_PLURALS)
            draw = self._rng.random()
            if draw < 0.15:
                return f"{self._rng.choice(_FIRST)} & the {noun}"
            return f"{adjective} {noun}{'!' if draw < 0.25 else ''}"

        return self._new(drawn)

    def firm(self) -> str:
        """Return a firm's name."""
        form = self._rng.choice(("{0} & {1}", "{0} Works", "{0}-{1} Company", "{0} Brothers"))
        return self._new(lambda: form.format(self._stem(1), self._stem(1)))

    def region(self) -> str:
        """Return a region's name."""
        return self._new(lambda: self._stem(2) + self._rng.choice(("ia", "mark", "land")))

    def _stem(self, syllables: int) -> str:
        rng = self._rng
        parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables)]
        return ("".join(parts) + rng.choice(_CODAS)).capitalize()

    def _new(self, draw: Callable[[], str]) -> str:
        while (name := draw()) in self._drawn:
            pass
        self._drawn.add(name)
        return name
