"""What the environment says: the answer to an action, and the state in short lines."""

from __future__ import annotations

from ldm.envs.minecraft.commands import Command
from ldm.envs.minecraft.state import State

NOTHING = "Nothing happens."
TIME_UP = "Time is up."


def answer(command: Command, gained: int, *, broken: str = "") -> str:
    """Return what came of an action: what was gained, what is to go, and which tool broke."""
    text = _done(command, gained)
    return f"{text} Your {broken} broke." if broken else text


def _done(command: Command, gained: int) -> str:
    match command.verb:
        case "inventory":
            return "You look at what you have."
        case "equip":
            return f"You hold or wear {command.word}."
        case "explore":
            return f"You walk {command.word}."
        case "craft":
            return f"Made {gained} {command.word}."
    said = "Killed" if command.verb == "kill" else "Got"
    left = command.count - gained
    if left <= 0:
        return f"{said} {gained} {command.word}."
    return f"{said} {gained or 'no'} {command.word}, {left} to go."


def opening(goal: str, limit: str) -> str:
    """Return the line with the task."""
    return f"Task: {goal} within {limit}."


def inventory(state: State) -> str:
    """Return the line with what is held, and what of it was equipped."""
    held = ", ".join(f"{count} {item}" for item, count in sorted(state.inventory.items()))
    worn = f" Equipped: {', '.join(state.worn)}." if state.worn else ""
    return f"Inventory: {held or 'nothing'}.{worn}"


def lines(*parts: str) -> str:
    """Return the parts that there are, a line each."""
    return "\n".join(part for part in parts if part)
