"""One decision of LDM² (§3.1): observe → history → retrieve → act or propose.

The agent and the tree explorer both decide here, so they see the same histories and the same
recalls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ldm.memory import Memory
from ldm.reasoner import Answer, Notes, Reasoner, State, shortened
from ldm.reasoner.prompted import PROMPT_RECALLS, Candidates, PromptedOptions
from ldm.types import History, Past, Proposal, Recall, stable_seed

#: One recall alone is no agreement.
AGREEING = 2

HistoryMode = Literal["full", "summary", "actions", "none"]
Control = Literal["", "random", "none"]


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """How a decision is made.

    k: tuples recalled; 0 for as many as the reasoner wants (60 offline, 5 in a prompt as in the
    paper). history: what of h_τ the decision sees. batches: batch memories of the
    goal's kind that may be searched, 0 for all. control: "random" recalls tuples at random, "none"
    recalls nothing: what memory is worth. index: who says which types a state belongs to, the
    nearest centroid ("embedding") or the reasoner ("llm"). rank_history: rank what is recalled by
    the likeness of its history, too. candidates: "vote" shows a model what the recalls vote for,
    as many as a vote wants, of which k are shown; without a model k has no effect then.
    """

    k: int = 0
    history: HistoryMode = "full"
    batches: int = 0
    control: Control = ""
    index: Literal["embedding", "llm"] = "embedding"
    rank_history: bool = False
    candidates: Candidates = "none"

    def __post_init__(self) -> None:
        if self.k < 0 or self.batches < 0:
            raise ValueError("k and batches are 0 or more")

    def prompted(self, concurrency: int = 1) -> PromptedOptions:
        """How a model is asked, for decisions made in this way."""
        return PromptedOptions(
            candidates=self.candidates,
            notes=self.history in {"full", "summary"},
            recalls=self.k or PROMPT_RECALLS,
            concurrency=concurrency,
        )


@dataclass(frozen=True, slots=True)
class Observed:
    """What a decision is about.

    kept: the notes that the decision before it in the same process left. key: seeds what is random.
    localize: see `Environment.localize`.
    """

    goal: str
    past: Past
    observation: str
    admissible: tuple[str, ...] | None
    kept: Notes = Notes()  # noqa: RUF009 - frozen
    key: str = ""
    localize: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Decision:
    """Proposals, best first, and the recalls they rest on (in the present task's words).

    notes: what the process's next decision starts from.
    """

    proposals: tuple[Proposal, ...]
    recalls: tuple[Recall, ...]
    notes: Notes = Notes()  # noqa: RUF009 - frozen

    @property
    def action(self) -> str:
        return self.proposals[0].action

    @property
    def used(self) -> tuple[tuple[str, float], ...]:
        """(tuple id, similarity) of the recalls, for the record."""
        return tuple((recall.tuple.id, recall.similarity) for recall in self.recalls)


class Policy:
    """Decides from a memory and a reasoner. It holds no state of any episode."""

    def __init__(
        self, memory: Memory, reasoner: Reasoner, options: PolicyOptions, seed: int = 0
    ) -> None:
        self._memory = memory
        self._reasoner = reasoner
        self._options = options
        self._seed = seed

    def batches(self, goal: str) -> tuple[str, ...]:
        """Ids of the batch memories that decisions about `goal` may search."""
        return self._memory.batches_for(goal, self._options.batches)

    def decide(self, now: Observed, batches: Sequence[str]) -> Decision:
        """The next action, from the memories in `batches` (Eq. 2)."""
        state, recalls = self._seen(now, batches)
        return _decision(self._reasoner.act(state, recalls), recalls)

    def propose(self, now: Observed, batches: Sequence[str], z: int) -> Decision:
        """Up to `z` actions with confidences, from the memories in `batches` (Eq. 9)."""
        state, recalls = self._seen(now, batches)
        return _decision(self._reasoner.propose(state, recalls, z), recalls)

    def branch(
        self, now: Observed, batches: Sequence[str], z: int, concentration: float
    ) -> Decision:
        """The actions that a tree explorer tries (§3.3); whether they can be done, it will see.

        Where the recalls agree, at least two of them and with a share of `concentration` or more,
        their action alone, with confidence 1; else what `propose` gives. A concentration above 1
        is never reached.
        """
        state, recalls = self._seen(now, batches)
        agreed = self._reasoner.agree(state, recalls)
        if agreed.recalls >= AGREEING and agreed.share >= concentration:
            return Decision((Proposal(agreed.action, 1.0),), recalls, state.notes)
        return _decision(self._reasoner.propose(state, recalls, z), recalls)

    def state(self, now: Observed) -> State:
        """What the reasoner sees of the present: goal, history as configured, observation."""
        past, mode = shortened(now.past), self._options.history
        notes = Notes()
        if mode == "none":
            history = History()
        elif mode == "actions":
            history = History(past=tuple(("", action) for _, action in past))
        else:
            notes = self._reasoner.notes(now.goal, past, now.observation, now.kept)
            history = History(notes.assessment, notes.summary, past if mode == "full" else ())
        opening = now.past[0][0] if now.past and mode == "full" else ""
        return State(now.goal, history, now.observation, now.admissible, len(past), opening, notes)

    def _seen(self, now: Observed, batches: Sequence[str]) -> tuple[State, tuple[Recall, ...]]:
        state = self.state(now)
        return state, self.recall(now, batches, state.history.told)

    def recall(
        self, now: Observed, batches: Sequence[str], history: str = ""
    ) -> tuple[Recall, ...]:
        """The tuples that fit, or the control's, in the words of the present task.

        history: the present one, for options that rank by it.
        """
        options = self._options
        k = self._reasoner.recalls if options.candidates == "vote" else options.k
        k = k or self._reasoner.recalls
        if options.control == "none":
            return ()
        if options.control == "random":
            found = self._memory.sample(k, stable_seed(self._seed, now.key, len(now.past)))
        else:
            classifier = self._reasoner if options.index == "llm" else None
            found = self._memory.retrieve(
                now.goal,
                now.observation,
                k,
                batches=batches,
                classifier=classifier,
                history=history if options.rank_history else "",
            )
        return tuple(_localized(recall, now.localize) for recall in found)


def _decision(answer: Answer, recalls: tuple[Recall, ...]) -> Decision:
    return Decision(answer.proposals, recalls, answer.notes)


def _localized(recall: Recall, localize: Callable[[str], str]) -> Recall:
    source = recall.tuple
    action, observation = localize(source.action), localize(source.observation)
    history = History(
        localize(source.history.assessment),
        localize(source.history.summary),
        tuple((localize(seen), localize(done)) for seen, done in source.history.past),
    )
    if (action, observation, history) == (source.action, source.observation, source.history):
        return recall
    local = replace(source, action=action, observation=observation, history=history)
    return replace(recall, tuple=local)
