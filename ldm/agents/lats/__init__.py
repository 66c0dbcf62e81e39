"""LATS, Language Agent Tree Search (Zhou et al., arXiv 2310.04406): Monte Carlo tree search.

`search` is the algorithm; `tree` holds values and visits; `walk` leads the environment back to the
states that the search goes on from; `findings` is what reports say.
"""

from __future__ import annotations

from typing import ClassVar

from ldm.agents.executor import LoopAgent
from ldm.agents.lats.findings import NOTE, REPORTING
from ldm.agents.lats.search import LatsOptions, Search
from ldm.agents.lats.tree import as_data, best
from ldm.agents.lats.walk import Walk
from ldm.agents.reporting import Reporting
from ldm.episode import Episode
from ldm.types import Card

#: Depth of the tree, and trajectories, where the environment's card has no published numbers.
DEPTH, SIMULATIONS = 30, 30


class LatsAgent(LoopAgent):
    """Searches a tree of steps with the model's values, and learns from trajectories that fail."""

    name = "lats"
    sees_reward = True
    paper: ClassVar[str] = "LATS, arXiv 2310.04406, §4.2; in ADaPT, arXiv 2311.05772, Table 3"
    reporting: ClassVar[Reporting] = REPORTING
    Options: ClassVar[type[LatsOptions]] = LatsOptions
    options: LatsOptions

    def budget(self, card: Card) -> int:
        """Return the depth of the tree."""
        return self.setting(card, "budget", DEPTH)

    def solve(self, episode: Episode) -> None:
        """Search; the trajectory that earned most stands, of equals the first.

        Every return to a state is a trial that repeats the steps to it.
        """
        simulations = self.setting(episode.card, "simulations", SIMULATIONS)
        with Walk(episode) as walk:
            search = Search(episode, self._resources.model(episode), self.options, walk)
            try:
                search.run(simulations)
            finally:
                self._note(episode, search)
        if (end := best(search.root)) is not None:
            episode.submit(end.trial)

    def _note(self, episode: Episode, search: Search) -> None:
        forms = {name: search.counts[name] for name in ("loose", "malformed")}
        total = search.counts["asked"] + sum(forms.values())
        episode.note("replies", replies=total, **forms, dropped=search.counts["dropped"])
        episode.note(
            NOTE,
            simulations=search.simulations,
            replayed=search.walk.replayed,
            unrated=search.counts["unrated"],
            tree=as_data(search.root),
        )
