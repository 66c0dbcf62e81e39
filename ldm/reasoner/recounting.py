"""Notes on all steps of a trajectory, a call for its sub-goals and one for every PIECE steps.

No call is told of the world: what its rules say ("Nothing happens.") a small model takes for what
was done. The paper asks for an assessment and a summary of the whole past at every step, so that
the cost of an episode grows with the square of its length; here it grows with the length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldm.prompts import shortened
from ldm.reasoner import Notes
from ldm.reasoner.asking import (
    WORDS,
    Asker,
    StepForm,
    SubGoalsForm,
    fitting_or_none,
    matched,
    notes_after,
    values,
)
from ldm.reasoner.notes import after, begun, progress, standing, summarised
from ldm.reasoner.offline import OfflineReasoner
from ldm.reasoner.situation import Entity, numbered
from ldm.types import Past

#: Steps that one call writes notes on, and how many of those before are shown.
PIECE = 8
OVERLAP = 2
#: Characters of an observation that are shown.
SHOWN = 400
#: Characters of a goal that are shown.
GOAL = 2000
#: Most tokens of the notes on a step, and of the sub-goals.
STEP_TOKENS = 120
GOAL_TOKENS = 160


@dataclass(frozen=True, slots=True)
class _Course:
    """A trajectory that notes are written on. steps: (o_τ, a_τ)."""

    goal: str
    steps: Past

    def told(self, number: int) -> tuple[int, str, str]:
        """A step counted from 1: its number, its action, and what was seen after it."""
        return number, self.steps[number - 1][1], self.steps[number][0]

    def hidden(self, number: int) -> frozenset[Entity]:
        """What later steps show, and nothing up to what was seen after step `number`."""
        texts = [text for step in self.steps for text in step]
        by_then = 2 * number + 1
        shown = {entity for text in texts[:by_then] for entity in numbered(text)}
        later = {entity for text in texts[by_then:] for entity in numbered(text)}
        return frozenset(later - shown)


@dataclass(frozen=True, slots=True)
class Recounter:
    """Asks for the notes. aid: writes those on a step for which the model gives nothing usable."""

    asker: Asker
    aid: OfflineReasoner

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """The notes on what came before each of the steps; long courses in overlapping pieces.

        Before the first step nothing has happened, and nothing is asked but the sub-goals: by
        themselves, so that what was done later cannot slip into them.
        """
        course = _Course(goal, steps)
        written = [begun(self.split(goal))]
        for first in range(1, len(steps), PIECE):
            wanted = range(first, min(first + PIECE, len(steps)))
            written += self._piece(course, wanted, written[-1])
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

    def _piece(self, course: _Course, wanted: range, before: Notes) -> list[Notes]:
        """The notes after the steps `wanted`, counted from 1; before: those on the step before.

        A reply without use is asked for again in halves, and so is what the model has no room for;
        a single step falls back to the aid.
        """

        def ask(effort: float) -> Any:
            earlier = range(max(1, wanted[0] - OVERLAP), wanted[0])
            return self.asker.ask(
                "recount",
                notes_after(wanted[0], wanted[-1]),
                STEP_TOKENS * len(wanted),
                goal=shortened(course.goal, int(GOAL * effort)),
                sub_goals=before.sub_goals,
                before=standing(before) if before.found else "",
                earlier=[course.told(number) for number in earlier],
                steps=[course.told(number) for number in wanted],
                wanted=list(wanted),
                length=int(SHOWN * effort),
            ).value

        form = fitting_or_none(ask)
        if form is None and len(wanted) > 1:
            half = len(wanted) // 2
            first = self._piece(course, wanted[:half], before)
            return first + self._piece(course, wanted[half:], first[-1])
        entries = [None] if form is None else values(form)
        written = [before]
        for number, entry in zip(wanted, entries, strict=True):
            written.append(self._after(course, number, entry, written[-1]))
        return written[1:]

    def _after(self, course: _Course, number: int, entry: StepForm | None, before: Notes) -> Notes:
        """The notes after step `number`; an entry that speaks of another step says nothing."""
        _, action, seen = course.told(number)
        past = course.steps[:number]
        if entry is None:
            assessment = self.aid.assess(course.goal, past, seen)
            notes = after(before, assessment=assessment)
        elif matched(entry.action, (action[:WORDS],))[1] == "none":
            self.asker.tally.add("misplaced")
            notes = after(before)
        else:
            hidden = course.hidden(number)
            found, held = (self._known(said, hidden) for said in (entry.found, entry.held))
            assessment = progress(before.sub_goals, entry.complete)
            notes = after(before, found, held, assessment)
        return summarised(notes, self.aid, course.goal, past, seen)

    def _known(self, said: str, hidden: frozenset[Entity]) -> str:
        """What an entry says; "" where it names what was hidden then, for the call sees it all."""
        if hidden.isdisjoint(numbered(said)):
            return said
        self.asker.tally.add("unseen")
        return ""
