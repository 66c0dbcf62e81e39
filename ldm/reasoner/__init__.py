"""What LDM² asks a language model for, as functions (arXiv 2312.08402, §3, Table 4).

Two implementations: `OfflineReasoner`, which needs no model service, and a prompted one.
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


@dataclass(frozen=True, slots=True)
class Clustering:
    """A partition of n items into named types (LDM² Eq. 7–8).

    names: one per type, unique.
    assignment: for each of the n items the index of its type.
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
        """The type with these members; vectors: (n, dimension), n of at least 1."""
        centroid = vectors.mean(axis=0)
        centroid /= max(float(np.linalg.norm(centroid)), 1e-12)
        return cls(name, tuple(dict.fromkeys(texts))[:EXAMPLES], centroid)


@dataclass(frozen=True, slots=True)
class Notes:
    """What a reasoner holds of the past in words: the part of h_τ that it writes itself.

    assessment: the sub-goals, each complete or not. summary: what was searched, found, done
    (Eq. 6). A model's are made of these: sub_goals, in the order in which they get done; found:
    what each step brought, "" for nothing; held: what is held, chosen or made.
    """

    assessment: str = ""
    summary: str = ""
    sub_goals: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    held: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What a decision is made from: goal g, history h_τ, observation o_τ.

    admissible: the actions that are possible now, None where unknown or not shown.
    steps: how many steps were taken.
    opening: what was seen first, all of it, since it often says what no later observation repeats
    (TextCraft's recipes); "" at the first step, and where the past is not to be seen.
    notes: what the history says in words; it stays so where nobody writes anything new.
    """

    goal: str
    history: History
    observation: str
    admissible: tuple[str, ...] | None = None
    steps: int = 0
    opening: str = ""
    notes: Notes = Notes()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a decision comes to: actions, best first, and the notes that the next one starts from.

    proposals: at least one; their confidences sum to at most 1.
    """

    proposals: tuple[Proposal, ...]
    notes: Notes = Notes()

    @property
    def action(self) -> str:
        return self.proposals[0].action


@dataclass(frozen=True, slots=True)
class Process:
    """A decision process as `choose` sees it: no reward, and nothing on why it ended.

    steps: (action, what was seen after it). confidences: one per action.
    """

    goal: str
    opening: str
    steps: tuple[tuple[str, str], ...]
    confidences: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the recalled actions, carried over to the present state, agree on (LDM² §3.3).

    action: the one that most of them come to, "" where none fits the present state.
    share: of all recalls' say, in [0, 1]. recalls: how many of them come to it.
    """

    action: str
    share: float
    recalls: int


class Reasoner(Protocol):
    """LDM²'s questions. All are pure: the same arguments give the same answer.

    recalls: how many tuples a decision should recall, unless the user says otherwise.
    concurrency: how many questions may be asked at a time, from several threads.
    """

    name: str
    recalls: int
    concurrency: int

    def counts(self) -> dict[str, int]:
        """What became of a model's replies so far, by name; empty where none is asked."""
        ...

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """For each step (o_τ, a_τ) of a recorded trajectory the notes on the steps before it."""
        ...

    def notes(self, goal: str, past: Past, observation: str, kept: Notes) -> Notes:
        """The notes that a decision starts from; kept: those that the decision before it left."""
        ...

    def assess(self, goal: str, past: Past, observation: str) -> str:
        """The sub-goals of `goal`, each marked complete or incomplete (Evaluation)."""
        ...

    def summarize(self, goal: str, past: Past, observation: str) -> str:
        """The past in one short paragraph: searched, found, held, done (Summarization, Eq. 6)."""
        ...

    def cluster_goals(self, goals: Sequence[str]) -> Clustering:
        """High-level types of distinct goals, of about equal size (Cluster, Eq. 7)."""
        ...

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        """High-level types of distinct observations, of about equal size (Cluster, Eq. 8)."""
        ...

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        """The index of the type that `goal` belongs to (Index, Eq. 3)."""
        ...

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        """The index of the type that `observation` belongs to (Index, Eq. 3)."""
        ...

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        """The next action, one proposal, imitating the recalled tuples (Action, Eq. 2)."""
        ...

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """Up to `z` distinct actions, most confident first, confidences summing to 1 (Eq. 9)."""
        ...

    def agree(self, state: State, recalls: Sequence[Recall]) -> Agreement:
        """How concentrated the recalled actions are, once carried over to the present (§3.3)."""
        ...

    def compare(self, best: Process, ground: Process) -> int:
        """The index of the key step where the better process departs from the ground (Eq. 10)."""
        ...

    def choose(self, processes: Sequence[Process]) -> int:
        """The index of the best of several decision processes (Eq. 5)."""
        ...


def shortened(past: Past) -> Past:
    """The past as a history keeps it: long observations cut off."""
    return tuple((seen[:PAST_OBSERVATION], action) for seen, action in past)
