"""ADaPT (Prasad et al., arXiv 2311.05772): decompose a task when, and only when, it failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ldm.agents.decomposition.agent import DividingAgent, DividingOptions
from ldm.agents.decomposition.findings import REPORTING
from ldm.agents.reporting import Reporting
from ldm.types import Card

#: d_max where the environment's card has no published number.
DEPTH = 3


@dataclass(frozen=True, slots=True)
class AdaptOptions(DividingOptions):
    """d_max: the greatest depth (§3.3); None for the environment's published one (§4.2), or 3."""

    d_max: int | None = None

    def __post_init__(self) -> None:
        DividingOptions.__post_init__(self)
        if self.d_max is not None and self.d_max < 1:
            raise ValueError("d_max is 1 or more")


class AdaptAgent(DividingAgent):
    """Tries the task; decomposes it, as deep as needed, where its executor fails."""

    name = "adapt"
    paper: ClassVar[str] = "ADaPT, arXiv 2311.05772"
    formerly: ClassVar[Sequence[str]] = (
        "showed its executors whole tasks of the same kind (strength=task) unless told otherwise, "
        "and none of how they judge themselves",
    )
    reporting: ClassVar[Reporting] = REPORTING
    Options: ClassVar[type[AdaptOptions]] = AdaptOptions
    options: AdaptOptions

    def depth(self, card: Card) -> int:
        """Return d_max."""
        return self.setting(card, "d_max", DEPTH)
