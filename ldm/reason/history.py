"""Histories of recorded trajectories, written by a model: notes on the past of every step.

The model is asked once for the sub-goals and once for every PIECE steps. The paper (LDM² §3.2,
Eq. 6) asks for an assessment and a summary of the whole past at every step, so that the cost of an
episode grows with the square of its length; here it grows with the length.

No question states the world's rules: a small model takes their words ("Nothing happens.") for
events. The card's outline and actions describe the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ldm.prompts import shortened
from ldm.reason import Notes
from ldm.reason.budget import Budget
from ldm.reason.excerpts import Passage, fitted
from ldm.reason.forms import WORDS, StepForm, SubGoalsForm, field_values, steps_form
from ldm.reason.offline import OfflineReasoner
from ldm.reason.progress import initial_notes, next_notes, progress_text, status_text, with_summary
from ldm.reason.reading import Words, numbered
from ldm.reason.replies import Prompter, fit_context_or_none, match_action
from ldm.reason.views import sub_goal_views
from ldm.types import Card, Past

#: Steps that one call writes notes on, and the number of earlier ones shown.
PIECE = 8
OVERLAP = 2
#: Characters of a goal that are shown, and of a question without the steps.
GOAL_LENGTH = 2000
OVERHEAD = 3000
#: Maximum tokens of the notes on a step, and of the sub-goals.
STEP_TOKENS = 120
GOAL_TOKENS = 320


@dataclass(frozen=True, slots=True)
class _Trajectory:
    """A trajectory to annotate. steps: (o_τ, a_τ)."""

    goal: str
    steps: Past

    def step(self, number: int) -> tuple[int, str, str]:
        """Return a step counted from 1: its number, its action, and the observation after it."""
        return number, self.steps[number - 1][1], self.steps[number][0]

    def excerpt(self, numbers: Sequence[int], room: int) -> list[tuple[int, str, str]]:
        """Return steps for a prompt, their observations within `room` characters in total."""
        steps = [self.step(number) for number in numbers]
        following = [self.steps[number][1] for number in numbers]
        passages = [Passage(s[2], action) for s, action in zip(steps, following, strict=True)]
        texts = fitted(passages, room - sum(len(s[1]) for s in steps), self.goal)
        return [(n, action, text) for (n, action, _), text in zip(steps, texts, strict=True)]

    def hidden(self, number: int) -> frozenset[Words]:
        """Return the entities that occur only later than the observation after step `number`."""
        texts = [text for step in self.steps for text in step]
        split = 2 * number + 1
        earlier = {entity for text in texts[:split] for entity in numbered(text)}
        later = {entity for text in texts[split:] for entity in numbered(text)}
        return frozenset(later - earlier)


@dataclass(frozen=True, slots=True)
class HistoryWriter:
    """Writes notes by asking a model; the fallback replaces unusable replies."""

    prompter: Prompter
    card: Card
    fallback: OfflineReasoner
    budget: Budget

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """Return, for each step (o_τ, a_τ), the notes on the steps before it.

        Long trajectories are annotated in overlapping pieces. Before the first step only the
        sub-goals are asked for, separately, so that no later action can slip into them.
        """
        trajectory = _Trajectory(goal, steps)
        notes = [self.begin(goal)]
        for first in range(1, len(steps), PIECE):
            numbers = range(first, min(first + PIECE, len(steps)))
            notes += self._piece(trajectory, numbers, notes[-1])
        return tuple(notes[: len(steps)])

    def begin(self, goal: str) -> Notes:
        """Return the notes before the first step: the sub-goals, in order, with their checks.

        If the model names none, the goal itself is the only one.
        """

        def ask(share: float) -> SubGoalsForm | None:
            excerpt = shortened(goal, int(GOAL_LENGTH * share))
            reply: SubGoalsForm | None = self.prompter.ask(
                "split", SubGoalsForm, GOAL_TOKENS, card=self.card, goal=excerpt
            ).value
            return reply

        form = fit_context_or_none(ask)
        parts = () if form is None else tuple(g for g in form.sub_goals if g.part.strip())
        if not parts:
            return initial_notes((goal,))
        checks = tuple(" ".join(g.check.split()).rstrip(".") for g in parts)
        return initial_notes(tuple(" ".join(g.part.split()) for g in parts), checks)

    def _piece(self, trajectory: _Trajectory, numbers: range, before: Notes) -> list[Notes]:
        """Return the notes after each of the steps `numbers`. before: on the step before.

        If the reply is unusable or the question too long for the model, each half is asked for
        separately; a single step is left to the fallback.
        """

        def ask(share: float) -> Any:
            earlier = range(max(1, numbers[0] - OVERLAP), numbers[0])
            room = self.budget.room(share) - OVERHEAD
            steps = trajectory.excerpt([*earlier, *numbers], room)
            return self.prompter.ask(
                "recount",
                steps_form(numbers[0], numbers[-1]),
                STEP_TOKENS * len(numbers),
                card=self.card,
                goal=shortened(trajectory.goal, int(GOAL_LENGTH * share)),
                sub_goals=sub_goal_views(before),
                before=status_text(before) if before.findings else "",
                earlier=steps[: len(earlier)],
                steps=steps[len(earlier) :],
                wanted=list(numbers),
            ).value

        form = fit_context_or_none(ask)
        if form is None and len(numbers) > 1:
            half = len(numbers) // 2
            first = self._piece(trajectory, numbers[:half], before)
            return first + self._piece(trajectory, numbers[half:], first[-1])
        entries = [None] if form is None else field_values(form)
        notes = [before]
        for number, entry in zip(numbers, entries, strict=True):
            notes.append(self._after_step(trajectory, number, entry, notes[-1]))
        return notes[1:]

    def _after_step(
        self, trajectory: _Trajectory, number: int, entry: StepForm | None, before: Notes
    ) -> Notes:
        """Return the notes after step `number`; an entry about another step is ignored."""
        _, action, observation = trajectory.step(number)
        past = trajectory.steps[:number]
        if entry is None:
            assessment = self.fallback.assess(trajectory.goal, past, observation)
            notes = next_notes(before, assessment=assessment)
        elif match_action(entry.action, (action[:WORDS],))[1] == "none":
            self.prompter.counts.add("misplaced")
            notes = next_notes(before)
        else:
            hidden = trajectory.hidden(number)
            finding, held = (self._if_visible(text, hidden) for text in (entry.found, entry.held))
            assessment = progress_text(before.sub_goals, entry.complete)
            notes = next_notes(before, finding, held, assessment)
        return with_summary(notes, self.fallback, trajectory.goal, past, observation)

    def _if_visible(self, text: str, hidden: frozenset[Words]) -> str:
        """Return `text`, or "" if it names something still hidden: the question shows all steps."""
        if hidden.isdisjoint(numbered(text)):
            return text
        self.prompter.counts.add("unseen")
        return ""
