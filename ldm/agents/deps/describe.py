"""The descriptor: what came of a plan, in words (DEPS, §3.2). No model is asked.

What an observation tells of goals, `Card.reading` says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ldm.agents.deps.plans import Goal, Plan
from ldm.prompts import shortened
from ldm.types import Card, Reading, TimeStep

#: Characters of an answer or a place in a description.
LONGEST = 300
_COUNTED = re.compile(r"(\d+) ([a-z][\w ]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Progress:
    """What an answer says of the goal that was pursued.

    reached: whether it is done. left: how many are still to get where it goes on, else 0.
    """

    reached: bool
    left: int = 0


def progress(answer: TimeStep, reading: Reading) -> Progress:
    """Return what an answer says of its goal.

    An answer that the card's reading does not know is as good as its `valid`.
    """
    text = answer.observation
    if not answer.valid:
        return Progress(reached=False)
    if reading.going and (match := re.search(reading.going, text, re.MULTILINE)):
        left = match.groupdict().get("left")
        return Progress(reached=False, left=int(left) if left else 1)
    if reading.done:
        return Progress(re.search(reading.done, text, re.MULTILINE) is not None)
    return Progress(reached=True)


def held(observation: str, reading: Reading) -> dict[str, int] | None:
    """Return what an observation says is held: item → count; None where it does not say."""
    if not reading.held:
        return None
    match = re.search(reading.held, observation, re.MULTILINE)
    if match is None:
        return None
    return {item.strip(): int(count) for count, item in _COUNTED.findall(match[1])}


def amount(item: str, counts: Mapping[str, int], reading: Reading) -> int:
    """Return how many of an item are held; a word for a family counts all its members."""
    members = {item, *reading.families.get(item, ())}
    return sum(count for name, count in counts.items() if name in members)


def clock(observation: str, reading: Reading) -> tuple[int, int] | None:
    """Return the present time and the last one; None where the observation does not tell."""
    match = re.search(reading.clock, observation, re.MULTILINE) if reading.clock else None
    return None if match is None else (int(match[1]), int(match[2]))


def description(
    plan: Plan, done: Collection[int], failed: Goal | None, *, answer: str = "", held: str = ""
) -> str:
    """Return what came of a plan: steps done, the one that failed, the answer, what is held.

    done: ranks. answer: what the world said to the step that failed, or why there was none.
    """
    parts = [f"{_steps(done)} done." if done else "No step is done."]
    if failed is not None:
        parts.append(f'Step {failed.rank} failed: "{failed.text or failed.words}".')
    elif len(done) == len(plan.goals) and plan.goals:
        parts[0] = "All steps are done."
    if answer:
        parts.append(answer if answer.endswith((".", "!", "?")) else f"{answer}.")
    if held:
        parts.append(f"I hold {held}.")
    return " ".join(parts)


def _steps(ranks: Collection[int]) -> str:
    """Return "Step 2 is", "Steps 1, 2 and 4 are"."""
    *others, last = map(str, sorted(ranks))
    return f"Steps {', '.join(others)} and {last} are" if others else f"Step {last} is"


def answer_line(card: Card, now: TimeStep, *, whole: bool) -> str:
    """Return the answer to an action in one line; whole: with what is seen besides."""
    lines = [line.strip() for line in now.observation.splitlines() if line.strip()]
    if card.reading.held and not whole:
        lines = lines[:1]
    elif card.reading.held:  # what is held is told by itself
        lines = [line for line in lines if not re.search(card.reading.held, line)]
    return shortened(" ".join(lines), LONGEST)
