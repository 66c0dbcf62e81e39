"""The controllers that pursue a goal (DEPS, Eq. 1, Table 17): the environment itself, or a model.

If the card lists goals, one action names one, and the environment pursues it for a while. In all
other environments an executor, which thinks and acts, works on the goal and reports its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from ldm.agents.decomposition.handover import part_of, rule_of
from ldm.agents.executor import TaskOptions, task_work
from ldm.agents.loop import Loop, prompt_card
from ldm.deps.describe import answer_line, clock, held, progress
from ldm.deps.plans import Goal, listing
from ldm.deps.vocabulary import Vocabulary
from ldm.episode import Episode
from ldm.llm import LLM
from ldm.prompts import shortened

#: The outcome of pursuing a goal: done; to be pursued further; refused at once, without any effect;
#: tried in vain; timed out.
End = Literal["done", "unfinished", "refused", "failed", "out of patience"]
#: Characters of the last thought in the outcome of a goal.
_THOUGHT = 200


@dataclass(frozen=True, slots=True)
class Pursuit:
    """The outcome of pursuing a goal, and in words why it is not done."""

    end: End
    why: str = ""


@dataclass
class OwnController:
    """The environment's: a goal is one action, repeated while it is to be pursued further.

    For its methods see `Executor`. left: rank → the number of items still to get. spent: rank → the
    time taken so far.
    """

    episode: Episode
    vocabulary: Vocabulary
    left: dict[int, int] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    def begin(self) -> None:
        self.left.clear()
        self.spent.clear()

    def pursue(self, goal: Goal) -> Pursuit:
        card, reading = self.episode.card, self.episode.card.reading
        rest = replace(goal, count=self.left.get(goal.rank, goal.count))
        before = clock(self.episode.now.observation, reading)
        now = self.episode.act(self.vocabulary.action(rest))
        after = clock(now.observation, reading)
        if before and after:
            self.spent[goal.rank] = self.spent.get(goal.rank, 0) + after[0] - before[0]
        came = progress(now, reading)
        if came.reached:
            return Pursuit("done")
        if not now.valid:
            return Pursuit("refused", _answered(answer_line(card, now, whole=False)))
        if not came.left:
            return Pursuit("failed", _answered(answer_line(card, now, whole=False)))
        self.left[goal.rank] = came.left
        if self.spent.get(goal.rank, 0) >= self._patience(goal):
            answer = answer_line(card, now, whole=True)
            return Pursuit(
                "out of patience", f"It was not reached in {self.spent[goal.rank]} ticks. {answer}"
            )
        return Pursuit("unfinished")

    def held(self) -> str:
        counts = held(self.episode.now.observation, self.episode.card.reading)
        return "" if counts is None else listing(counts)

    def _patience(self, goal: Goal) -> float:
        known = self.episode.card.reading.patience
        return known.get(goal.name, known.get("", float("inf")))


@dataclass
class Executor:
    """A model: it thinks and acts, and reports when the goal is reached or cannot be (§A.1)."""

    episode: Episode
    llm: LLM
    options: TaskOptions
    steps: int

    def __post_init__(self) -> None:
        self._whole = replace(
            task_work(self.episode, self.options),
            steps=self.steps,
            judged=True,
            card=prompt_card(self.episode.card, self.options.card),
            actions=self.options.actions,
        )
        self._opening = self.episode.now.observation
        self._rule = rule_of(self.episode.card)
        self._carried = ""

    def begin(self) -> None:
        """Forget the goals of an earlier plan, but keep the handover."""

    def pursue(self, goal: Goal) -> Pursuit:
        """Pursue a goal until there is something to decide. Raise EpisodeOver if the trial ends."""
        opening = self._rule.beginning(self.episode, self._opening)
        work = part_of(self._whole, goal.words, self.episode, opening, self._carried)
        outcome = Loop(self.episode, self.llm, work, self.options).run()
        self._carried = self._rule.after(self.episode, outcome.steps, "", self._carried)
        if outcome.end == "completed":
            return Pursuit("done")
        thoughts = [step.thought for step in outcome.steps if step.thought]
        answer = answer_line(self.episode.card, self.episode.now, whole=True)
        why = f"Seen last: {answer}"
        if thoughts:
            why += f" Thought last: {shortened(thoughts[-1], _THOUGHT)}"
        if outcome.end == "budget":
            why = f"It was not reached in {self.steps} steps. {why}"
        return Pursuit("failed", why)

    def held(self) -> str:
        """Return the inventory in words; "" if observations do not tell."""
        return ""


#: The controller that pursues goals in a running trial.
Controller = OwnController | Executor


def _answered(line: str) -> str:
    return f"The answer was: {line}" if line else ""
