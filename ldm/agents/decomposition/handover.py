"""The handover from one sub-task of an ADaPT controller to the next (arXiv 2311.05772, §3.3, App.).

The environment's card names the rule (`Card.handover`). Every rule defines what a sub-task sees
first, the further hints for its executor and the planner, and what it hands over after a success.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ldm.agents.loop import Hint, Work
from ldm.episode import Episode
from ldm.reason.excerpts import without_goal
from ldm.types import Card, Handover, Step

#: Actions that ask without changing anything are no result of a sub-task.
_ASKING = ("look", "inventory", "examine", "help")


class Rule:
    """A rule of handover; the default hands over nothing but the opening."""

    def beginning(self, episode: Episode, opening: str) -> str:
        """Return the opening of a sub-task; opening: that of the whole task.

        The sub-task replaces the line with the whole task.
        """
        return without_goal(opening, episode.goal)

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        """Return further hints for the executor of a sub-task; this may take an action.

        carried: as `after` gave it, "" at first. Raise EpisodeOver if that action ends the trial.
        """
        return ()

    def to_planner(self, episode: Episode, failed: Sequence[str]) -> tuple[Hint, ...]:
        """Return further hints for the planner; failed: tasks at which executors failed."""
        return ()

    def after(self, episode: Episode, steps: Sequence[Step], judgement: str, carried: str) -> str:
        """Return the text to hand over after a sub-task that succeeded.

        steps: its executor's. judgement: the judge's words, "" if none was asked. carried: the text
        handed over to the sub-task.
        """
        return ""


class LastAction(Rule):
    """Hands over the last effective action; a sub-task sees the opening and the present."""

    def beginning(self, episode: Episode, opening: str) -> str:
        now = episode.now.observation
        before = super().beginning(episode, opening)
        return before if now == opening else f"{before}\nNow: {now}"

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        return (Hint("What was done before", "before", carried),) if carried else ()

    def after(self, episode: Episode, steps: Sequence[Step], judgement: str, carried: str) -> str:
        actions = (step.action for step in reversed(steps) if step.action and step.valid)
        return next((action for action in actions if not action.startswith(_ASKING)), carried)


class Inventory(Rule):
    """Asks for the inventory before every sub-task, which sees it and the opening."""

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        return (Hint("What you hold", "inventory", episode.act("inventory").observation.strip()),)


class OpenPage(Rule):
    """Hands over the codes that were named or clicked on; the planner sees the page and failures.

    `Card.codes` defines the codes.
    """

    def beginning(self, episode: Episode, opening: str) -> str:
        return episode.now.observation

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        whole = Hint("It is a part of this", "whole-task", episode.goal)
        codes = Hint("Found so far", "found", carried)
        return (whole, codes) if carried else (whole,)

    def to_planner(self, episode: Episode, failed: Sequence[str]) -> tuple[Hint, ...]:
        whole = Hint("It is a part of this", "whole-task", episode.goal)
        tried = Hint("Tried without success", "failed", "\n".join(failed))
        return (whole, tried) if failed else (whole,)

    def after(self, episode: Episode, steps: Sequence[Step], judgement: str, carried: str) -> str:
        pattern = episode.card.codes
        if not pattern:
            return carried
        code = re.compile(pattern, re.IGNORECASE)
        link = re.compile(rf"click\[({pattern})\]", re.IGNORECASE)
        clicks = (link.fullmatch(step.action) for step in reversed(steps) if step.valid)
        codes = [match[0] for match in code.finditer(judgement)] or [c[1] for c in clicks if c][:1]
        return ", ".join(dict.fromkeys(code.upper() for code in codes)) or carried


RULES: Mapping[Handover, Rule] = {
    "action": LastAction(),
    "inventory": Inventory(),
    "page": OpenPage(),
}


def rule_of(card: Card) -> Rule:
    """Return the rule of the environment of this card."""
    return RULES[card.handover]


def part_of(whole: Work, task: str, episode: Episode, opening: str, carried: str) -> Work:
    """Return a sub-task as work; opening: of the whole task. Raise EpisodeOver, see `Rule`."""
    rule = rule_of(episode.card)
    hints = (*whole.hints, *rule.to_executor(episode, carried))
    return replace(whole, task=task, hints=hints, opening=rule.beginning(episode, opening))
