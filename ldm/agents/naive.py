"""The naive shopper, WebShop's simplest baseline: the whole instruction in, the first product out.

Any memory or model has to beat it: much of a score is due to the search engine alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ldm.agents import Resources
from ldm.episode import Episode
from ldm.types import Card, TimeStep

#: A product's number in a click or on a page.
_LINK = re.compile(r"click\[(?=[a-z]*\d)([a-z0-9]{10})\]", re.IGNORECASE)
_SHOWN = re.compile(r"\b(?=[A-Z]*\d)([A-Z0-9]{10})\b")


@dataclass(frozen=True, slots=True)
class NaiveOptions:
    """budget: environment steps a trial may take; three are enough (ours)."""

    budget: int = 3


class NaiveAgent:
    """Searches the instruction, opens the first product, chooses no option and buys (WebShop)."""

    name = "naive"
    sees_reward = False
    needs: ClassVar[Sequence[str]] = ()
    paper: ClassVar[str] = "baseline"
    Options: ClassVar[type[NaiveOptions]] = NaiveOptions

    def __init__(self, options: NaiveOptions, resources: Resources) -> None:
        self.options = options

    def budget(self, card: Card) -> int:
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        """Search and buy; give up where there is nothing to search or to buy."""
        with episode.trial():
            page = episode.act(f"search[{episode.goal}]")
            product = first_product(page) if page.valid else None
            if product is not None:
                episode.act(f"click[{product}]")
                episode.act("click[Buy Now]")


def first_product(now: TimeStep) -> str | None:
    """Return the number of the first product that can be opened; None where there is none."""
    if now.admissible is None:
        code = _SHOWN.search(now.observation)
        return code[1] if code else None
    return next((link[1] for a in now.admissible if (link := _LINK.fullmatch(a))), None)
