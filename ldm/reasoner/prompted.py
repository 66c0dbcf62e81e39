"""LDM²'s questions put to a language model (§3.1–3.3). The prompts are in `ldm/prompts/reasoner`.

What it answers is checked and never trusted: a reply without use is counted, and something sensible
takes its place.
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
from ldm.reasoner.asking import (
    ActionForm,
    ActionsForm,
    Asker,
    AssessmentForm,
    NotedActionForm,
    NotedActionsForm,
    NotesForm,
    SummaryForm,
    choice_of,
    fitting,
    fitting_or_none,
    matched,
    numbered,
    one_of,
    salvaged,
)
from ldm.reasoner.notes import after, assessed, begun, progress, summarised
from ldm.reasoner.offline import OfflineReasoner
from ldm.reasoner.recounting import Recounter
from ldm.reasoner.sorting import Sorter
from ldm.types import Card, Past, Proposal, Recall

Formation = Literal["trajectory", "paper"]
Candidates = Literal["none", "vote"]

#: Recalled tuples in a prompt, as in the paper's example prompts (LDM², Tables 5 and 6).
SHOWN = 5
#: Actions of one's own that a decision shows, the latest ones.
DONE = 12
#: Characters of texts shown: of a step when the past is told, and in a decision.
PAST_SHOWN = 400
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
#: Candidates that the vote names, and steps of a process that are shown.
NAMED = 6
STEPS_SHOWN = 40
#: Confidences are on any scale that the model likes, up to here: their sum must stay a number.
SUREST = 1e6


@dataclass(frozen=True, slots=True)
class PromptedOptions:
    """How the model is asked.

    formation: "paper" asks for an assessment and a summary at every step; "trajectory" for all
    steps of a trajectory at once, after its sub-goals (long ones in overlapping pieces).
    candidates: "vote" shows the decision what the offline reasoner would do, best first. notes:
    whether decisions assess and summarise as they go. shown: recalled tuples in the prompt.
    concurrency: calls at a time.
    """

    formation: Formation = "trajectory"
    candidates: Candidates = "none"
    notes: bool = True
    shown: int = SHOWN
    concurrency: int = 1


class PromptedReasoner:
    """A `Reasoner` with a language model.

    The aid, an offline reasoner, votes on candidates, tells how concentrated recalls are, and
    stands in where the model gives nothing usable.
    """

    def __init__(
        self,
        llm: LLM,
        card: Card,
        aid: OfflineReasoner,
        embedder: Embedder,
        options: PromptedOptions | None = None,
    ) -> None:
        """card: the environment's knowledge; an empty one is left out of prompts."""
        self._options = options or PromptedOptions()
        self._card = card
        self._aid = aid
        self._asker = Asker(llm)
        self.name = f"{llm.name}, {self._options.formation}"
        self.recalls = aid.recalls if self._options.candidates == "vote" else self._options.shown
        self.concurrency = self._options.concurrency
        self._recounter = Recounter(self._asker, aid)
        self._goals = Sorter(self._asker, embedder, "goals", self.concurrency)
        self._observations = Sorter(self._asker, embedder, "observations", self.concurrency)

    def counts(self) -> dict[str, int]:
        """Replies, malformed ones, and how answers were matched, so far."""
        return self._asker.tally.counts()

    # Formation

    def annotate(self, goal: str, steps: Past) -> tuple[Notes, ...]:
        """As `Reasoner.annotate`. Before the first step nothing has happened: nothing is asked."""
        if not steps:
            return ()
        if self._options.formation == "trajectory":
            return self._recounter.annotate(goal, steps)
        written = [Notes(assessed("", goal))]
        for number in range(1, len(steps)):
            past, observation = steps[:number], steps[number][0]
            assessment = self.assess(goal, past, observation)
            written.append(Notes(assessment, self.summarize(goal, past, observation)))
        return tuple(written)

    def assess(self, goal: str, past: Past, observation: str) -> str:
        """As `Reasoner.assess`; the aid's where the reply is no use."""
        form = self._past("assess", AssessmentForm, goal, past, observation)
        said = "" if form is None else assessed(form.complete, form.incomplete)
        return said or self._aid.assess(goal, past, observation)

    def summarize(self, goal: str, past: Past, observation: str) -> str:
        """As `Reasoner.summarize`; the aid's where the reply is no use."""
        form = self._past("summarize", SummaryForm, goal, past, observation)
        said = "" if form is None else form.summary.strip()
        return said or self._aid.summarize(goal, past, observation)

    def _past(self, prompt: str, form: type[Any], goal: str, past: Past, observation: str) -> Any:
        """The reply to a question about the past; None where it is no use or does not fit."""

        def ask(effort: float) -> Any:
            return self._asker.ask(
                prompt,
                form,
                NOTES_TOKENS,
                card=self._card,
                goal=shortened(goal, int(LENGTHS["goal"] * effort)),
                past=past,
                observation=observation,
                length=int(PAST_SHOWN * effort),
            ).value

        return fitting_or_none(ask)

    # Indices

    def cluster_goals(self, goals: Sequence[str]) -> Clustering:
        return self._goals.cluster(goals)

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        return self._observations.cluster(observations)

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        return self._goals.classify([goal], types)[0]

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        return self._observations.classify([observation], types)[0]

    # Decisions

    def notes(self, goal: str, past: Past, observation: str, kept: Notes) -> Notes:
        """Those that the last decision left: writing new ones is a part of deciding.

        What a process starts with are the sub-goals, asked for without its course as in formation.
        """
        if not kept.sub_goals:
            kept = begun(self._recounter.split(goal))
        return summarised(kept, self._aid, goal, past, observation)

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        """As `Reasoner.act`; one call also writes the notes on what has happened by now.

        At the first step that is nothing: a small model asked for notes there told how it had done
        the whole task, and believed it from then on. An action that was done a moment ago and is
        not possible now is asked for again, among the possible ones: a small model goes to the
        place where it is until the steps run out.
        """
        if candidates := self._candidates(state, recalls):
            form = self._decide(state, recalls, 1, candidates).value
            action = self._chosen(form, candidates)
            return Answer((Proposal(action, 1.0),), _notes(form, state))
        completion = self._decide(state, recalls, 1, ())
        action = self._said(completion, state)
        past = state.history.past
        if past and action == past[-1][1] and action not in (state.admissible or (action,)):
            self._asker.tally.add("asked again")
            completion = self._decide(state, recalls, 1, (), among=state.admissible or ())
            action = self._said(completion, state)
        return Answer((Proposal(action, 1.0),), _notes(completion.value, state))

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """As `Reasoner.propose`; equal actions are one, confidences are made to sum to 1."""
        if z == 1:
            return self.act(state, recalls)
        completion = self._decide(state, recalls, z, self._candidates(state, recalls))
        form = completion.value
        weights: dict[str, float] = {}
        for found in () if form is None else form.actions:
            action = self._meant(found.action, state)
            sure = min(SUREST, max(0.0, found.confidence)) if found.confidence < math.inf else 0.0
            weights[action] = weights.get(action, 0.0) + sure
        if not weights:
            weights = {self._meant(salvaged(completion.text, "action"), state): 1.0}
        ranked = sorted(weights.items(), key=lambda item: -item[1])[:z]
        total = sum(weight for _, weight in ranked)
        proposals = tuple(
            Proposal(action, weight / total if total else 1 / len(ranked))
            for action, weight in ranked
        )
        return Answer(proposals, _notes(form, state))

    def agree(self, state: State, recalls: Sequence[Recall]) -> Agreement:
        """The aid's answer: it carries each recalled action over to the present state."""
        return self._aid.agree(state, recalls)

    def _decide(
        self,
        state: State,
        recalls: Sequence[Recall],
        z: int,
        candidates: Sequence[Agreement],
        among: Sequence[str] = (),
    ) -> Any:
        """The model's reply. among: the actions that it may name, where any will not do."""
        options = self._options
        noting = options.notes and state.steps > 0
        form: type[Any] = NotedActionForm if noting else ActionForm
        if z > 1:
            form = NotedActionsForm if noting else ActionsForm
        elif candidates:
            form = choice_of(len(candidates), noting)
        elif among:
            form = one_of(among, noting)

        def ask(effort: float) -> Any:
            return self._asker.ask(
                "act",
                form,
                (NOTES_TOKENS if noting else 0) + ACTION_TOKENS * z,
                card=self._card,
                noting=noting,
                notes=options.notes,
                z=z,
                recalls=[_example(r) for r in recalls[: round(options.shown * effort)]],
                goal=state.goal,
                opening=state.opening,
                sub_goals=state.notes.sub_goals,
                so_far=state.history.text,
                done=_course(state.history.past),
                observation=state.observation,
                candidates=candidates,
                admissible=() if candidates else _first(state.admissible or (), effort),
                lengths={name: int(length * effort) for name, length in LENGTHS.items()},
            )

        return fitting(ask)

    def _candidates(self, state: State, recalls: Sequence[Recall]) -> tuple[Agreement, ...]:
        """What the aid would do: actions, the share of the votes each has, and who supports it."""
        if self._options.candidates != "vote":
            return ()
        return self._aid.weigh(state, recalls, NAMED)

    def _chosen(self, form: Any, candidates: Sequence[Agreement]) -> str:
        """The candidate that the model names; the first where its reply is no use."""
        self._asker.tally.add("matched none" if form is None else "matched choice")
        return candidates[0 if form is None else form.choice - 1].action

    def _said(self, completion: Completion, state: State) -> str:
        """The action of a reply."""
        form = completion.value
        said = salvaged(completion.text, "action") if form is None else form.action
        return self._meant(said, state)

    def _meant(self, answer: str, state: State) -> str:
        action, how = matched(answer, state.admissible)
        self._asker.tally.add(f"matched {how}")
        return action

    # Comparing processes

    def compare(self, best: Process, ground: Process) -> int:
        """As `Reasoner.compare`; the aid's answer where the reply is no use.

        Long processes are shown from where they part: the key step cannot be before that.
        """
        if len(best.steps) <= 1:
            return 0
        parted = self._aid.compare(best, ground)
        if parted == len(best.steps) - 1:
            return parted

        def ask(effort: float) -> int | None:
            shown = range(parted, min(parted + int(STEPS_SHOWN * effort), len(best.steps)))
            found = self._asked(
                "compare",
                numbered(1, shown[-1] + 1, first=shown[0] + 1),
                effort,
                better=_Shown.of(best, shown),
                other=_Shown.of(ground, [n for n in shown if n < len(ground.steps)]),
            )
            return None if found is None else found - 1

        found = fitting_or_none(ask)
        return parted if found is None else found

    def choose(self, processes: Sequence[Process]) -> int:
        """As `Reasoner.choose`; the aid's answer where the reply is no use."""
        if len(processes) == 1:
            return 0

        def ask(effort: float) -> int | None:
            shown = [_Shown.of(one, _ends(len(one.steps), effort)) for one in processes]
            return self._asked("choose", numbered(1, len(shown)), effort, processes=shown)

        found = fitting_or_none(ask)
        return self._aid.choose(processes) if found is None else found - 1

    def _asked(self, prompt: str, form: type[Any], effort: float, **shown: Any) -> int | None:
        """The one number that the model names, in a form; None where it names none."""
        lengths = {name: int(length * effort) for name, length in LENGTHS.items()}
        found = self._asker.ask(prompt, form, 20, card=self._card, lengths=lengths, **shown).value
        return None if found is None else int(found.item_1)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A process in a prompt. steps: (number from 1, action, what was seen after it)."""

    goal: str
    opening: str
    steps: tuple[tuple[int, str, str], ...]

    @classmethod
    def of(cls, process: Process, places: Iterable[int]) -> _Shown:
        steps = tuple((n + 1, *process.steps[n]) for n in places)
        return cls(process.goal, process.opening, steps)


def _ends(steps: int, effort: float) -> list[int]:
    """The places of the first steps and the last ones, which tell how a process came out."""
    most = int(STEPS_SHOWN * effort)
    if steps <= most:
        return list(range(steps))
    first = most // 4
    return [*range(first), *range(steps - (most - first), steps)]


def _first(actions: Sequence[str], effort: float) -> Sequence[str]:
    """All of the actions, or, where there is no room for them, the first so many."""
    return actions[: math.ceil(len(actions) * effort)]


def _course(past: Past) -> list[tuple[str, str]]:
    """(action, what was seen after it) of the latest DONE steps.

    After the last one it is the present observation, which the prompt has anyway: "" here.
    """
    seen = [*(observation for observation, _ in past), ""][1:]
    return list(zip((action for _, action in past), seen, strict=True))[-DONE:]


def _example(recall: Recall) -> dict[str, str]:
    """A recalled tuple as a prompt shows it."""
    source = recall.tuple
    return {
        "goal": source.goal,
        "so_far": source.history.text.replace("\n", ". "),
        "observation": source.observation,
        "action": source.action,
    }


def _notes(form: Any, state: State) -> Notes:
    """The notes of a reply; what it does not say stays as the state came with it."""
    if not isinstance(form, NotesForm):
        return state.notes
    assessment = progress(state.notes.sub_goals, form.complete)
    return after(state.notes, held=form.held, assessment=assessment)
