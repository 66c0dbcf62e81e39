"""The reasoner: what LDM² asks a language model for (§3, Table 4), as functions.

There are two: `ldm.reason.offline.OfflineReasoner`, which needs no model, and
`ldm.reason.prompted.PromptedReasoner`, which asks one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ldm.types import History, Past, Proposal, Recall

#: Characters of a past observation that a history keeps; all of it in ALFWorld.
PAST_OBSERVATION = 1_000
#: Members of a type that `classify_*` sees.
EXAMPLES = 3
#: Leading actions of a vote that a decision tells, for the record.
VOTES = 3
#: In `Reasoner.counts`: clusterings that the fallback (the offline reasoner) made, as the model's
#: were unusable. The name is in stored notes and has to stay.
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
    summary: what was searched, found and done (Eq. 6).
    sub_goals, checks, findings, held: what a model's assessment and summary are made of: the
        sub-goals in the order in which they get done; what is seen as soon as each is done, () or
        "" where nobody said; what each step brought, "" for nothing; what is held, chosen or made.
    proofs: for each complete sub-goal, what was seen that completed it.
    steps: after how many steps `held` and `proofs` were written.
    """

    assessment: str = ""
    summary: str = ""
    sub_goals: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    held: str = ""
    checks: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    steps: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """What a decision is made from: goal g, history h_τ, observation o_τ.

    admissible: the actions that are possible now; None where they are unknown or hidden.
    steps: how many steps were taken.
    opening: the first observation, in full, since it often says what no later one repeats
        (TextCraft's recipes); "" at the first step, and where the past is hidden.
    notes: the history in words; the next notes start from it.
    course: the past with all observations in full, where they are shown: histories cut them.
    steps_left: how many more may be taken, None where that is unknown.
    refused: whether the last action was refused.
    consulted: at how many of the steps a model was asked because memory was unsure.
    """

    goal: str
    history: History
    observation: str
    admissible: tuple[str, ...] | None = None
    steps: int = 0
    opening: str = ""
    notes: Notes = Notes()
    course: Past = ()
    steps_left: int | None = None
    refused: bool = False
    consulted: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision: actions, best first, and the notes that the next decision starts from.

    proposals: at least one; their confidences sum to at most 1.
    followed: for `act`, the places of the recalls that the action follows, in ascending order: of
        the actions that they can come to here, it is the one most like their own, or one of several
        (`voting.Poll.followers`). An action that no vote can come to follows those that name it
        word for word. None where that is unknown.
    reason: why a model was asked for it; "" where memory decided.
    votes: for `act`, the actions that the recalls vote for, most first, with their shares of all
        votes: the first `VOTES` of them. () where no recall fits.
    """

    proposals: tuple[Proposal, ...]
    notes: Notes = Notes()
    followed: tuple[int, ...] | None = None
    reason: str = ""
    votes: tuple[Proposal, ...] = ()

    @property
    def action(self) -> str:
        """The best action."""
        return self.proposals[0].action


@dataclass(frozen=True, slots=True)
class Process:
    """A decision process as `choose` sees it: without reward, and without why it ended.

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
    """What the recalled actions, carried over to the present state, agree on (LDM² §3.3).

    action: the one that most of them come to, "" where none fits the present state.
    share: its share of all votes, in [0, 1].
    recalls: how many recalls come to it.
    """

    action: str
    share: float
    recalls: int


class Reasoner(Protocol):
    """LDM²'s questions. All are pure: the same arguments give the same answer.

    name: recorded with what it wrote.
    recalls: how many tuples a decision should recall, unless the user says otherwise.
    concurrency: how many questions may be asked at a time, from several threads.
    It may also have `reads_notes`; where that is False, decisions do not depend on the notes of a
    state, and none are written for them. And `searching`, a reasoner that answers in its place
    where a search asks about very many states.
    """

    name: str
    recalls: int
    concurrency: int

    def counts(self) -> dict[str, int]:
        """Count what became of a model's replies so far, by name; empty where none is asked."""
        ...

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """Return, for each step (o_τ, a_τ) of a recorded trajectory, notes on the steps before."""
        ...

    def notes(self, goal: str, past: Past, observation: str, previous: Notes) -> Notes:
        """Return the notes that a decision starts from.

        previous: those of the decision before it in the same process (`Answer.notes`).
        """
        ...

    def assess(self, goal: str, past: Past, observation: str) -> str:
        """Return the sub-goals of `goal`, each marked complete or not (Appendix A, Evaluation)."""
        ...

    def summarize(self, goal: str, past: Past, observation: str) -> str:
        """Return the past in a short paragraph: searched, found, held, done (Eq. 6)."""
        ...

    def cluster_goals(self, goals: Sequence[str]) -> Clustering:
        """Divide distinct goals into high-level types of about equal size (Eq. 7)."""
        ...

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        """Divide distinct observations into high-level types of about equal size (Eq. 8)."""
        ...

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        """Return the index of the type that `goal` belongs to (Eq. 3)."""
        ...

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        """Return the index of the type that `observation` belongs to (Eq. 3)."""
        ...

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        """Return the next action, one proposal, in imitation of the recalled tuples (Eq. 2)."""
        ...

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """Return up to `z` distinct actions, best first, with confidences that sum to 1 (Eq. 9)."""
        ...

    def agree(self, state: State, recalls: Sequence[Recall]) -> Agreement:
        """Return how concentrated the recalled actions are, carried over to the present (§3.3)."""
        ...

    def follow(self, state: State, recalls: Sequence[Recall], agreed: Agreement) -> Answer:
        """Return the action that recalls agree on, with confidence 1, and the notes (§3.3)."""
        ...

    def compare(self, best: Process, ground: Process) -> int:
        """Return the key step: the index in `best` of what made it the better process (Eq. 10)."""
        ...

    def choose(self, processes: Sequence[Process]) -> int:
        """Return the index of the best of several decision processes (Eq. 5)."""
        ...


def shortened(past: Past) -> Past:
    """Return the past as histories hold it: observations cut to PAST_OBSERVATION characters."""
    return tuple((observation[:PAST_OBSERVATION], action) for observation, action in past)
