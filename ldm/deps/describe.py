"""The descriptor: the outcome of a plan in words (DEPS, §3.2). No model is asked.

`Card.reading` defines how observations report on goals.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ldm.deps.plans import Goal, Plan
from ldm.prompts import shortened
from ldm.types import Card, Reading, TimeStep

#: Characters of an answer or of a place in a description.
LONGEST = 300
_COUNTED = re.compile(r"(\d+) ([a-z][\w ]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a pursued goal according to an answer.

    reached: whether it is done. left: the number still to get if it is continued, else 0.
    """

    reached: bool
    left: int = 0


def progress(answer: TimeStep, reading: Reading) -> Progress:
    """Return the progress of a goal according to the answer to its action.

    If the card's reading does not know the answer, its `valid` decides.
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
    """Return the inventory in an observation, item → count, or None if it does not tell."""
    if not reading.held:
        return None
    match = re.search(reading.held, observation, re.MULTILINE)
    if match is None:
        return None
    return {item.strip(): int(count) for count, item in _COUNTED.findall(match[1])}


def amount(item: str, counts: Mapping[str, int], reading: Reading) -> int:
    """Return the number held of an item; a word for a family counts all its members."""
    members = {item, *reading.families.get(item, ())}
    return sum(count for name, count in counts.items() if name in members)


def clock(observation: str, reading: Reading) -> tuple[int, int] | None:
    """Return the present and the final time, or None if the observation does not tell."""
    match = re.search(reading.clock, observation, re.MULTILINE) if reading.clock else None
    return None if match is None else (int(match[1]), int(match[2]))


def description(
    plan: Plan, done: Collection[int], failed: Goal | None, *, answer: str = "", held: str = ""
) -> str:
    """Describe the outcome of a plan: steps done, the failed one, the answer, the inventory.

    done: ranks. answer: the world's reply to the failed step, or the reason for its absence.
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
    """Return the subject and verb for some steps: "Step 2 is", "Steps 1, 2 and 4 are"."""
    *others, last = map(str, sorted(ranks))
    return f"Steps {', '.join(others)} and {last} are" if others else f"Step {last} is"


def answer_line(card: Card, now: TimeStep, *, whole: bool) -> str:
    """Return the answer to an action in one line; whole: with the rest of the observation."""
    lines = [line.strip() for line in now.observation.splitlines() if line.strip()]
    if card.reading.held and not whole:
        lines = lines[:1]
    elif card.reading.held:  # the inventory is described separately
        lines = [line for line in lines if not re.search(card.reading.held, line)]
    return shortened(" ".join(lines), LONGEST)
