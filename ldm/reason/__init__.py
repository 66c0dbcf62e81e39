"""The reasoner: the questions of LDM² to a language model (§3, Table 4), as functions.

`ldm.reason.offline.OfflineReasoner` answers them without a model,
`ldm.reason.prompted.PromptedReasoner` asks one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ldm.types import History, Past, Proposal, Recall, by_number

if TYPE_CHECKING:
    from ldm.reason.relevance import Relevance

#: Characters of a past observation that a history keeps: all of one in ALFWorld.
PAST_OBSERVATION = 1_000
#: Members of a type that `classify_*` sees.
EXAMPLES = 3
#: In `Reasoner.counts`: clusterings made by the offline reasoner, as the model's were unusable.
TYPES_BY_FALLBACK = "types by the aid"


@dataclass(frozen=True, slots=True)
class Clustering:
    """A partition of n items into named types (LDM² Eq. 7–8).

    names: one per type, unique.
    assignment: for each of the n items, the index of its type.
    """

    names: tuple[str, ...]
    assignment: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TypeView:
    """A type as `classify_*` sees it: its name, a few members, and its centroid (dimension,)."""

    name: str
    examples: tuple[str, ...]
    centroid: np.ndarray

    @classmethod
    def of(cls, name: str, texts: Sequence[str], vectors: np.ndarray) -> TypeView:
        """Return the type with these n members (n ≥ 1); vectors: (n, dimension)."""
        centroid = vectors.mean(axis=0)
        centroid /= max(float(np.linalg.norm(centroid)), 1e-12)
        return cls(name, tuple(dict.fromkeys(texts))[:EXAMPLES], centroid)


@dataclass(frozen=True, slots=True)
class Notes:
    """The part of the history h_τ that a reasoner writes: the past in words.

    assessment: the sub-goals, each complete or not (the paper's Evaluation).
    summary: searched, found and done so far (Eq. 6).
    """

    assessment: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The input of a decision: goal g, history h_τ, observation o_τ.

    history: its past is without the actions that were refused, and `observation` no refusal, unless
        questions are the paper's: memory knows little of refusals.
    admissible: the possible actions, or None if they are unknown or hidden.
    refused: the actions that were refused since the last one that was not: they would be again.
    led: whether a model decided the step before. plan: the actions that it named to follow that.
    kind: of the task, "" if it is not known, or as the memory tells it from the goal.
    steps_left: the number of steps left in the trial, or None if there is no limit.
    course, latest: the past and the latest observation, refusals included; left out, they are those
        of the history and `observation`.
    key: seeds random recalls. localize: see `Environment.localize`.
    opening: the first observation, in full, since later ones seldom repeat it (TextCraft's
        recipes); "" at the first step, and if the past is hidden.
    rules: what the memory teaches about such states, in words, the most telling first.
    example, demonstration: a recorded task like this one, and what was done for it, to its end.
    """

    goal: str
    history: History
    observation: str
    admissible: tuple[str, ...] | None = None
    refused: tuple[str, ...] = ()
    led: bool = False
    plan: tuple[str, ...] = ()
    kind: str = ""
    steps_left: int | None = None
    course: Past = ()
    latest: str = ""
    key: str = ""
    localize: Callable[[str], str] = str
    opening: str = ""
    rules: tuple[str, ...] = ()
    example: str = ""
    demonstration: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision: actions, best first.

    proposals: at least one; their confidences sum to at most 1.
    followed: for `act`, the places of the recalls that the action follows, in ascending order:
        their own actions have its form, with things that play the same parts. None if unknown.
    reason: why a model decided; "" if memory did.
    votes: for `act`, the first actions of the vote with their shares; () without a vote.
    plan: for `act`, what a model wants done next.
    recalls: what it rests on, in the words of the current task, if `ldm.policy` decided.
    """

    proposals: tuple[Proposal, ...]
    followed: tuple[int, ...] | None = None
    reason: str = ""
    votes: tuple[Proposal, ...] = ()
    plan: tuple[str, ...] = ()
    recalls: tuple[Recall, ...] = ()

    @property
    def action(self) -> str:
        """The best action."""
        return self.proposals[0].action

    @property
    def used(self) -> tuple[tuple[str, float], ...]:
        """The (tuple id, similarity) of the recalls, for the record."""
        return tuple((recall.id, recall.similarity) for recall in self.recalls)


@dataclass(frozen=True, slots=True)
class Process:
    """A decision process as `choose` sees it: without its reward and the cause of its end.

    opening: the first observation.
    steps: (action, observation after it).
    confidences: one per action, in [0, 1].
    """

    goal: str
    opening: str
    steps: tuple[tuple[str, str], ...]
    confidences: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of the recalled actions, carried over to the present state (LDM² §3.3).

    action: the one with most votes, "" if none fits the present state.
    share: its share of all votes, in [0, 1].
    recalls: the number of recalls that support it.
    alike: other actions that nothing tells apart from it; the share is of all of them.
    """

    action: str
    share: float
    recalls: int
    alike: tuple[str, ...] = ()

    @property
    def each(self) -> float:
        """The share of one of its actions."""
        return self.share / (1 + len(self.alike))

    @property
    def text(self) -> str:
        """All its actions in a line: "take cup 1, 2 from desk 1", "go to desk 1, bed 1"."""
        names = [one.split(" ") for one in (self.action, *sorted(self.alike, key=by_number))]
        same = len([*takewhile(lambda words: len({*words}) == 1, zip(*names, strict=False))])
        first, *others = (one[same:] for one in names)
        numbered = same > 1 and first[1:]
        if numbered and all(one[:1] + first[1:] == one and one[0].isdigit() for one in others):
            numbers = ", ".join(one[0] for one in (first, *others))
            return " ".join([*names[0][:same], numbers, *first[1:]])
        rest = (" ".join(one) for one in others)
        return ", ".join((self.action, *(sorted(self.alike) if "[" in self.action else rest)))


class Reasoner(Protocol):
    """The questions of LDM². All are pure: the same arguments give the same answer.

    name: recorded with its answers.
    recalls: the number of tuples that a decision recalls by default.
    concurrency: the maximum number of simultaneous questions, from several threads.
    prompted: whether decisions are prompted with notes, rules and recalls. If not, once a memory
        has taught the reasoner, they depend on none of these.
    """

    name: str
    recalls: int
    concurrency: int
    prompted: bool

    def taught(self, relevance: Relevance) -> Reasoner:
        """Return the reasoner that decides by what a memory teaches."""

    @property
    def searching(self) -> Reasoner:
        """The reasoner for the decisions of a search, which asks about very many states."""

    def counts(self) -> dict[str, int]:
        """Return counts on a model's replies so far, by name; empty without a model."""

    def annotate(self, goal: str, steps: Past) -> tuple[Notes | None, ...]:
        """Return, for each step (o_τ, a_τ) of a recorded trajectory, notes on the steps before.

        None for a step that is not worth a tuple.
        """

    def notes(self, goal: str, past: Past) -> Notes:
        """Return the notes that a decision starts from."""

    def cluster_goals(self, goals: Sequence[str]) -> Clustering:
        """Divide distinct goals into high-level types of about equal size (Eq. 7)."""

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        """Divide distinct observations into high-level types of about equal size (Eq. 8)."""

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        """Return the index of the type that `goal` belongs to (Eq. 3)."""

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        """Return the index of the type that `observation` belongs to (Eq. 3)."""

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        """Return the next action, one proposal, in imitation of the recalled tuples (Eq. 2)."""

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """Return up to `z` distinct actions, best first, with confidences that sum to 1 (Eq. 9)."""

    def agree(self, state: State, recalls: Sequence[Recall]) -> Agreement:
        """Return the agreement of the recalled actions, carried over to the present (§3.3)."""

    def follow(self, state: State, recalls: Sequence[Recall], agreed: Agreement) -> Answer:
        """Return the action that recalls agree on, with confidence 1 (§3.3)."""

    def compare(self, best: Process, ground: Process) -> int:
        """Return the key step: the index of the step that made `best` the better one (Eq. 10)."""

    def choose(self, processes: Sequence[Process]) -> int:
        """Return the index of the best of several decision processes (Eq. 5)."""


def shortened(past: Past) -> Past:
    """Return the past with observations cut to PAST_OBSERVATION characters, as in histories."""
    return tuple((observation[:PAST_OBSERVATION], action) for observation, action in past)
