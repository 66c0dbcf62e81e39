"""Recorded agent episodes: lines {"instruction", "steps": [{"action", "observation"}], "reward"}.

Pages are in brackets, as the published ReAct runner printed them (Yao et al., arXiv 2210.03629).
People's episodes, in another form, are read by `webshop_people`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ldm.envs.formats import LINES, Assumed, FieldError, Text, parsed
from ldm.interchange import webshop_people
from ldm.interchange.chat import earned
from ldm.interchange.webshop_sessions import ENV, SPLIT
from ldm.records import Problem
from ldm.text import read_lines
from ldm.types import Score, Step, Task, Trajectory, stable_hash
from ldm.worlds.webshop.environment import KIND
from ldm.worlds.webshop.pages import INVALID

SUFFIXES = LINES
SIGN = '"instruction", "steps" and "reward", or "states", "actions" and "action_idxs"'
_THOUGHT = re.compile(r"think\[(.*?)\]?\s*$", re.DOTALL)
_LINK = re.compile(r"click\[([A-Z0-9]{10})\]")
_BOUGHT = "click[buy now]"
#: The beginning of the page after a purchase, which reveals the reward.
_SCORE = re.compile(r"Your score \(min|Thank you for shopping", re.IGNORECASE)


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like such an episode."""
    signs = {"instruction", "steps", "reward"}
    agents = isinstance(value, dict) and signs <= value.keys() and "opening" not in value
    return agents or webshop_people.detect(value)


@dataclass(frozen=True, slots=True)
class Exchange:
    action: Text
    observation: str


@dataclass(frozen=True, slots=True)
class Episode:
    """A line of a file. episode: its name, if it has one."""

    instruction: Text
    steps: Annotated[tuple[Exchange, ...], Field(min_length=1)]
    reward: Score
    episode: Any = None


def read(path: Path, assumed: Assumed) -> Iterator[Trajectory | Problem]:
    """Yield the trajectory in each line, people's with the assumed score, or the line's problem."""
    people = partial(webshop_people.trajectory, score=assumed.score)
    for number, text in read_lines(path):
        if webshop_people.SIGN in text:
            yield parsed(text, webshop_people.Episode, people, str(path), number)
        else:
            yield parsed(text, Episode, _trajectory, str(path), number)


def _trajectory(line: Episode) -> Trajectory:
    """Return the trajectory in a line of an agent's.

    Thoughts become think steps. The episode ends with the purchase; its answer is left out, as it
    reveals the reward. The requested product is not recorded; `source` is the last one opened,
    which for a full reward is the requested one or an equivalent.
    """
    goal, reward = line.instruction.strip(), line.reward
    exchanges = [(one.action.strip(), one.observation.strip("\n")) for one in line.steps]
    opening = exchanges.pop(0)[1] if exchanges[0][0] == "reset" else ""
    steps: list[Step] = []
    for action, observation in exchanges:
        if thought := _THOUGHT.match(action):
            steps.append(Step("", "", thought=thought[1].strip()))
            continue
        if action == "reset":
            raise FieldError("steps", "resets in the middle")
        is_purchase = action.lower() == _BOUGHT and not observation.startswith(INVALID)
        page = "" if is_purchase or _SCORE.search(observation) else observation
        valid = not observation.startswith(INVALID)
        steps.append(Step(action, page, valid=valid, reward=reward if is_purchase else 0.0))
        if is_purchase:
            break
    if not any(step.action for step in steps):
        raise FieldError("steps", "has no action")
    if not any(step.reward for step in steps):  # no purchase with a reward is recorded
        last = max(i for i, step in enumerate(steps) if step.action)
        steps[last] = replace(steps[last], reward=reward)
    name = line.episode
    if name is None:
        name = stable_hash(goal, [(s.action, s.observation) for s in steps])
    links = [match[1] for step in steps if step.valid and (match := _LINK.fullmatch(step.action))]
    task = Task(f"agent/{name}", ENV, SPLIT, goal, KIND, links[-1] if links else "")
    return Trajectory(task, opening, tuple(steps), *earned(reward), "agent")
