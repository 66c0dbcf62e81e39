"""The handover from one sub-task of an ADaPT controller to the next (arXiv 2311.05772, §3.3, App.).

The environment's card names the rule (`Card.handover`). Every rule defines what a sub-task sees
first, the further hints for its executor and the planner, and what it hands over after a success.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ldm.agents.loop import Hint, Work
from ldm.episode import Episode
from ldm.reason.excerpts import without_goal
from ldm.types import Card, Handover, Step, TimeStep

#: Actions that ask without changing anything are no result of a sub-task.
_ASKING = ("look", "inventory", "examine", "help")


class Rule:
    """A rule of handover; the default hands over nothing but the opening."""

    def beginning(self, episode: Episode, opening: str, *, untouched: bool = True) -> str:
        """Return the opening of a sub-task.

        opening: that of the whole task, whose line the sub-task replaces. untouched: whether the
        world is as the last success left it.
        """
        return without_goal(opening, episode.goal)

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        """Return further hints for the executor of a sub-task; this may take an action.

        carried: as `after` gave it, "" at first. Raise EpisodeOver if that action ends the trial.
        """
        return ()

    def to_planner(self, episode: Episode, task: str, failed: Sequence[str]) -> tuple[Hint, ...]:
        """Return further hints for the planner of a task; failed: at which executors failed."""
        return ()

    def after(self, episode: Episode, steps: Sequence[Step], judgement: str, carried: str) -> str:
        """Return the text to hand over after a sub-task that succeeded.

        steps: its executor's. judgement: the judge's words, "" if none was asked. carried: the text
        handed over to the sub-task.
        """
        return ""


class LastAction(Rule):
    """Hands over the last effective action; a sub-task sees the opening and what successes left."""

    def beginning(self, episode: Episode, opening: str, *, untouched: bool = True) -> str:
        now = episode.now.observation
        before = super().beginning(episode, opening)
        return before if now == opening or not untouched else f"{before}\nNow: {now}"

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

    def beginning(self, episode: Episode, opening: str, *, untouched: bool = True) -> str:
        return episode.now.observation

    def to_executor(self, episode: Episode, carried: str) -> tuple[Hint, ...]:
        whole = Hint("It is a part of this", "whole-task", episode.goal)
        codes = Hint("Found so far", "found", carried)
        return (whole, codes) if carried else (whole,)

    def to_planner(self, episode: Episode, task: str, failed: Sequence[str]) -> tuple[Hint, ...]:
        whole = Hint("It is a part of this", "whole-task", episode.goal)
        tried = Hint("Tried without success", "failed", "\n".join(failed))
        return (*((whole,) if task != episode.goal else ()), *((tried,) if failed else ()))

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


def looked(
    step: Callable[[str], TimeStep], card: Card, task: str, now: TimeStep
) -> tuple[str, bool]:
    """Return what a judged skill looks at, and whether it opened something for that.

    step: carries out an action. A thing that the task names by its code is opened if the page
    lists it, as in the authors' code on WebShop; of `Card.looks` what is not possible is left out.
    """
    looks = card.looks.get(skill_of(task), ())
    named = re.search(card.codes, task, re.IGNORECASE) if looks and card.codes else None
    opened = named is not None and f"[{named[0]}]".casefold() in now.observation.casefold()
    if opened and named is not None:
        now = step(f"click[{named[0]}]")
    parts = [now.observation]
    for action in looks:
        if now.admissible is not None and action not in now.admissible:
            break
        now = step(action)
        if action != looks[-1]:
            parts.append(now.observation)
    return "\n".join(parts), opened


def skill_of(task: str) -> str:
    """Return the first word of a sub-task, which names its skill."""
    return task.split(maxsplit=1)[0].casefold().strip(":*") if task.strip() else ""


def part_of(whole: Work, task: str, episode: Episode, opening: str, carried: str) -> Work:
    """Return a sub-task as work.

    opening: as `Rule.beginning` gives it. Raise EpisodeOver, see `Rule`.
    """
    hints = (*whole.hints, *rule_of(episode.card).to_executor(episode, carried))
    return replace(whole, task=task, hints=hints, opening=opening)
