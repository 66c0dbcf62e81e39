"""Notes on all steps of a trajectory, a call for its sub-goals and one for every PIECE steps.

The paper asks for an assessment and a summary of the whole past at every step, so that the cost of
an episode grows with the square of its length; here it grows with the length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldm.prompts import shortened
from ldm.reasoner import Notes
from ldm.reasoner.asking import Asker, SubGoalsForm, assessed, fitting_or_none, notes_after, values
from ldm.reasoner.offline import OfflineReasoner
from ldm.types import Card, Past

#: Steps that one call writes notes on, and how many of those before are shown.
PIECE = 8
OVERLAP = 2
#: Characters of an observation that are shown.
SHOWN = 400
#: Characters of a goal that are shown.
GOAL = 2000
#: Most tokens of the notes on a step, and of the sub-goals.
STEP_TOKENS = 100
GOAL_TOKENS = 160


@dataclass(frozen=True, slots=True)
class Recounter:
    """Asks for the notes. aid: writes those on a step for which the model gives nothing usable."""

    asker: Asker
    card: Card
    aid: OfflineReasoner

    def recount(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """The notes on what came before each of the steps; long courses in overlapping pieces.

        Before the first step nothing has happened, and nothing is asked but the sub-goals: by
        themselves, so that what was done later cannot slip into them.
        """
        sub_goals = self.split(goal)
        written = [Notes(_assessment(sub_goals, 0))]
        for first in range(1, len(steps), PIECE):
            wanted = range(first, min(first + PIECE, len(steps)))
            written += self._piece(sub_goals, goal, steps, wanted, written[-1].summary)
        return tuple(written[: len(steps)])

    def split(self, goal: str) -> tuple[str, ...]:
        """The sub-goals of a goal, in order; the goal itself where the model names none."""

        def ask(effort: float) -> SubGoalsForm | None:
            shown = shortened(goal, int(GOAL * effort))
            found: SubGoalsForm | None = self.asker.ask(
                "split", SubGoalsForm, GOAL_TOKENS, goal=shown
            ).value
            return found

        form = fitting_or_none(ask)
        found = () if form is None else tuple(g.strip() for g in form.sub_goals if g.strip())
        return found or (goal,)

    def _piece(
        self, sub_goals: tuple[str, ...], goal: str, steps: Past, wanted: range, before: str
    ) -> list[Notes]:
        """The notes after the steps `wanted`, counted from 1; before: the summary up to there.

        A reply without use is asked for again in halves, and so is what the model has no room for;
        a single step falls back to the aid.
        """

        def ask(effort: float) -> Any:
            shown = range(max(1, wanted[0] - OVERLAP), wanted[-1] + 1)
            return self.asker.ask(
                "recount",
                notes_after(wanted[0], wanted[-1]),
                STEP_TOKENS * len(wanted),
                card=self.card,
                goal=shortened(goal, int(GOAL * effort)),
                sub_goals=sub_goals,
                before=before,
                steps=[(n, *steps[n - 1], steps[n][0]) for n in shown],
                wanted=list(wanted),
                length=int(SHOWN * effort),
            ).value

        form = fitting_or_none(ask)
        if form is not None:
            written = []
            for number, after in zip(wanted, values(form), strict=True):
                before = (
                    after.summary.strip() or before or self._by_aid(goal, steps, number).summary
                )
                written.append(Notes(_assessment(sub_goals, after.complete), before))
            return written
        if len(wanted) == 1:
            return [self._by_aid(goal, steps, wanted[0])]
        half = len(wanted) // 2
        found = self._piece(sub_goals, goal, steps, wanted[:half], before)
        return found + self._piece(sub_goals, goal, steps, wanted[half:], found[-1].summary)

    def _by_aid(self, goal: str, steps: Past, number: int) -> Notes:
        """The aid's notes after so many steps."""
        return self.aid.notes(goal, steps[:number], steps[number][0], Notes())


def _assessment(sub_goals: tuple[str, ...], complete: int) -> str:
    done = min(max(complete, 0), len(sub_goals))
    return assessed("; ".join(sub_goals[:done]), "; ".join(sub_goals[done:]))
