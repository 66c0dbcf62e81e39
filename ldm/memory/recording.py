"""Recording an episode step by step; each step is on the disk when its call returns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ldm.errors import LdmError
from ldm.memory.exact import texts_of
from ldm.memory.log import MAX_TEXT, Begin, Episodes, Finish, Rate, StepTaken, present
from ldm.types import Labels, Recall, Trajectory, encodable

if TYPE_CHECKING:
    from ldm.memory.growing import GrowingMemory

#: Texts, and JSON values, which are kept as their JSON text.
Content = str | dict[str, Any] | list[Any]


def plain_text(role: str, content: Content) -> str:
    """Return content as a text that can be kept: JSON for values, no half of a character.

    Raises TypeError for something else, ValueError if it is too long.
    """
    if isinstance(content, dict | list):
        try:
            content = json.dumps(content, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"the {role} is not a JSON value: {error}") from error
    if not isinstance(content, str):
        raise TypeError(f"the {role} must be a text, a dict or a list, not {content!r:.100}")
    if len(content) > MAX_TEXT:
        raise ValueError(
            f"the {role} has {len(content):,} characters, more than {MAX_TEXT:,}: shorten it"
        )
    return encodable(content)


def labels(role: str, given: Mapping[str, str] | None) -> Labels:
    """Return scope or tags as sorted pairs; raise TypeError if they are not texts."""
    pairs = (given or {}).items()
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in pairs):
        raise TypeError(f"the {role} must map texts to texts, not {given!r:.100}")
    return tuple(sorted((encodable(name), encodable(value)) for name, value in pairs))


class Recording:
    """An episode in progress: `step` records each action, `finish` the end.

    id: names the episode for `resume`, `feedback`, `correct` and `forget`. scope: whom it belongs
        to. finished: whether its end is recorded.
    """

    def __init__(self, memory: GrowingMemory, first: Begin, steps: list[StepTaken]) -> None:
        """Take what the log holds of the episode; `GrowingMemory.begin` makes it."""
        self.id = first.episode
        self.goal = first.task.goal
        self.scope = dict(first.scope)
        self.steps = steps
        self.finished = False
        self._memory = memory
        self._first = first
        self._ends: list[Finish] = []

    def step(
        self,
        observation: Content,
        action: Content,
        reward: float | None = None,
        followed: Recall | None = None,
        possible: Iterable[str] | None = None,
    ) -> None:
        """Record an observation and the action that followed it, durably.

        reward: in [-1, 1]; the sum of rewards is the score. None if it is not known (`finish`).
        followed: the recall that the action was based on, if any: the episode's score adds to its
            evidence.
        possible: the actions that could have been taken, if they are known: what is learnt from an
            action depends on what was refused for it.

        Raises TypeError or ValueError for what cannot be kept (the other steps stay), LdmError
        after the end, MemoryStoreError if the log cannot be written.
        """
        self._check_running()
        observed, done = plain_text("observation", observation), plain_text("action", action)
        if not done.strip():
            raise ValueError("the action of a step must not be empty")
        if reward is not None and not -1 <= reward <= 1:
            raise ValueError("a reward is a number from -1 to 1")
        # A step that repeats a tuple adds to its evidence by itself.
        based = followed is not None and texts_of(followed.tuple) != (self.goal, observed, done)
        ids = (followed.id,) if followed is not None and based else ()
        listed = None if possible is None else tuple(plain_text("action", one) for one in possible)
        one = StepTaken(self.id, observed, done, reward, ids, present(), listed)
        self._memory._append([one])
        self.steps.append(one)

    def finish(self, score: float | None = None, observation: Content = "") -> None:
        """Record the end of the episode, which is recalled from now on.

        score: in [0, 1], 1 for a success and 0 for a failure; None for the sum of the rewards.
        observation: the one after the last action.

        Raises ValueError for another score, LdmError if there is neither a score nor a reward.
        """
        self._check_running()
        if score is not None and not 0 <= score <= 1:
            raise ValueError("a score is a number from 0 to 1")
        rewards = [one.reward for one in self.steps]
        if score is None and all(reward is None for reward in rewards):
            raise LdmError(
                f"The episode {self.goal!r} ended without a score or a reward.",
                "Give a step its reward, or call finish(score=1) for a success and"
                " finish(score=0) for a failure.",
            )
        total = round(sum(reward or 0.0 for reward in rewards), 9)
        earned = min(1.0, max(0.0, total)) if score is None else float(score)
        end = Finish(self.id, earned, plain_text("observation", observation), present())
        followed = dict.fromkeys(name for one in self.steps for name in one.followed)
        rated = [Rate(tuple(followed), 2 * earned - 1, end.time)] if followed else []
        self._memory._embed(sorted({self.goal, *(one.observation for one in self.steps)}))
        self._memory._append([end, *rated])
        self.finished = True
        self._ends.append(end)
        self._memory._fold_when_full()

    def trajectory(self) -> Trajectory | None:
        """Return the episode; None if it is not finished or has no step."""
        return next(iter(Episodes().take([self._first, *self.steps, *self._ends]).values()), None)

    def _check_running(self) -> None:
        if self.finished or self.id not in self._memory._current().episodes.running:
            over = f"The episode {self.goal!r} is finished or forgotten."
            raise LdmError(over, "Begin another one with `begin`.")
