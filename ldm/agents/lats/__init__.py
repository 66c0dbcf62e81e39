"""LATS, Language Agent Tree Search (Zhou et al., arXiv 2310.04406): Monte Carlo tree search.

`search` is the algorithm; `tree` holds values and visits; `walk` returns the environment to the
states that the search continues from.
"""

from __future__ import annotations

from ldm.agents.lats.search import REPORTING, LatsOptions, Search, Walk, best
from ldm.agents.loop import ExecutorAgent
from ldm.episode import Episode

#: Trajectories if the environment's card has no published number.
SIMULATIONS = 30


class LatsAgent(ExecutorAgent):
    """Searches a tree of steps with the model's values, and learns from failed trajectories."""

    name = "lats"
    sees_reward = True
    paper = "LATS, arXiv 2310.04406, §4.2; in ADaPT, arXiv 2311.05772, Table 3"
    reporting = REPORTING
    Options = LatsOptions
    options: LatsOptions
    #: The depth of the tree.
    default_budget = 30

    def solve(self, episode: Episode) -> None:
        """Search, and submit the first of the trajectories with the highest score.

        Every return to a state is a new trial that repeats the steps to it.
        """
        simulations = self.setting(episode.card, "simulations", SIMULATIONS)
        llm = self._resources.model(episode)
        with Walk(episode) as walk:
            Search(episode, llm, self.options, walk, simulations).run()
        if (end := best(walk.root)) is not None:
            episode.submit(end.trial)
