"""Credit for key steps: did that step earn more, or was it luck?

An improvement is the part of a better way from its key step on (LDM² §3.3). Two questions are asked
before it may join the memory. On its own goal: does the key action earn more than its siblings, the
other actions that the memory proposes in that state, each followed by greedy decisions? On goals
like it: does the same action, at the most similar step of their own greedy attempt, earn more than
that attempt?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from ldm.types import StateActionTuple, Task, Trajectory

#: The number of sibling actions with which a key step is compared.
SIBLINGS = 3


@dataclass(frozen=True, slots=True)
class Check:
    """A key step to be tried on a goal, its own or another.

    key: the tuple of the key step. ground: the greedy attempt at another goal; None for its own.
    """

    index: int
    task: Task
    key: StateActionTuple
    ground: Trajectory | None = None

    def failed(self, error: str) -> Checked:
        return Checked(self.index, self.task.id, self.key.trajectory_id, error=error)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a key-step check.

    trajectory: of the key step. action: the action tried, "" if there was nothing to compare: no
    sibling, or the other goal's attempt did the same. score: with it. others: the alternatives
    with their scores. error: the traceback of a check that failed; it decides nothing.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    index: int
    task: str
    trajectory: str
    action: str = ""
    score: float = 0.0
    others: tuple[tuple[str, float], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The results of all checks of a key step.

    won, lost: attempts that earned less and more than it. siblings: how many of them were siblings;
    outdone: how many siblings earned less. gain: the mean difference on other goals, 0 without any.
    """

    won: int
    lost: int
    siblings: int
    outdone: int
    gain: float

    @classmethod
    def of(cls, checked: Iterable[tuple[Check, Checked]]) -> Confirmation:
        """Sum up the checks of one key step."""
        won = lost = siblings = outdone = 0
        gains: list[float] = []
        for check, one in checked:
            differences = [round(one.score - score, 9) for _, score in one.others]
            won += sum(difference > 0 for difference in differences)
            lost += sum(difference < 0 for difference in differences)
            if check.ground is None:
                siblings += len(differences)
                outdone += sum(difference > 0 for difference in differences)
            else:
                gains += differences
        return cls(won, lost, siblings, outdone, sum(gains) / len(gains) if gains else 0.0)

    @property
    def refused(self) -> str:
        """Why the key step counts as luck; "" if it does not."""
        if self.siblings and not self.outdone:
            return f"its key step earns no more than {self.siblings} other actions in its place"
        if self.gain < 0:
            return f"its key step, taken on goals like it, loses {-self.gain:.3f}"
        return ""


def likeness(text: str, other: str) -> float:
    """Return the share of words that two texts have in common, from 0 to 1."""
    words, others = Counter(text.lower().split()), Counter(other.lower().split())
    return (words & others).total() / max(1, (words | others).total())


def corresponding_step(ground: Trajectory, observation: str) -> int:
    """Return the index of the action of an attempt before which the observation is most similar."""
    similarities = [likeness(before, observation) for _, before, _ in ground.states()]
    return max(range(len(similarities)), key=lambda step: (round(similarities[step], 9), -step))
