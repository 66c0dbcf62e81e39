"""ReAct (Yao et al., arXiv 2210.03629): think, act, observe."""

from __future__ import annotations

from typing import ClassVar

from ldm.agents.executor import run
from ldm.agents.exemplars import ExemplarAgent
from ldm.episode import Episode


class ReactAgent(ExemplarAgent):
    """Thinks where it helps, acts and observes."""

    name = "react"
    paper: ClassVar[str] = "ReAct, arXiv 2210.03629"

    def solve(self, episode: Episode) -> None:
        """Start one trial."""
        llm = self._resources.model(episode)
        with episode.trial():
            run(episode, llm, self.work(episode), self.options)
