"""LDM²'s questions put to a language model (§3.1–3.3). The prompts are in `ldm/prompts/reasoner`.

Answers are checked and never trusted: an unusable reply is counted, and the offline reasoner's
answer takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ldm.embed import Embedder
from ldm.llm import LLM, Completion
from ldm.prompts import shortened
from ldm.reasoner import (
    Agreement,
    Answer,
    Clustering,
    Notes,
    Process,
    State,
    TypeView,
)
from ldm.reasoner.forms import (
    ActionForm,
    ActionsForm,
    AssessmentForm,
    NotedActionForm,
    NotedActionsForm,
    NotesForm,
    SummaryForm,
    action_form,
    choice_form,
    numbers_form,
)
from ldm.reasoner.history import HistoryWriter
from ldm.reasoner.indexing import TypeIndexer
from ldm.reasoner.notes import (
    assessment_text,
    initial_notes,
    next_notes,
    progress_text,
    with_summary,
)
from ldm.reasoner.offline import OfflineReasoner
from ldm.reasoner.replies import (
    Prompter,
    fit_context,
    fit_context_or_none,
    match_action,
    salvage_field,
)
from ldm.reasoner.voting import voters
from ldm.types import Card, Past, Proposal, Recall, StateActionTuple

Formation = Literal["trajectory", "paper"]
Candidates = Literal["none", "vote"]

#: Recalled tuples in a prompt, as in the paper's example prompts (LDM², Tables 5 and 6).
PROMPT_RECALLS = 5
#: The agent's own actions that a decision shows, the latest ones.
RECENT_ACTIONS = 12
#: Characters of each text shown: of a step where the past is assessed, and in a decision.
PAST_LENGTH = 400
LENGTHS = {
    "goal": 2000,
    "action": 300,
    "recalled": 200,
    "so_far": 160,
    "past": 90,
    "start": 4000,
    "present": 4000,
    "opening": 600,
    "step": 120,
}
#: Most tokens of replies. Notes should be short, and a model that repeats itself must be stopped.
NOTES_TOKENS = 160
ACTION_TOKENS = 60
NUMBER_TOKENS = 20
#: Candidates of the vote, and steps of a process, that are shown.
CANDIDATES_SHOWN = 6
STEPS_SHOWN = 40
#: Confidences are on any scale that the model likes, up to here: their sum must stay a number.
MAX_CONFIDENCE = 1e6


@dataclass(frozen=True, slots=True)
class PromptedOptions:
    """How the model is asked.

    formation: "paper" asks for an assessment and a summary at every step; "trajectory" for all
        steps of a trajectory at once, after its sub-goals (long ones in overlapping pieces).
    candidates: "vote" shows the decision what the offline reasoner would do, best first.
    notes: whether decisions assess and summarise as they go.
    recalls: how many recalled tuples a prompt shows.
    concurrency: calls at a time.
    """

    formation: Formation = "trajectory"
    candidates: Candidates = "none"
    notes: bool = True
    recalls: int = PROMPT_RECALLS
    concurrency: int = 1


class PromptedReasoner:
    """A `Reasoner` that asks a language model.

    The fallback, an offline reasoner, votes on candidates, says how concentrated recalls are, and
    answers where the model's reply is unusable.
    """

    def __init__(
        self,
        llm: LLM,
        card: Card,
        fallback: OfflineReasoner,
        embedder: Embedder,
        options: PromptedOptions | None = None,
    ) -> None:
        """Connect the model; card: what prompts say of the environment, nothing if it is empty."""
        self._options = options or PromptedOptions()
        self._card = card
        self._fallback = fallback
        self._prompter = Prompter(llm)
        self.name = f"{llm.name}, {self._options.formation}"
        voting = self._options.candidates == "vote"
        self.recalls = fallback.recalls if voting else self._options.recalls
        self.concurrency = self._options.concurrency
        self._writer = HistoryWriter(self._prompter, fallback)
        self._goals = TypeIndexer(self._prompter, embedder, "goals", self.concurrency)
        self._observations = TypeIndexer(self._prompter, embedder, "observations", self.concurrency)

    def counts(self) -> dict[str, int]:
        """Return the numbers of replies, malformed ones, and ways of matching answers, so far."""
        return self._prompter.counts.by_name()

    # Formation

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """See `Reasoner.annotate`. Nothing is asked of the first step: nothing happened before."""
        if not steps:
            return ()
        if self._options.formation == "trajectory":
            return self._writer.annotate(goal, steps)
        notes = [Notes(assessment_text("", goal))]
        for number in range(1, len(steps)):
            past, observation = steps[:number], steps[number][0]
            assessment = self.assess(goal, past, observation)
            notes.append(Notes(assessment, self.summarize(goal, past, observation)))
        return tuple(notes)

    def assess(self, goal: str, past: Past, observation: str) -> str:
        """See `Reasoner.assess`; the fallback answers where the reply is unusable."""
        form = self._ask_about_past("assess", AssessmentForm, goal, past, observation)
        assessment = "" if form is None else assessment_text(form.complete, form.incomplete)
        return assessment or self._fallback.assess(goal, past, observation)

    def summarize(self, goal: str, past: Past, observation: str) -> str:
        """See `Reasoner.summarize`; the fallback answers where the reply is unusable."""
        form = self._ask_about_past("summarize", SummaryForm, goal, past, observation)
        summary = "" if form is None else form.summary.strip()
        return summary or self._fallback.summarize(goal, past, observation)

    def _ask_about_past(
        self, prompt: str, form: type[Any], goal: str, past: Past, observation: str
    ) -> Any:
        """Return the filled form; None where the reply is unusable or the question too long."""

        def ask(share: float) -> Any:
            return self._prompter.ask(
                prompt,
                form,
                NOTES_TOKENS,
                card=self._card,
                goal=shortened(goal, int(LENGTHS["goal"] * share)),
                past=past,
                observation=observation,
                length=int(PAST_LENGTH * share),
            ).value

        return fit_context_or_none(ask)

    # Indices

    def cluster_goals(self, goals: Sequence[str]) -> Clustering:
        """See `Reasoner.cluster_goals`."""
        return self._goals.cluster(goals)

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        """See `Reasoner.cluster_observations`."""
        return self._observations.cluster(observations)

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        """See `Reasoner.classify_goal`."""
        return self._goals.classify([goal], types)[0]

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        """See `Reasoner.classify_observation`."""
        return self._observations.classify([observation], types)[0]

    # Decisions

    def notes(self, goal: str, past: Past, observation: str, previous: Notes) -> Notes:
        """Return the notes of the last decision, which wrote them as it decided.

        A process starts with the sub-goals alone, asked for by themselves as in formation.
        """
        if not previous.sub_goals:
            previous = initial_notes(self._writer.split_goal(goal))
        return with_summary(previous, self._fallback, goal, past, observation)

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        """See `Reasoner.act`; the same call also writes the notes on what has happened by now.

        At the first step that is nothing: a small model asked for notes there told how it had done
        the whole task, and believed it from then on. An action that was done a moment ago and is
        not possible now is asked for again, among the possible ones: a small model goes to the
        place where it is until the steps run out.
        """
        if candidates := self._candidates(state, recalls):
            form = self._decide(state, recalls, 1, candidates).value
            action = self._chosen_candidate(form, candidates)
            followed = self._fallback.followed(state, recalls, action)
            return Answer((Proposal(action, 1.0),), _notes(form, state), followed)
        completion = self._decide(state, recalls, 1, ())
        action = self._action(completion, state)
        past = state.history.past
        if past and action == past[-1][1] and action not in (state.admissible or (action,)):
            self._prompter.counts.add("asked again")
            completion = self._decide(state, recalls, 1, (), among=state.admissible or ())
            action = self._action(completion, state)
        followed = self._fallback.followed(state, recalls, action)
        return Answer((Proposal(action, 1.0),), _notes(completion.value, state), followed)

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """See `Reasoner.propose`; equal actions are merged, confidences scaled to sum to 1."""
        if z == 1:
            return self.act(state, recalls)
        completion = self._decide(state, recalls, z, self._candidates(state, recalls))
        form = completion.value
        weights: dict[str, float] = {}
        for entry in () if form is None else form.actions:
            action = self._match(entry.action, state)
            confidence = entry.confidence if entry.confidence < math.inf else 0.0
            weight = min(MAX_CONFIDENCE, max(0.0, confidence))
            weights[action] = weights.get(action, 0.0) + weight
        if not weights:
            weights = {self._match(salvage_field(completion.text, "action"), state): 1.0}
        ranked = sorted(weights.items(), key=lambda item: -item[1])[:z]
        total = sum(weight for _, weight in ranked)
        proposals = tuple(
            Proposal(action, weight / total if total else 1 / len(ranked))
            for action, weight in ranked
        )
        return Answer(proposals, _notes(form, state))

    def agree(self, state: State, recalls: Sequence[Recall], *, counted: bool = False) -> Agreement:
        """See `Reasoner.agree`; the fallback carries recalled actions over to the present."""
        return self._fallback.agree(state, recalls, counted=counted)

    def _decide(
        self,
        state: State,
        recalls: Sequence[Recall],
        z: int,
        candidates: Sequence[Agreement],
        among: Sequence[str] = (),
    ) -> Any:
        """Return the model's reply; among: the actions that it must choose from, () for any."""
        options = self._options
        examples = [recalls[i] for i in voters(state.observation, recalls)]
        noting = options.notes and state.steps > 0
        form: type[Any] = NotedActionForm if noting else ActionForm
        if z > 1:
            form = NotedActionsForm if noting else ActionsForm
        elif candidates:
            form = choice_form(len(candidates), noting)
        elif among:
            form = action_form(among, noting)

        def ask(share: float) -> Any:
            return self._prompter.ask(
                "act",
                form,
                (NOTES_TOKENS if noting else 0) + ACTION_TOKENS * z,
                card=self._card,
                noting=noting,
                notes=options.notes,
                z=z,
                recalls=[_example(r) for r in examples[: round(options.recalls * share)]],
                goal=state.goal,
                opening=state.opening,
                sub_goals=state.notes.sub_goals,
                so_far=state.history.text,
                done=_recent_steps(state.history.past),
                observation=state.observation,
                candidates=candidates,
                admissible=() if candidates else _first(state.admissible or (), share),
                lengths=_lengths(share),
            )

        return fit_context(ask)

    def _candidates(self, state: State, recalls: Sequence[Recall]) -> tuple[Agreement, ...]:
        """Return the actions that the fallback would take, with their votes and supporters."""
        if self._options.candidates != "vote":
            return ()
        return self._fallback.weigh(state, recalls, CANDIDATES_SHOWN)

    def _chosen_candidate(self, form: Any, candidates: Sequence[Agreement]) -> str:
        """Return the candidate that the model names; the first where its reply is unusable."""
        self._prompter.counts.add("matched none" if form is None else "matched choice")
        return candidates[0 if form is None else form.choice - 1].action

    def _action(self, completion: Completion, state: State) -> str:
        """Return the action of a reply."""
        form = completion.value
        answer = salvage_field(completion.text, "action") if form is None else form.action
        return self._match(answer, state)

    def _match(self, answer: str, state: State) -> str:
        """Return the action that an answer means, and count how it was recognised."""
        action, match = match_action(answer, state.admissible)
        self._prompter.counts.add(f"matched {match}")
        return action

    # Comparing processes

    def compare(self, best: Process, ground: Process) -> int:
        """See `Reasoner.compare`; the fallback answers where the reply is unusable.

        Long processes are shown from where they part: the key step cannot be before that.
        """
        if len(best.steps) <= 1:
            return 0
        parting = self._fallback.compare(best, ground)
        if parting == len(best.steps) - 1:
            return parting

        def ask(share: float) -> int | None:
            places = range(parting, min(parting + int(STEPS_SHOWN * share), len(best.steps)))
            number = self._ask_number(
                "compare",
                numbers_form(1, places[-1] + 1, first=places[0] + 1),
                share,
                better=_ProcessView.of(best, places),
                other=_ProcessView.of(ground, [n for n in places if n < len(ground.steps)]),
            )
            return None if number is None else number - 1

        key_step = fit_context_or_none(ask)
        return parting if key_step is None else key_step

    def choose(self, processes: Sequence[Process]) -> int:
        """See `Reasoner.choose`; the fallback answers where the reply is unusable."""
        if len(processes) == 1:
            return 0

        def ask(share: float) -> int | None:
            views = [_ProcessView.of(p, _first_and_last(len(p.steps), share)) for p in processes]
            return self._ask_number("choose", numbers_form(1, len(views)), share, processes=views)

        number = fit_context_or_none(ask)
        return self._fallback.choose(processes) if number is None else number - 1

    def _ask_number(
        self, prompt: str, form: type[Any], share: float, **variables: Any
    ) -> int | None:
        """Return the one number that the model names; None where it names none."""
        filled = self._prompter.ask(
            prompt, form, NUMBER_TOKENS, card=self._card, lengths=_lengths(share), **variables
        ).value
        return None if filled is None else int(filled.item_1)


@dataclass(frozen=True, slots=True)
class _ProcessView:
    """A process as prompts show it. steps: (number from 1, action, observation after it)."""

    goal: str
    opening: str
    steps: tuple[tuple[int, str, str], ...]

    @classmethod
    def of(cls, process: Process, places: Iterable[int]) -> _ProcessView:
        steps = tuple((n + 1, *process.steps[n]) for n in places)
        return cls(process.goal, process.opening, steps)


def _lengths(share: float) -> dict[str, int]:
    """Return `share` of the characters of each text."""
    return {name: int(length * share) for name, length in LENGTHS.items()}


def _first_and_last(steps: int, share: float) -> list[int]:
    """Return the places of the first steps and the last ones, which show how a process ended."""
    most = int(STEPS_SHOWN * share)
    if steps <= most:
        return list(range(steps))
    first = most // 4
    return [*range(first), *range(steps - (most - first), steps)]


def _first(actions: Sequence[str], share: float) -> Sequence[str]:
    """Return the first `share` of the actions."""
    return actions[: math.ceil(len(actions) * share)]


def _recent_steps(past: Past) -> list[tuple[str, str]]:
    """Return (action, observation after it) of the latest RECENT_ACTIONS steps.

    After the last one it is the present observation, which the prompt has anyway: "" here.
    """
    after = [*(observation for observation, _ in past), ""][1:]
    return list(zip((action for _, action in past), after, strict=True))[-RECENT_ACTIONS:]


def _example(recall: Recall) -> dict[str, str]:
    """Return a recalled tuple as prompts show it."""
    source = recall.tuple
    return {
        "goal": source.goal,
        "so_far": source.history.text.replace("\n", ". "),
        "observation": source.observation,
        "action": source.action,
        "outcome": _outcome_text(source),
    }


def _outcome_text(source: StateActionTuple) -> str:
    """Say what came of a recalled action; "" where it was a full success or is unknown."""
    outcome = source.outcome
    if outcome is None or not source.fell_short:
        return ""
    if source.is_warning:
        return "this was tried and failed; do otherwise"
    return f"this was tried and earned {outcome.score:.2g} of 1"


def _notes(form: Any, state: State) -> Notes:
    """Return the notes of a reply; what it omits stays as in the state."""
    if not isinstance(form, NotesForm):
        return state.notes
    assessment = progress_text(state.notes.sub_goals, form.complete)
    return next_notes(state.notes, held=form.held, assessment=assessment)
