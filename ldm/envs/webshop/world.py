"""The shop: what pages ask of a catalogue, and what a purchase earns in it."""

from __future__ import annotations

import random

from ldm.envs.webshop.catalogue import Product
from ldm.envs.webshop.goals import Goal, Goals
from ldm.envs.webshop.pages import Session
from ldm.envs.webshop.reward import Reward, reward
from ldm.envs.webshop.search import TOP
from ldm.envs.webshop.store import Catalogue
from ldm.envs.webshop.titles import Titles
from ldm.types import stable_seed

#: Searches kept answered.
REMEMBERED = 2_000


class World:
    """A catalogue with its goals, seen as a `pages.Shop`. It holds no state of any session."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        goals: Goals | None = None,
        titles: Titles | None = None,
        strict_reward: bool = False,
    ) -> None:
        """goals: others than the catalogue's own, whose prices then count too."""
        self.catalogue = catalogue
        self.goals = catalogue.goals if goals is None else goals
        self._titles = titles or Titles()
        self._strict = strict_reward
        self._answers: dict[str, tuple[int, ...]] = {}

    def goal(self, number: int) -> Goal:
        """The goal of session `number`."""
        return self.goals[number]

    def start(self, number: int) -> Session:
        """A fresh session, on the search page."""
        return Session(number, self.goals[number].text)

    def product(self, asin: str) -> Product:
        """The product that a page shows under `asin`."""
        position = self.catalogue.position(asin)
        if position is None:
            raise KeyError(asin)
        return self.catalogue[position]

    def listed(self, position: int) -> Product:
        """The product that a search found."""
        return self.catalogue[position]

    def search(self, query: str, session: Session) -> tuple[int, ...] | None:
        """The positions found, best first; None where the official site fails.

        Four first words ask for other things than a search (quirk 20). <r>, products at random, is
        drawn anew at each visit there, and once for a session and query here.
        """
        first, *others = query.split(" ")
        match first:
            case "<r>":
                seed = stable_seed(self.catalogue.digest, session.number, ascii(query))
                draw = random.Random(seed)
                return tuple(draw.sample(range(len(self.catalogue)), min(TOP, len(self.catalogue))))
            case "<a>":
                return None
            case "<c>":
                return self.catalogue.in_category(others[0].strip()) if others else None
            case "<q>":
                return self.catalogue.with_query(" ".join(others).strip())
        found = self._answers.get(query)
        if found is None:
            found = self.catalogue.index.search(query)
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            self._answers[query] = found
        return found

    def reward(self, session: Session) -> float:
        """What buying the session's product with the options chosen earns, in [0, 1]."""
        return self.verdict(session).total

    def verdict(self, session: Session) -> Reward:
        """The reward with all that it is made of."""
        product = self.product(session.asin)
        position = self.catalogue.position(session.asin)
        price = float(self.catalogue.amounts[position])
        goal = self.goals[session.number]
        options = dict(session.options)
        return reward(goal, product, options, price, self._titles, strict=self._strict)
