"""People's episodes for WebShop's imitation baselines: lines {"states": […], "actions": […], …}.

They are `baseline_models/data/il_trajs_finalized_images.zip` of princeton-nlp/WebShop. Pages are in
the official form `text_rich`; no reward is recorded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from ldm.envs.formats import FieldError, Text
from ldm.interchange.chat import earned
from ldm.interchange.webshop_sessions import ENV, SPLIT
from ldm.types import Step, Task, Trajectory, stable_hash
from ldm.worlds.webshop.environment import KIND

#: What only such lines hold.
SIGN = b'"action_idxs"'
_BUTTON = re.compile(r"^(\s*)\[(clicked )?button\] (.*) \[(?:clicked )?button_\]$")
_TITLES = ("Amazon Shopping Game", "WebShop")


@dataclass(frozen=True, slots=True)
class Episode:
    """A line of the file: the page before each action, and perhaps the last one."""

    states: Annotated[tuple[str, ...], Field(min_length=1)]
    actions: Annotated[tuple[Text, ...], Field(min_length=1)]


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like such an episode."""
    return isinstance(value, dict) and {"states", "actions", "action_idxs"} <= value.keys()


def trajectory(line: Episode, score: float | None) -> Trajectory:
    """Return the episode in a line. Raise FieldError for a field that does not fit."""
    states, actions = line.states, line.actions
    if len(states) < len(actions):
        raise FieldError("states", f"{len(states)} for {len(actions)} actions")
    instruction = re.search(r"Instruction:\s*(.*\S)", states[0])
    if instruction is None:
        raise FieldError("states.0", "has no instruction")
    pages = [bracketed(state) for state in states]
    # The state after the purchase shows the score.
    after = [*pages[1 : len(actions)], ""]
    rewards = [0.0] * (len(actions) - 1) + [score or 0.0]
    steps = tuple(map(Step, actions, after, rewards))
    name = f"people/{stable_hash(states, actions)}"
    products = re.findall(r"click\[([bB]0\w{8})\]", "\n".join(actions))
    task = Task(
        name, ENV, SPLIT, instruction[1], kind=KIND, source=products[-1].upper() if products else ""
    )
    return Trajectory(task, pages[0], steps, *earned(score), "human")


def bracketed(state: str) -> str:
    """Return a page of the form `text_rich` in the form `bracket`."""
    lines: list[str] = []
    rest = iter(state.splitlines())
    search = "[button] Search [button_]" in state
    for text in rest:
        button = _BUTTON.match(text)
        if button and button[1] and lines:  # an option, beside the others of its group
            lines[-1] += f"[[{button[3]}]]" if button[2] else f"[{button[3]}]"
        elif button:
            lines.append(f"[{button[3]}] ")
        elif not search and (text.strip() == "Instruction:" or text in _TITLES):
            if text not in _TITLES:
                next(rest, "")  # the instruction itself
        elif text.strip() and not text.startswith("You have clicked "):
            lines.append(f"{'Webshop' if text in _TITLES else text} ")
    return "\n".join(lines)
