"""What the examples of this folder share: a desk that refunds orders, and its memory.

Each example plays a framework's agent with a model that follows a script, so it needs no server:
put a real model in its place, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable
from tempfile import TemporaryDirectory

from ldm.integrations.experience import Experience
from ldm.memory.growing import GrowingMemory

GOAL = "refund a broken lamp"
ARGUMENTS = {"order": "order 7"}
FINAL = "The lamp is refunded."


def ask_for_photo(order: str) -> str:
    """Ask the customer for a photo.

    Args:
        order: The order, such as "order 7".
    """
    return f"The photo of {order} shows a broken lamp."


def score(output: object) -> float:
    """Return 1 if a run has ended well."""
    return float("refunded" in str(output))


def show(play: Callable[[Experience], list[str]]) -> None:
    """Print what the model was shown in its second run, after it has seen its first."""
    with TemporaryDirectory() as folder, GrowingMemory.open(folder, "desk", create=True) as memory:
        experience = Experience(memory, score, kind="refund")
        play(experience)
        print(play(experience)[0])
