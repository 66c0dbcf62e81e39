"""The naive shopper, WebShop's simplest baseline: the whole instruction in, the first product out.

Any memory or model has to beat it: the search engine alone earns much of the score.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from ldm.agents.loop import ExecutorAgent, ExecutorOptions, Loop, task_work
from ldm.episode import Episode

#: The number of a product on a page.
_SHOWN = re.compile(r"\b(?=[A-Z]*\d)([A-Z0-9]{10})\b")


@dataclass(frozen=True, slots=True)
class NaiveOptions(ExecutorOptions):
    """Options of the naive shopper. choose: as in its authors' code (ADaPT, App. D and Table 9)."""

    choose: Annotated[bool, "Let a model choose the product's options"] = False


class NaiveAgent(ExecutorAgent):
    """Searches the instruction, opens the first product and buys it as it is (WebShop)."""

    name = "naive"
    paper = "baseline; ADaPT, arXiv 2311.05772, Table 9"
    needs = ()
    Options = NaiveOptions
    options: NaiveOptions
    default_budget = 15

    @classmethod
    def also_needs(cls, options: NaiveOptions) -> Sequence[str]:
        return ("llm",) if options.choose else ()

    @classmethod
    def sources(cls, options: Any, env: str) -> Collection[str]:
        return super().sources(options, env) if options.choose else ()

    def solve(self, episode: Episode) -> None:
        """Search and buy; give up if there is nothing to search or to buy."""
        with episode.trial():
            page = episode.act(f"search[{episode.goal}]")
            if page.valid and (product := _SHOWN.search(page.observation)):
                episode.act(f"click[{product[0]}]")
                if self.options.choose:
                    self._choose(episode)
                episode.act("click[Buy Now]")

    def _choose(self, episode: Episode) -> None:
        """Let a model click on options until it says that all are chosen, or buys."""
        options = replace(self.options, strength="skills")
        task = f"choose on the product's page each option that is asked for: {episode.goal}"
        work = replace(task_work(episode, options), task=task, steps=episode.steps_left - 1)
        Loop(episode, self._resources.model(episode), work, options).run()
