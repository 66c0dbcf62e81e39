"""Act (ReAct's baseline, Yao et al., arXiv 2210.03629, §3.2): ReAct without its thoughts."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from ldm.agents.executor import run
from ldm.agents.exemplars import ExemplarAgent
from ldm.episode import Episode


class ActAgent(ExemplarAgent):
    """Acts and observes as the demonstrations do, without a thought."""

    name = "act"
    paper: ClassVar[str] = "Act, ReAct, arXiv 2210.03629, §3.2"

    def solve(self, episode: Episode) -> None:
        """Start one trial."""
        llm = self._resources.model(episode)
        with episode.trial():
            work = replace(self.work(episode), thinking=False)
            run(episode, llm, work, self.options)
