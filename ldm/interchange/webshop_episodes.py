"""Recorded agent episodes: lines {"instruction", "steps": [{"action", "observation"}], "reward"}.

Pages are in brackets, as the published ReAct runner printed them (Yao et al., arXiv 2210.03629).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ldm.envs.fields import FieldError, reward_in, text_in
from ldm.envs.formats import LINES
from ldm.envs.webshop.card import KIND
from ldm.envs.webshop.render import INVALID
from ldm.interchange.documents import located
from ldm.interchange.webshop_sessions import ENV, SPLIT
from ldm.records import Problem
from ldm.types import Step, Task, Trajectory, stable_hash

SUFFIXES = LINES
SIGN = '"instruction", "steps" and "reward"'
HEAD = None
_THOUGHT = re.compile(r"think\[(.*?)\]?\s*$", re.DOTALL)
_LINK = re.compile(r"click\[([A-Z0-9]{10})\]")
_BOUGHT = "click[buy now]"
#: The beginning of the page after a purchase, which reveals the reward.
_SCORE = re.compile(r"Your score \(min|Thank you for shopping", re.IGNORECASE)


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like such an episode."""
    signs = {"instruction", "steps", "reward"}
    return isinstance(value, dict) and signs <= value.keys() and "opening" not in value


def parse(line: Mapping[str, Any], file: str, number: int) -> Trajectory | Problem:
    """Return the trajectory in a line, or the problem with the line.

    Thoughts become think steps. The episode ends with the purchase; its answer is left out, as it
    reveals the reward. The requested product is not recorded; `source` is the last one opened,
    which for a full reward is the requested one or an equivalent.
    """
    return located(lambda: _trajectory(line), file, number)


def _trajectory(line: Mapping[str, Any]) -> Trajectory:
    goal = text_in(line, "instruction").strip()
    reward = reward_in(line)
    entries = line.get("steps")
    if not isinstance(entries, list) or not entries:
        raise FieldError("steps", "missing, empty or not a list")
    exchanges = [_exchange(step, number) for number, step in enumerate(entries)]
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
    name = line.get("episode", stable_hash(goal, [(s.action, s.observation) for s in steps]))
    return Trajectory(
        Task(f"agent/{name}", ENV, SPLIT, goal, kind=KIND, source=_product(steps)),
        opening,
        tuple(steps),
        score=reward,
        success=reward >= 1.0,
        origin="agent",
    )


def _exchange(step: object, number: int) -> tuple[str, str]:
    path = f"steps.{number}"
    if not isinstance(step, Mapping):
        raise FieldError(path, "not an object with action and observation")
    observation = step.get("observation")
    if not isinstance(observation, str):
        raise FieldError(f"{path}.observation", "missing or not a text")
    action = text_in(step, "action", f"{path}.action").strip()
    return action, observation.strip("\n")


def _product(steps: list[Step]) -> str:
    links = [match[1] for step in steps if step.valid and (match := _LINK.fullmatch(step.action))]
    return links[-1] if links else ""
