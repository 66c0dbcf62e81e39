"""One decision of LDM² (§3.1): observe → history → retrieve → act or propose.

The agent and the explorer share it, so that they see the same histories and recalls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal

from ldm.memory import Memory
from ldm.parallel import cached
from ldm.reason import Answer, Reasoner, State, prompting
from ldm.reason.prompting import DEMONSTRATION, LEAST_TOKENS, Consult, PromptedOptions, Wording
from ldm.reason.relevance import Relevance
from ldm.reason.vocabulary import Lesson
from ldm.types import Count, History, Recall, Score, StateActionTuple, stable_seed

#: A single recall cannot agree with others.
MIN_AGREEING = 2
#: Tuples whose translations into one wording are cached.
TRANSLATIONS = 20_000
#: Situations whose recalls are cached: a search returns to the same observations.
RECALLED = 1_000

#: The nearest recorded tasks of which one is a model's example.
NEAR = 5
#: Kinds of the notes of a trial: the votes of its recalls, and why a model was asked.
VOTES, CONSULTED = "votes", "consulted"

Control = Literal["", "random", "none"]


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The options of a decision (LDM² §3.1; Fig. 3 for `batches`)."""

    k: Annotated[Count, "Tuples recalled; 0: 60, or 5 as published"] = 0
    batches: Annotated[Count, "Batch memories of the goal's kind searched; 0: all"] = 0
    control: Annotated[Control, "Recall random tuples or none, to measure the memory's value"] = ""
    index: Annotated[
        Literal["embedding", "llm"], "Classify states (Eq. 3) by the nearest centroid or the model"
    ] = "embedding"
    prompt_tokens: Annotated[int, "Maximum tokens of a prompt; 0: as the context allows"] = 0
    wording: Annotated[Wording, "Questions: ours, or LDM²'s: reworded, paper"] = "ours"
    consult: Annotated[Consult, "Ask a model always, when memory is unsure, or never"] = "always"
    certainty: Annotated[
        Score, "Least confidence for memory to decide; 0: by its left-out steps"
    ] = 0.0

    def __post_init__(self) -> None:
        if 0 != self.prompt_tokens < LEAST_TOKENS:
            raise ValueError(
                f"prompt_tokens must be {LEAST_TOKENS} or more, or 0 for the model's context"
            )
        if self.wording != "ours" and self.consult != "always":
            raise ValueError(f"wording {self.wording} asks at each step: let consult be always")

    @staticmethod
    def with_model(given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the defaults of a new run with a language model, beside the given options.

        A model is asked when memory is unsure, and in the paper's way at each step.
        """
        ours = given.get("wording", "ours") == "ours"
        return {"consult": "unsure"} if ours and "consult" not in given else {}

    def prompted(self, concurrency: int = 1) -> PromptedOptions:
        """Return the options of the prompts for such decisions."""
        return PromptedOptions(
            recalls=self.k,
            concurrency=concurrency,
            prompt_tokens=self.prompt_tokens,
            wording=self.wording,
            consulting=prompting.Consulting(self.consult, self.certainty),
        )


class Policy:
    """Decide with a memory and a reasoner, without any state of an episode."""

    def __init__(
        self, memory: Memory, reasoner: Reasoner, options: PolicyOptions, seed: int = 0
    ) -> None:
        self._memory = memory
        self._reasoner = reasoner
        self._options = options
        self._seed = seed
        # By wording and by id() of the tuple, which is kept alive for that.
        self._translations: dict[str, dict[int, tuple[StateActionTuple, StateActionTuple]]] = {}
        self._recalls: dict[tuple[Any, ...], list[Recall]] = {}
        self._reasoners: dict[str, Reasoner] = {}
        self._courses: dict[str, tuple[str, ...]] = {}

    def with_memory(self, memory: Memory) -> Policy:
        """Return a policy that decides in the same way with another memory."""
        policy = Policy(memory, self._reasoner, self._options, self._seed)
        policy._translations = self._translations
        return policy

    def _taught(self, localize: Callable[[str], str]) -> Reasoner:
        """Return the reasoner with what the memory teaches, in the words of the current task.

        A control takes away what that is worth.
        """
        control = self._options.control
        wording = localize(self._memory.relevance.sample) if control != "none" else ""
        if wording not in self._reasoners:
            seed = self._seed if control == "random" else None
            taught = Relevance() if control == "none" else self._memory.taught(localize, seed)
            self._reasoners[wording] = self._reasoner.taught(taught)
        return self._reasoners[wording]

    @property
    def classifier(self) -> Reasoner | None:
        """The reasoner that assigns states to types, or None for the nearest centroid."""
        return self._reasoner if self._options.index == "llm" else None

    def batches(self, goal: str, kind: str = "") -> tuple[str, ...]:
        """Return the ids of the batch memories that decisions about `goal` may search.

        kind: of the task, "" if it is not known.
        """
        return self._memory.batches_for(goal, self._options.batches, kind)

    def decide(self, now: State, batches: Sequence[str], *, recorded: bool = True) -> Answer:
        """Decide on the next action, from the memories in `batches` (Eq. 2).

        recorded: whether recalls are wanted for the record even if the decision does not need them.
        """
        state, recalls = self._recalled(now, batches, recorded)
        return replace(self._taught(now.localize).act(state, recalls), recalls=recalls)

    def rank(self, now: State, batches: Sequence[str], z: int) -> Answer:
        """Decide on the next action in a search, and propose up to `z` alternatives to it.

        The first proposal is that of `decide`, the others have confidences (Eq. 9); both come from
        the reasoner's `searching` and one recall.
        """
        state, recalls = self._recalled(now, batches, recorded=False)
        reasoner = self._taught(now.localize).searching
        decision = reasoner.act(state, recalls)
        others = reasoner.propose(state, recalls, z).proposals
        first = decision.proposals[0]
        others = tuple(proposal for proposal in others if proposal.action != first.action)
        return replace(decision, proposals=(first, *others), recalls=recalls)

    def branch(self, now: State, batches: Sequence[str], z: int, concentration: float) -> Answer:
        """Propose the actions that a tree explorer tries (§3.3).

        If at least two recalls agree, with a share of `concentration` or more, propose only their
        action, with confidence 1; otherwise up to `z` with the reasoner's confidences. A
        concentration above 1 is never reached.
        """
        state, recalls = self._recalled(now, batches)
        reasoner = self._taught(now.localize)
        agreed = reasoner.agree(state, recalls)
        if agreed.recalls >= MIN_AGREEING and agreed.share >= concentration:
            return replace(reasoner.follow(state, recalls, agreed), recalls=recalls)
        return replace(reasoner.propose(state, recalls, z), recalls=recalls)

    def state(self, now: State) -> State:
        """Return the reasoner's input: for a model also rules, or notes on the past (Eq. 6).

        The paper's questions are about all that was seen, refusals as well.
        """
        past = now.course or now.history.past
        if self._reasoner.prompted and self._options.wording != "ours":
            notes = self._reasoner.notes(now.goal, past)
            history = History(notes.assessment, notes.summary, past)
            now = replace(now, history=history, observation=now.latest or now.observation)
        opening = past[0][0] if past else ""
        now = replace(
            now, course=past, opening=opening, kind=self._memory.kind_of(now.goal, now.kind)
        )
        return replace(now, rules=self._rules(now))

    def _rules(self, now: State) -> tuple[str, ...]:
        """Return the rules that bear on a state, for a model.

        There are none in LDM²'s prompts or for a control.
        """
        options = self._options
        if options.control or options.wording != "ours" or not self._reasoner.prompted:
            return ()
        lesson = Lesson("", now.goal, now.kind, now.history.past, now.observation, "")
        return tuple(map(now.localize, self._memory.rules(now.kind).bearing(lesson)))

    def _recalled(
        self, now: State, batches: Sequence[str], recorded: bool = True
    ) -> tuple[State, tuple[Recall, ...]]:
        state = self.state(now)
        needed = recorded or self._reasoner.prompted
        recalls = self.recall(state, batches) if needed else ()
        if self._reasoner.prompted and self._options.wording == "ours":
            state = self._demonstrated(state, recalls)
        return state, recalls

    def _demonstrated(self, state: State, recalls: Sequence[Recall]) -> State:
        """Return a state with the course of a recall that did not fall short.

        It is the nearest whose course has room in a prompt, or the shortest of the nearest.
        """
        near = dict.fromkeys(
            (one.tuple.goal, one.tuple.trajectory_id) for one in recalls if not one.tuple.fell_short
        )
        courses: list[tuple[str, tuple[str, ...]]] = []
        for goal, trajectory in islice(near, NEAR):
            if trajectory not in self._courses:
                self._courses[trajectory] = self._memory.actions_of(trajectory)
            courses.append((goal, self._courses[trajectory]))
            if len("; ".join(courses[-1][1])) <= DEMONSTRATION:
                break
        goal, actions = min(courses, key=lambda one: len(one[1]), default=("", ()))
        return replace(state, example=goal, demonstration=tuple(map(state.localize, actions)))

    def recall(self, now: State, batches: Sequence[str]) -> tuple[Recall, ...]:
        """Return the most similar tuples, or the control's, in the words of the current task."""
        options = self._options
        k = options.k if options.consult == "always" else 0
        k = k or self._reasoner.recalls
        if options.control == "none":
            return ()
        if options.control == "random":
            seed = stable_seed(self._seed, now.key, len(now.history.past))
            return tuple(self._local(self._memory.sample(k, seed), now.localize))
        texts = now.goal, now.observation
        retrieve = partial(
            self._memory.retrieve, *texts, k, batches=batches, classifier=self.classifier
        )
        if self.classifier is None:
            recalled = cached(self._recalls, (*texts, k, *batches), retrieve, RECALLED)
        else:  # a model is asked, and paid, each time
            recalled = retrieve()
        return tuple(self._local(recalled, now.localize))

    def _local(self, recalls: Sequence[Recall], localize: Callable[[str], str]) -> list[Recall]:
        """Return recalls as `localize` words them."""
        sample = self._memory.relevance.sample
        if (wording := localize(sample)) == sample:
            return [*recalls]
        local = self._translations.setdefault(wording, {})

        def local_tuple(source: StateActionTuple) -> StateActionTuple:
            pair = partial(_translated, source, localize)
            return cached(local, id(source), pair, TRANSLATIONS)[1]

        return [replace(one, tuple=local_tuple(one.tuple)) for one in recalls]


def _translated(
    source: StateActionTuple, localize: Callable[[str], str]
) -> tuple[StateActionTuple, StateActionTuple]:
    """Return a tuple and its translation."""
    action, observation = localize(source.action), localize(source.observation)
    history = History(
        localize(source.history.assessment),
        localize(source.history.summary),
        tuple((localize(o), localize(a)) for o, a in source.history.past),
    )
    return source, replace(source, action=action, observation=observation, history=history)
