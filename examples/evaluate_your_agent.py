"""Evaluate an agent of your own, and beside it the same agent with randomly drawn tuples.

    python examples/evaluate_your_agent.py

The agent does what was done in the most similar recorded state in which that is possible now. It
plays games of the household environment ALFWorld that are shipped with `ldm`. The second
evaluation is the control: what the agent reaches with tuples drawn at random is not owed to
recalling the right ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import ldm


@dataclass(frozen=True, slots=True)
class ImitatorOptions:
    """k: tuples recalled at each step. control: "random" draws them instead. budget: of steps."""

    k: int = 60
    control: str = ""
    budget: int = 50


class Imitator:
    """What `ldm` asks of an agent: these four facts, a budget, and a way to solve an episode."""

    name = "imitator"
    sees_reward = False
    needs: ClassVar[Sequence[str]] = ("memory",)
    paper: ClassVar[str] = "an example"
    Options: ClassVar[type[Any]] = ImitatorOptions

    def __init__(self, options: ImitatorOptions, resources: ldm.Resources) -> None:
        assert resources.memory is not None  # `needs` says so
        self.options, self.memory, self.seed = options, resources.memory, resources.seed

    def budget(self, card: ldm.Card) -> int:
        return self.options.budget

    def solve(self, episode: ldm.Episode) -> None:
        with episode.trial() as now:
            while True:
                recalls = self.recall(episode.goal, now.observation, len(episode.past))
                recorded = [episode.localize(recall.tuple.action) for recall in recalls]
                done = {action for _, action in episode.past}
                possible = [a for a in recorded if a in (now.admissible or ()) and a not in done]
                if not possible:
                    return  # leaving before the end is giving up
                used = [(recall.tuple.id, recall.similarity) for recall in recalls]
                now = episode.act(possible[0], recalls=used)

    def recall(self, goal: str, observation: str, step: int) -> list[ldm.Recall]:
        if self.options.control == "random":
            return self.memory.sample(self.options.k, seed=self.seed + step)
        return self.memory.retrieve(goal, observation, self.options.k)


def main(
    data: Path | None = None, folder: Path = Path(".ldm/examples"), limit: int | None = None
) -> ldm.Comparison:
    """Evaluate on `limit` games (None: all 60) with a memory of `data` (None: shipped episodes)."""
    memory, runtime = str(folder / "memory"), ldm.Runtime(runs=folder / "runs")
    # Does nothing where the memory holds these episodes already.
    ldm.build_memory(data, memory, ldm.BuildOptions(env="alfworld"))
    runs = []
    for control in (None, "random"):
        spec = ldm.EvaluationSpec(
            "alfworld",
            split="demo_test",
            agent="evaluate_your_agent:Imitator",
            agent_options=ldm.settings(control=control),
            memory=memory,
            limit=limit,
        )
        runs.append(ldm.evaluate(spec, runtime=runtime).directory)
    return ldm.compare(runs)


if __name__ == "__main__":
    print(main())
