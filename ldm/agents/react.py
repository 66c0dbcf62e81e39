"""ReAct (Yao et al., arXiv 2210.03629): think, act, observe."""

from __future__ import annotations

from typing import ClassVar

from ldm.agents.executor import LoopAgent, run, task_work
from ldm.episode import Episode


class ReactAgent(LoopAgent):
    """Thinks where it helps, acts and observes."""

    name = "react"
    paper: ClassVar[str] = "ReAct, arXiv 2210.03629"

    def solve(self, episode: Episode) -> None:
        """Start one trial."""
        llm = self._resources.model(episode)
        with episode.trial():
            run(episode, llm, task_work(episode, self.options), self.options)
