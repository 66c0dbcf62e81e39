"""Use a memory inside an agent loop of your own: record episodes, and recall at each step.

    python examples/memory_in_your_agent.py

Nothing here is an `ldm` agent or environment. Your program records what it does, and asks the
memory what was done in states like the present one. No language model is called: where this loop
takes the best recalled action, yours would show `recalls.as_prompt()` to a model.
"""

from __future__ import annotations

from collections.abc import Callable
from tempfile import TemporaryDirectory

import ldm

#: Our world: what the kitchen answers to an action, whatever the order.
ANSWERS = {
    "fill the kettle": "The kettle is full of cold water.",
    "boil the water": "The water boils.",
    "put a tea bag into the cup": "There is a tea bag in the cup.",
    "put ground coffee into the cup": "There is ground coffee in the cup.",
    "pour the water into the cup": "The cup is full. It smells good.",
}
OPENING = "You are in the kitchen. The kettle is empty."
TEA, COFFEE = "put a tea bag into the cup", "put ground coffee into the cup"


def remember(memory: ldm.GrowingMemory, goal: str, ingredient: str) -> None:
    """Record an episode in which somebody made a hot drink."""
    observation = OPENING
    with memory.record(goal, kind="drink", origin="human") as episode:
        for action in ("fill the kettle", "boil the water", ingredient):
            episode.step(observation, action)
            observation = ANSWERS[action]
        episode.step(observation, "pour the water into the cup", reward=1)


def play(memory: ldm.GrowingMemory, goal: str, say: Callable[[str], None] = print) -> list[str]:
    """Reach the goal with recalled actions, and record that; return the actions."""
    observation, episode = OPENING, memory.begin(goal, kind="drink")
    while "full. It smells" not in observation and len(episode.steps) < 10:
        say(f"\n{observation}")
        recalls = memory.recall(goal, observation, k=2, outcomes="success")
        for recall in recalls:
            say(f"  {recall.similarity:.2f}  {recall.tuple.goal}: {recall.tuple.action}")
        action = recalls[0].tuple.action
        episode.step(observation, action, followed=recalls[0])
        observation = ANSWERS[action]
        say(f"> {action}")
    episode.finish(float("full. It smells" in observation), observation)
    say(f"\n{observation}")
    for line in memory.recall(goal, OPENING, k=2).why:
        say(f"  {line}")
    return [step.action for step in episode.steps]


def main() -> list[str]:
    with TemporaryDirectory() as folder:
        memory = ldm.Memory.open(folder, "kitchen", create=True)
        remember(memory, "make a cup of tea", TEA)
        remember(memory, "make a cup of coffee", COFFEE)
        return play(memory, "make a mug of green tea")


if __name__ == "__main__":
    main()
