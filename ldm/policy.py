"""One decision of LDM² (§3.1): observe → history → retrieve → act or propose.

The agent and the tree explorer share this module, so they see the same histories and recalls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Annotated, Any, Literal

from ldm.errors import LdmError
from ldm.memory import Memory
from ldm.reason import Answer, Notes, Reasoner, State, shortened
from ldm.reason.budget import LEAST_TOKENS
from ldm.reason.consulting import CERTAINTY, NEAR, SHARE, Consult, Consulting
from ldm.reason.prompted import (
    PROMPT_RECALLS,
    Candidates,
    Histories,
    PromptedOptions,
    Thought,
)
from ldm.types import History, Past, Proposal, Recall, StateActionTuple, stable_seed

#: A single recall cannot agree with others.
MIN_AGREEING = 2
#: Tuples whose translations are cached.
TRANSLATIONS = 20_000
#: Situations whose recalls are cached: a search comes to the same sight of one goal again.
RECALLED = 1_000

#: Kinds of the notes of a trial that say how its recalls voted, and why a model was asked.
VOTES, CONSULTED = "votes", "consulted"

HistoryMode = Literal["full", "summary", "actions", "none"]
Control = Literal["", "random", "none"]


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """How a decision is made.

    k: 0 is 60 offline, and 20 for a prompt, which shows 5 as in the paper's Table 5. history
    (Eq. 6): assessment and summary ("summary"), past steps besides ("full") or alone ("actions").
    batches: Fig. 3. control: measures the value of memory (ours). index: what classifies a state
    (Eq. 3), the nearest centroid ("embedding", ours) or the reasoner. candidates: "vote" recalls as
    many tuples as a vote needs; without a model k has no effect then. share: 1 for no bound.
    prompt_tokens: 0 for the model's context; what a decision refers to is cut last. histories:
    "paper" asks for an assessment and a summary before each decision (Eq. 6). Ours: rank_history,
    candidates, recall, outcomes, share, prompt_tokens, thought, histories and all after them.
    """

    k: Annotated[int, "Tuples recalled; 0 for as many as the reasoner wants"] = 0
    history: Annotated[HistoryMode, "Parts of the history that a decision sees"] = "full"
    batches: Annotated[int, "Batch memories of the goal's kind to search; 0 for all"] = 0
    control: Annotated[Control, "Recall tuples at random, or none, as a control"] = ""
    index: Annotated[Literal["embedding", "llm"], "Classifier of states"] = "embedding"
    rank_history: Annotated[bool, "Rank recalls by the similarity of histories, too"] = False
    candidates: Annotated[Candidates, "Show a model what the recalls vote for"] = "none"
    recall: Annotated[
        Literal["similarity", "utility"], "Rank tuples by similarity, or also by utility"
    ] = "similarity"
    outcomes: Annotated[bool, "Let outcomes count in votes and prompts"] = True
    share: Annotated[float, "Share of steps that may recall one tuple added by refinement"] = 0.5
    prompt_tokens: Annotated[int, "Maximum tokens of a prompt; 0 for the model's context"] = 0
    thought: Annotated[Thought, "Let a model think before it decides"] = "none"
    histories: Annotated[Histories, "Note histories with a decision, or ask first"] = "combined"
    consult: Annotated[Consult, "When a decision asks a model"] = "always"
    certainty: Annotated[float, "Minimum share of votes for memory to count as sure"] = CERTAINTY
    near: Annotated[float, "Minimum similarity of the nearest recall for that"] = NEAR
    consult_share: Annotated[float, "Maximum share of steps that ask a model if unsure"] = SHARE

    def __post_init__(self) -> None:
        if self.k < 0 or self.batches < 0:
            raise ValueError("k and batches are 0 or more")
        if not 0 < self.share <= 1:
            raise ValueError("share is above 0 and at most 1")
        if not 0 < self.consult_share <= 1:
            raise ValueError("consult_share is above 0 and at most 1")
        if not (0 <= self.certainty <= 1 and -1 <= self.near <= 1):
            raise ValueError("certainty is in [0, 1] and near in [-1, 1]")
        if 0 != self.prompt_tokens < LEAST_TOKENS:
            raise ValueError(
                f"prompt_tokens is {LEAST_TOKENS} or more, or 0 for what the context has room for"
            )

    @staticmethod
    def with_model(given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a new run with a language model takes beside the options that are given.

        A model is asked where memory is unsure; in the paper's way it writes each step's history.
        """
        paper = given.get("histories") == "paper"
        return {} if "consult" in given or paper else {"consult": "unsure"}

    def check(self, memory: Memory) -> None:
        """Raise LdmError where the memory lacks what these options need."""
        if self.recall == "utility" and not memory.record.utilities:
            raise LdmError(
                f"Generation {memory.generation} of the memory of {memory.env} knows no utilities, "
                "so tuples cannot be recalled by them.",
                "Learn them from runs on training tasks: ldm memory credit RUN --utilities.",
            )

    def prompted(self, concurrency: int = 1) -> PromptedOptions:
        """Return how a model is prompted for such decisions."""
        return PromptedOptions(
            candidates=self.candidates,
            notes=self.history in {"full", "summary"},
            recalls=self.k or PROMPT_RECALLS,
            concurrency=concurrency,
            prompt_tokens=self.prompt_tokens,
            thought=self.thought,
            histories=self.histories,
            consulting=Consulting(self.consult, self.certainty, self.near, self.consult_share),
        )


@dataclass(frozen=True, slots=True)
class Memo:
    """What a decision hands to the next one of the same process.

    notes: what the next one starts from. recalled: id of a tuple that came with a refinement → in
    how many steps of the process it was recalled. consulted: see `State.consulted`.
    """

    notes: Notes = Notes()  # noqa: RUF009 - frozen
    recalled: Mapping[str, int] = field(default_factory=dict)
    consulted: int = 0


@dataclass(frozen=True, slots=True)
class Observed:
    """The situation that a decision is about.

    previous: of the preceding decision of the process. key: seeds what is random. steps_left: how
    many more steps may be taken, None where nobody counts. refused: whether the last action was.
    localize: see `Environment.localize`.
    """

    goal: str
    past: Past
    observation: str
    admissible: tuple[str, ...] | None
    previous: Memo = Memo()
    key: str = ""
    localize: Callable[[str], str] = str
    steps_left: int | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Proposals, best first, and the recalls they rest on (in the present task's words).

    memo: for the next decision of the process.
    followed: places in `recalls` of those that the best proposal follows (`Answer.followed`).
    reason: why a model was asked, "" where memory decided (`Answer.reason`).
    votes: what the recalls vote for (`Answer.votes`).
    """

    proposals: tuple[Proposal, ...]
    recalls: tuple[Recall, ...]
    memo: Memo = Memo()
    followed: tuple[int, ...] | None = None
    reason: str = ""
    votes: tuple[Proposal, ...] = ()

    @property
    def action(self) -> str:
        return self.proposals[0].action

    @property
    def used(self) -> tuple[tuple[str, float], ...]:
        """The (tuple id, similarity) of the recalls, for the record."""
        return tuple((recall.id, recall.similarity) for recall in self.recalls)


class Policy:
    """Decides with a memory and a reasoner. It holds no state of any episode."""

    def __init__(
        self, memory: Memory, reasoner: Reasoner, options: PolicyOptions, seed: int = 0
    ) -> None:
        options.check(memory)
        self._memory = memory
        self._reasoner = reasoner
        self._options = options
        self._seed = seed
        self._translations: dict[int, _Translated] = {}
        self._plain: dict[str, StateActionTuple] = {}
        self._recalls: dict[tuple[Any, ...], _Recalled] = {}

    def with_memory(self, memory: Memory) -> Policy:
        """Return a policy that decides in the same way with another memory."""
        policy = Policy(memory, self._reasoner, self._options, self._seed)
        policy._translations = self._translations
        return policy

    @property
    def classifier(self) -> Reasoner | None:
        """What assigns states to types: the reasoner, or None for the nearest centroid."""
        return self._reasoner if self._options.index == "llm" else None

    def batches(self, goal: str) -> tuple[str, ...]:
        """Return the ids of the batch memories that decisions about `goal` may search."""
        return self._memory.batches_for(goal, self._options.batches)

    def decide(self, now: Observed, batches: Sequence[str]) -> Decision:
        """Decide on the next action, from the memories in `batches` (Eq. 2)."""
        state, recalls = self._recalled(now, batches)
        return _decision(self._reasoner.act(state, recalls), recalls, now)

    def propose(self, now: Observed, batches: Sequence[str], z: int) -> Decision:
        """Propose up to `z` actions with confidences, from the memories in `batches` (Eq. 9)."""
        state, recalls = self._recalled(now, batches)
        return _decision(self._reasoner.propose(state, recalls, z), recalls, now)

    def rank(self, now: Observed, batches: Sequence[str], z: int) -> Decision:
        """Decide on the next action in a search, and propose up to `z` alternatives to it.

        The first proposal is what `decide` returns, and the confidences of the others are those
        that `propose` gives them, or both are of the reasoner's `searching`. One recall does.
        """
        state, recalls = self._recalled(now, batches)
        reasoner: Reasoner = getattr(self._reasoner, "searching", self._reasoner)
        decision = _decision(reasoner.act(state, recalls), recalls, now)
        others = reasoner.propose(state, recalls, z).proposals
        first = decision.proposals[0]
        others = tuple(proposal for proposal in others if proposal.action != first.action)
        return replace(decision, proposals=(first, *others))

    def branch(
        self,
        now: Observed,
        batches: Sequence[str],
        z: int,
        concentration: float,
        *,
        counted: bool = False,
    ) -> Decision:
        """Propose the actions that a tree explorer tries (§3.3).

        Where at least two recalls agree, with a share of `concentration` or more, propose only
        their action, with confidence 1; otherwise what `propose` returns. A concentration above 1
        is never reached. counted: whether each recall counts as one, not by its weight.
        """
        state, recalls = self._recalled(now, batches)
        agreed = self._reasoner.agree(state, recalls, counted=counted)
        if agreed.recalls >= MIN_AGREEING and agreed.share >= concentration:
            return _decision(self._reasoner.follow(state, recalls, agreed), recalls, now)
        return _decision(self._reasoner.propose(state, recalls, z), recalls, now)

    def imitate(self, now: Observed, source: StateActionTuple) -> str:
        """Return what the action of a single tuple comes to in the present state."""
        local = self._translated(source).into(now.localize)
        state = self._state(now, noted=self._reads_notes)
        return self._reasoner.act(state, (Recall(local, 1.0, "", "", ""),)).action

    def state(self, now: Observed) -> State:
        """Return what the reasoner sees: goal, history as configured, observation."""
        return self._state(now, noted=True)

    def _state(self, now: Observed, *, noted: bool) -> State:
        """Return what `state` does. noted: whether with what was noted of the past in words."""
        past, mode = shortened(now.past), self._options.history
        notes, course = Notes(), now.past if mode == "full" else ()
        if mode == "none":
            history = History()
        elif mode == "actions":
            course = tuple(("", action) for _, action in past)
            history = History(past=course)
        elif not noted:
            history = History(past=past if mode == "full" else ())
        else:
            notes = self._reasoner.notes(now.goal, now.past, now.observation, now.previous.notes)
            history = History(notes.assessment, notes.summary, past if mode == "full" else ())
        return State(
            goal=now.goal,
            history=history,
            observation=now.observation,
            admissible=now.admissible,
            steps=len(past),
            opening=now.past[0][0] if now.past and mode == "full" else "",
            notes=notes,
            course=course,
            steps_left=now.steps_left,
            refused=now.refused,
            consulted=now.previous.consulted,
        )

    def _recalled(self, now: Observed, batches: Sequence[str]) -> tuple[State, tuple[Recall, ...]]:
        state = self._state(now, noted=self._reads_notes)
        return state, self.recall(now, batches, state.history.text)

    @property
    def _reads_notes(self) -> bool:
        """Whether a decision depends on notes."""
        return self._options.rank_history or getattr(self._reasoner, "reads_notes", True)

    def recall(
        self, now: Observed, batches: Sequence[str], history: str = ""
    ) -> tuple[Recall, ...]:
        """Return the most similar tuples, or the control's, in the words of the present task.

        history: the present one, for options that rank by it.
        """
        options = self._options
        voting = options.candidates == "vote" or options.consult != "always"
        k = self._reasoner.recalls if voting else options.k
        k = k or self._reasoner.recalls
        if options.control == "none":
            return ()
        if options.control == "random":
            seed = stable_seed(self._seed, now.key, len(now.past))
            return self._localised(self._memory.sample(k, seed)).local(now.localize)
        spent = self._spent(now)
        history = history if options.rank_history else ""
        key = now.goal, now.observation, k, spent, *batches
        fixed = not history and self.classifier is None  # a model is asked, and paid, each time
        recalled = self._recalls.get(key) if fixed else None
        if recalled is None:
            recalls = self._memory.retrieve(
                now.goal,
                now.observation,
                k + len(spent),
                batches=batches,
                classifier=self.classifier,
                history=history,
                utility=options.recall == "utility",
            )
            recalled = self._localised(_giving_way(recalls, spent, k))
            if len(self._recalls) >= RECALLED:
                self._recalls.clear()
            if fixed:
                self._recalls[key] = recalled
        return recalled.local(now.localize)

    def _localised(self, recalls: Sequence[Recall]) -> _Recalled:
        if not self._options.outcomes:
            recalls = [self._without_outcome(recall) for recall in recalls]
        return _Recalled(tuple(recalls), [self._translated(recall.tuple) for recall in recalls])

    def _without_outcome(self, recall: Recall) -> Recall:
        """Return a recall of which only the action is known, made once per tuple."""
        source = recall.tuple
        if source.outcome is None:
            return recall
        plain = self._plain.get(recall.id)
        if plain is None:
            if len(self._plain) >= TRANSLATIONS:
                self._plain.clear()
            plain = self._plain[recall.id] = replace(source, outcome=None)
        return replace(recall, tuple=plain)

    def _spent(self, now: Observed) -> frozenset[str]:
        """Return the ids of the tuples that have had their share of this process's recalls."""
        most = self._options.share * len(now.past)
        return frozenset(name for name, count in now.previous.recalled.items() if count > most)

    def _translated(self, source: StateActionTuple) -> _Translated:
        """Return a tuple with its latest translation.

        All texts of the tuple are asked about at once: `localize` may answer otherwise in the next
        task, but what it makes of them tells whether an earlier translation still holds.
        """
        known = self._translations.get(id(source))
        if known is None:
            if len(self._translations) >= TRANSLATIONS:
                self._translations.clear()
            known = self._translations[id(source)] = _Translated(source)
        return known


def _giving_way(recalls: list[Recall], spent: frozenset[str], k: int) -> list[Recall]:
    """Return `k` recalls in their order; the spent ones are among them where others are lacking."""
    others = sum(recall.id not in spent for recall in recalls)
    places = max(0, k - others)
    chosen = []
    for recall in recalls:
        if recall.id in spent:
            places -= 1
            if places < 0:
                continue
        chosen.append(recall)
    return chosen[:k]


def _decision(answer: Answer, recalls: tuple[Recall, ...], now: Observed) -> Decision:
    memo = _memo(answer, recalls, now)
    return Decision(answer.proposals, recalls, memo, answer.followed, answer.reason, answer.votes)


def _memo(answer: Answer, recalls: Sequence[Recall], now: Observed) -> Memo:
    """Return what the next decision is handed, with these recalls and a question counted."""
    counts = dict(now.previous.recalled)
    for recall in recalls:
        if recall.tuple.is_refined:
            counts[recall.id] = counts.get(recall.id, 0) + 1
    return Memo(answer.notes, counts, now.previous.consulted + bool(answer.reason))


class _Recalled:
    """What was recalled in a situation, and the same in the words of the latest task."""

    def __init__(self, recalls: tuple[Recall, ...], translated: Sequence[_Translated]) -> None:
        self._recalls = recalls
        self._translated = translated
        self._latest = recalls, [recall.tuple for recall in recalls]

    def local(self, localize: Callable[[str], str]) -> tuple[Recall, ...]:
        """Return the recalls as `localize` words them: the same value where they were so before."""
        latest, before = self._latest
        tuples = [one.into(localize) for one in self._translated]
        if not all(map(is_, tuples, before)):
            latest = tuple(
                recall if source is recall.tuple else replace(recall, tuple=source)
                for recall, source in zip(self._recalls, tuples, strict=True)
            )
            self._latest = latest, tuples
        return latest


class _Translated:
    """A tuple with its texts in one, and its latest translation."""

    def __init__(self, source: StateActionTuple) -> None:
        history = source.history
        pieces = [source.action, source.observation, history.assessment, history.summary]
        pieces += [text for pair in history.past for text in pair]
        self._source = source  # kept alive, as it is known by its id()
        self._text = "\n".join(pieces)
        self._latest = (self._text, source)

    def into(self, localize: Callable[[str], str]) -> StateActionTuple:
        """Return the tuple as `localize` words it; the tuple itself where nothing changes."""
        text = localize(self._text)
        known, local = self._latest
        if text == known:
            return local
        local = _translation(self._source, localize)
        self._latest = (text, local)
        return local


def _translation(source: StateActionTuple, localize: Callable[[str], str]) -> StateActionTuple:
    action, observation = localize(source.action), localize(source.observation)
    history = History(
        localize(source.history.assessment),
        localize(source.history.summary),
        tuple((localize(o), localize(a)) for o, a in source.history.past),
    )
    if (action, observation, history) == (source.action, source.observation, source.history):
        return source
    return replace(source, action=action, observation=observation, history=history)
