"""What an ADaPT controller hands on from one sub-task to the next (arXiv 2311.05772, §3.3, App.).

ALFWorld: the last successful action of a sub-task that succeeded. TextCraft: the inventory.
WebShop: to executors the product that was found, to the planner the page and the executor calls
that failed. Other environments are treated as ALFWorld.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ldm.agents.executor import Hint
from ldm.agents.transcript import without_goal
from ldm.episode import Episode
from ldm.types import Step

#: A product's code, in words and clicked on: Amazon's begin with B and a digit, ours with L.
_CODE = re.compile(r"\b(?:B\d[A-Z0-9]{8}|L[0-9A-F]{9})\b", re.IGNORECASE)
_CLICKED = re.compile(rf"click\[({_CODE.pattern})\]", re.IGNORECASE)
#: What asks without changing anything is no result of a sub-task.
_ASKING = ("look", "inventory", "examine", "help")


def seen(episode: Episode, opening: str) -> str:
    """What a sub-task begins with: the present page, or the task's opening and what is seen now.

    opening: what was seen first of all. Its line with the whole task is left out: the sub-task
    stands in its place.
    """
    now = episode.now.observation
    if episode.env_name == "webshop":
        return now
    kept = without_goal(opening, episode.goal)
    if now != opening and episode.env_name != "textcraft":  # there the inventory tells it all
        kept += f"\nNow: {now}"
    return kept


def to_executor(episode: Episode, carried: str) -> tuple[Hint, ...]:
    """What the executor of a sub-task is told besides; may take an action to learn it.

    carried: as `after` gave it, "" at first. Raises EpisodeOver where that action ends the trial.
    """
    if episode.env_name == "textcraft":
        return (Hint("What you hold", "inventory", episode.act("inventory").observation.strip()),)
    if episode.env_name == "webshop":
        whole = Hint("It is a part of this", "whole-task", episode.goal)
        found = Hint("Found so far", "found", carried)
        return (whole, found) if carried else (whole,)
    return (Hint("What was done before", "before", carried),) if carried else ()


def to_planner(episode: Episode, failed: Sequence[str]) -> tuple[Hint, ...]:
    """What the planner is told besides. failed: the tasks at which executors failed so far."""
    if episode.env_name != "webshop":
        return ()
    calls = "\n".join(failed)
    return (
        Hint("It is a part of this", "whole-task", episode.goal),
        Hint("Tried without success", "failed", calls),
    )


def after(episode: Episode, steps: Sequence[Step], said: str, carried: str) -> str:
    """What is handed on after a sub-task that succeeded.

    steps: its executor's. said: what a judge said. carried: what the sub-task was given.
    """
    if episode.env_name == "textcraft":
        return ""
    if episode.env_name == "webshop":
        clicks = (_CLICKED.fullmatch(step.action) for step in reversed(steps) if step.valid)
        codes = _CODE.findall(said) or [found[1] for found in clicks if found][:1]
        return ", ".join(dict.fromkeys(code.upper() for code in codes)) or carried
    acted = (step.action for step in reversed(steps) if step.action and step.valid)
    return next((action for action in acted if not action.startswith(_ASKING)), carried)
