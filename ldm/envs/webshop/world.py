"""The shop: a catalogue for pages, and the rewards of purchases."""

from __future__ import annotations

import random

from ldm.envs.lucene.search import TOP
from ldm.envs.webshop.catalogue import Product
from ldm.envs.webshop.pages import Session
from ldm.envs.webshop.reward import reward
from ldm.envs.webshop.store import Catalogue
from ldm.envs.webshop.titles import Titles
from ldm.types import stable_seed

#: Searches whose results are cached.
CACHED_SEARCHES = 2_000


class World:
    """A catalogue with its goals, seen as a `pages.Shop`. It holds no state of any session."""

    def __init__(self, catalogue: Catalogue, titles: Titles | None = None) -> None:
        self.catalogue = catalogue
        self.goals = catalogue.goals
        self._titles = titles or Titles()
        self._results: dict[str, tuple[int, ...]] = {}

    def start(self, number: int) -> Session:
        """Return a fresh session, on the search page."""
        return Session(number, self.goals[number].text)

    def product(self, asin: str) -> Product:
        """Return the product that a page shows under `asin`."""
        position = self.catalogue.position(asin)
        if position is None:
            raise KeyError(asin)
        return self.catalogue[position]

    def listed(self, position: int) -> Product:
        """Return the product at a position of the catalogue, as results list it."""
        return self.catalogue[position]

    def search(self, query: str, session: Session) -> tuple[int, ...] | None:
        """Return positions of products, best first; None if the official site fails.

        Four first words ask for something other than a search (quirk 20). <r>, random products, is
        drawn again at each visit there, and once for a session and query here.
        """
        first, *arguments = query.split(" ")
        match first:
            case "<r>":
                seed = stable_seed(self.catalogue.digest, session.number, ascii(query))
                draw = random.Random(seed)
                return tuple(draw.sample(range(len(self.catalogue)), min(TOP, len(self.catalogue))))
            case "<a>":
                return None
            case "<c>":
                return (
                    self.catalogue.having("categories", arguments[0].strip()) if arguments else None
                )
            case "<q>":
                return self.catalogue.having("queries", " ".join(arguments).strip())
        positions = self._results.get(query)
        if positions is None:
            positions = self.catalogue.index.search(query)
            if len(self._results) >= CACHED_SEARCHES:
                self._results.clear()
            self._results[query] = positions
        return positions

    def reward(self, session: Session) -> float:
        """Return the reward of buying the session's product with its options, in [0, 1]."""
        product = self.product(session.asin)
        position = self.catalogue.position(session.asin)
        price = float(self.catalogue.amounts[position])
        goal = self.goals[session.number]
        return reward(goal, product, dict(session.options), price, self._titles).total
