"""Recorded agent episodes: {"instruction", "steps": [{"action", "observation"}], "reward"} a line.

Pages are in brackets, as the published ReAct runner printed them (Yao et al., arXiv 2210.03629).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ldm.envs.field_errors import FieldError, number_in, text_in
from ldm.envs.webshop.card import KIND
from ldm.envs.webshop.render import INVALID
from ldm.envs.webshop.sessions import ENV, SPLIT
from ldm.records import Problem
from ldm.types import Step, Task, Trajectory, stable_hash

_THOUGHT = re.compile(r"think\[(.*?)\]?\s*$", re.DOTALL)
_LINK = re.compile(r"click\[([A-Z0-9]{10})\]")
_BOUGHT = "click[buy now]"
#: What the page after a purchase begins with; it tells the reward.
_SCORE = re.compile(r"Your score \(min|Thank you for shopping", re.IGNORECASE)


def detect(line: Mapping[str, Any]) -> bool:
    """Return whether a JSON object looks like such an episode."""
    return {"instruction", "steps", "reward"} <= line.keys() and "opening" not in line


def parse(line: Mapping[str, Any], file: str, number: int) -> Trajectory | Problem:
    """Return the trajectory that a line tells, or what is wrong with it.

    Thoughts become think steps. The episode ends with the purchase, whose answer, which tells the
    reward, is left out. The product that was wanted is not recorded; `source` is the one looked at
    last, which for a full reward is the wanted one or its like.
    """
    try:
        return _trajectory(line)
    except FieldError as error:
        return Problem(file, number, error.field, str(error))


def _trajectory(line: Mapping[str, Any]) -> Trajectory:
    goal = text_in(line, "instruction").strip()
    reward = number_in(line, "reward")
    if not 0 <= reward <= 1:
        raise FieldError("reward", f"not between 0 and 1: {reward}")
    told = line.get("steps")
    if not isinstance(told, list) or not told:
        raise FieldError("steps", "missing, empty or not a list")
    exchanges = [_exchange(step, number) for number, step in enumerate(told)]
    opening = exchanges.pop(0)[1] if exchanges[0][0] == "reset" else ""
    steps: list[Step] = []
    for action, observation in exchanges:
        if thought := _THOUGHT.match(action):
            steps.append(Step("", "", thought=thought[1].strip()))
            continue
        if action == "reset":
            raise FieldError("steps", "starts anew in the middle")
        bought = action.lower() == _BOUGHT and not observation.startswith(INVALID)
        seen = "" if bought or _SCORE.search(observation) else observation
        valid = not observation.startswith(INVALID)
        steps.append(Step(action, seen, valid=valid, reward=reward if bought else 0.0))
        if bought:
            break
    if not any(step.action for step in steps):
        raise FieldError("steps", "has no action")
    if not any(step.reward for step in steps):  # no purchase is recorded, whatever it earned
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
    where = f"steps.{number}"
    if not isinstance(step, Mapping):
        raise FieldError(where, "not an object with action and observation")
    observation = step.get("observation")
    if not isinstance(observation, str):
        raise FieldError(f"{where}.observation", "missing or not a text")
    action = text_in(step, "action", f"{where}.action").strip()
    return action, observation.strip("\n")


def _product(steps: list[Step]) -> str:
    links = [found[1] for step in steps if step.valid and (found := _LINK.fullmatch(step.action))]
    return links[-1] if links else ""
