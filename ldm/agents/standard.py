"""Few-shot prompting without thoughts: the demonstrations' actions and observations alone."""

from __future__ import annotations

from typing import ClassVar

from ldm.agents.executor import LoopAgent, Work, examples, run
from ldm.episode import Episode


class StandardAgent(LoopAgent):
    """Acts as the demonstrations do, without a thought."""

    name = "standard"
    paper: ClassVar[str] = "few-shot prompting (“Act” in ReAct, arXiv 2210.03629, §3.2)"

    def solve(self, episode: Episode) -> None:
        """Start one trial."""
        llm = self._resources.model(episode)
        with episode.trial():
            work = Work(episode.goal, examples(episode, self.options), thinking=False)
            run(episode, llm, work, self.options)
