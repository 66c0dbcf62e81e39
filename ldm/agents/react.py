"""ReAct (Yao et al., arXiv 2210.03629): think, act, observe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ldm.agents.executor import LoopAgent, run, task_work
from ldm.episode import Episode


class ReactAgent(LoopAgent):
    """Thinks where it helps, acts and observes."""

    name = "react"
    paper: ClassVar[str] = "ReAct, arXiv 2210.03629"
    sections: ClassVar[Mapping[str, str]] = {
        "budget": "§3.2 (HotpotQA) and ADaPT App. A (elsewhere)",
        "shots": "§3.2 (6 on HotpotQA) and §4 (2 on ALFWorld and 1 on WebShop)",
    }

    def solve(self, episode: Episode) -> None:
        """Start one trial."""
        llm = self._resources.model(episode)
        with episode.trial():
            run(episode, llm, task_work(episode, self.options), self.options)
