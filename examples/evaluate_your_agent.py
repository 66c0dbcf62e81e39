"""Evaluate an agent of your own, and beside it the same agent with randomly drawn tuples.

    python examples/evaluate_your_agent.py

The agent, kept simple, takes the possible action that is most like what was done in similar
recorded states; the agent `ldm` decides better. It plays games of the household environment
ALFWorld that are shipped with `ldm`. The second evaluation is the control: what the agent reaches
with tuples drawn at random is not owed to recalling the right ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import ldm


@dataclass(frozen=True, slots=True)
class ImitatorOptions:
    k: Annotated[int, "Tuples recalled at each step"] = 10
    control: Annotated[str, "random draws the tuples"] = ""
    budget: Annotated[int, "Steps of a trial"] = 50


class Imitator(ldm.Agent):
    """Imitates the recalled actions. An agent defines a name, a budget and how it solves a task."""

    name = "imitator"
    needs = ("memory",)
    Options = ImitatorOptions
    options: ImitatorOptions

    def __init__(self, options: ImitatorOptions, resources: ldm.Resources) -> None:
        assert resources.memory is not None  # `needs` says so
        super().__init__(options, resources)
        self.memory = resources.memory

    def budget(self, card: ldm.Card) -> int:
        return self.options.budget

    def solve(self, episode: ldm.Episode) -> None:
        with episode.trial() as now:
            while True:  # until the task ends or the budget is spent
                recalls = self.recall(episode)
                worth = {action: value(action, episode, recalls) for action in now.admissible or ()}
                used = [(recall.tuple.id, recall.similarity) for recall in recalls]
                now = episode.act(max(worth, key=worth.__getitem__), recalls=used)

    def recall(self, episode: ldm.Episode) -> list[ldm.Recall]:
        if self.options.control == "random":
            return self.memory.sample(self.options.k, seed=len(episode.past))
        return self.memory.retrieve(episode.goal, episode.now.observation, self.options.k)


def value(action: str, episode: ldm.Episode, recalls: Sequence[ldm.Recall]) -> float:
    """Return how like the recalled actions and the goal an action is; repeating it costs."""
    recorded = sum(likeness(action, recall.tuple.action) for recall in recalls) / len(recalls)
    repeated = sum(past_action == action for _, past_action in episode.past)
    return recorded + likeness(action, episode.goal) / 2 - 0.3 * repeated


def likeness(first: str, second: str) -> float:
    """Return the share of words that two texts have in common; numbers do not count."""
    one, other = (set(re.findall("[a-z]{3,}", text)) for text in (first, second))
    return len(one & other) / max(1, len(one | other))


def main(
    data: Path | None = None, folder: Path = Path(".ldm/examples"), limit: int | None = None
) -> ldm.Comparison:
    """Evaluate on `limit` games (None: all 60) with a memory of `data` (None: shipped episodes)."""
    memory, runtime = str(folder / "memory"), ldm.Runtime(runs=folder / "runs")
    # Does nothing where the memory holds these episodes already.
    ldm.build_memory(data, memory, ldm.Build("alfworld"))
    runs = []
    for control in ("", "random"):
        spec = ldm.Evaluate(
            "alfworld",
            "demo_test",
            {"name": "evaluate_your_agent:Imitator", "control": control},
            memory=memory,
            limit=limit,
        )
        runs.append(ldm.evaluate(spec, runtime=runtime).directory)
    return ldm.compare(runs)


if __name__ == "__main__":
    print(main())
