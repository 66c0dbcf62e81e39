"""The naive shopper, WebShop's simplest baseline: the whole instruction in, the first product out.

Any memory or model has to beat it: the search engine alone earns much of the score.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from ldm.episode import Agent, Episode
from ldm.types import Card, TimeStep

#: The number of a product in a click or on a page.
_LINK = re.compile(r"click\[(?=[a-z]*\d)([a-z0-9]{10})\]", re.IGNORECASE)
_SHOWN = re.compile(r"\b(?=[A-Z]*\d)([A-Z0-9]{10})\b")


@dataclass(frozen=True, slots=True)
class NaiveOptions:
    """Options of the naive shopper: three steps are enough."""

    budget: Annotated[int, "Steps of a trial"] = 3


class NaiveAgent(Agent):
    """Searches the instruction, opens the first product, chooses no option and buys (WebShop)."""

    name = "naive"
    paper = "baseline"
    Options = NaiveOptions
    options: NaiveOptions

    def budget(self, card: Card) -> int:
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        """Search and buy; give up if there is nothing to search or to buy."""
        with episode.trial():
            page = episode.act(f"search[{episode.goal}]")
            product = first_product(page) if page.valid else None
            if product is not None:
                episode.act(f"click[{product}]")
                episode.act("click[Buy Now]")


def first_product(now: TimeStep) -> str | None:
    """Return the number of the first product that can be opened, or None."""
    if now.admissible is None:
        code = _SHOWN.search(now.observation)
        return code[1] if code else None
    return next((link[1] for a in now.admissible if (link := _LINK.fullmatch(a))), None)
