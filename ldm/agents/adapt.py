"""ADaPT (Prasad et al., arXiv 2311.05772): decompose a task when, and only when, it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ldm.agents.decomposition.controller import REPORTING, DividingAgent, DividingOptions
from ldm.types import Card, Positive

#: d_max if the environment's card has no published number.
DEPTH = 3


@dataclass(frozen=True, slots=True)
class AdaptOptions(DividingOptions):
    """Options of ADaPT. d_max is published in §4.2."""

    d_max: Annotated[Positive | None, "Maximum recursion depth (§3.3); none: as published"] = None


class AdaptAgent(DividingAgent):
    """Tries the task; if its executor fails, decomposes it, as deep as needed."""

    name = "adapt"
    paper = "ADaPT, arXiv 2311.05772"
    reporting = REPORTING
    Options = AdaptOptions
    options: AdaptOptions

    def depth(self, card: Card) -> int:
        """Return d_max."""
        return self.setting(card, "d_max", DEPTH)
