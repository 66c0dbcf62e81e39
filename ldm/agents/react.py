"""ReAct (Yao et al., arXiv 2210.03629): think, act, observe."""

from __future__ import annotations

from ldm.agents.loop import TaskAgent
from ldm.episode import Episode


class ReactAgent(TaskAgent):
    """Thinks where it helps, acts and observes."""

    name = "react"
    paper = "ReAct, arXiv 2210.03629"

    def solve(self, episode: Episode) -> None:
        """Play one trial."""
        self.attempt(episode)
