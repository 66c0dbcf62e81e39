"""Use a memory inside an agent loop of your own: record a few episodes, then recall at each step.

    python examples/memory_in_your_agent.py

Nothing here is an `ldm` agent or environment. Your program records what it does as trajectories,
and asks the memory what was done in states like the present one. No language model is called:
where this loop takes the best recalled action, yours would show the recalled ones to a model.
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


def recorded(name: str, goal: str, ingredient: str) -> ldm.Trajectory:
    """Return an episode in which somebody made a hot drink."""
    actions = ("fill the kettle", "boil the water", ingredient, "pour the water into the cup")
    task = ldm.Task(name, env="kitchen", split="train", goal=goal, kind="drink")
    steps = tuple(ldm.Step(action, ANSWERS[action]) for action in actions)
    return ldm.Trajectory(task, OPENING, steps, score=1.0, success=True, origin="human")


def play(memory: ldm.Memory, goal: str, say: Callable[[str], None] = print) -> list[str]:
    """Reach the goal with recalled actions; return them."""
    observation, actions = OPENING, list[str]()
    while "full. It smells" not in observation and len(actions) < 10:
        say(f"\n{observation}")
        recalls = memory.retrieve(goal, observation, k=2)
        for recall in recalls:
            say(f"  {recall.similarity:.2f}  {recall.tuple.goal}: {recall.tuple.action}")
        actions.append(recalls[0].tuple.action)
        observation = ANSWERS[actions[-1]]
        say(f"> {actions[-1]}")
    say(f"\n{observation}")
    return actions


def main() -> list[str]:
    episodes = [
        recorded("monday", "make a cup of tea", TEA),
        recorded("tuesday", "make a cup of coffee", COFFEE),
    ]
    with TemporaryDirectory() as folder:
        ldm.build_memory(episodes, folder)
        return play(ldm.Memory.open(folder, "kitchen"), "make a mug of green tea")


if __name__ == "__main__":
    main()
