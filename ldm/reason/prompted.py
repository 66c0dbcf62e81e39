"""LDM²'s questions to a language model (§3.1–3.3). The prompts are in `ldm/prompts/reasoner`.

Answers are checked, never trusted: an unusable reply is counted, and replaced by the offline
reasoner's answer.

As published, its questions are those of Table 4 (arXiv 2312.08402), in our words or in its own, and
what is ours stays out: prompts know neither the world's rules nor outcomes, the steps left or what
the memory teaches. The goal g goes with what was seen at the start (Table 3: the places of a room).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from ldm import prompts
from ldm.embed import Embedder
from ldm.llm import GREEDY, LLM, Completion
from ldm.reason import (
    Agreement,
    Answer,
    Clustering,
    Notes,
    Process,
    Reasoner,
    State,
    TypeView,
    prompting,
    replies,
)
from ldm.reason.indexing import TypeIndexer
from ldm.reason.offline import OfflineReasoner
from ldm.reason.pages import read_call
from ldm.reason.prompting import OVERHEAD, Budget, PromptedOptions, Reason
from ldm.reason.reading import Words, words
from ldm.reason.relevance import Relevance
from ldm.reason.replies import Prompter, fit_context, fit_context_or_none
from ldm.reason.views import ProcessView, decision_view, own_words, past_view, with_goal_once
from ldm.types import Card, Past, Proposal, Recall

#: Tokens of an action, in addition to those for its length in characters.
ACTION_TOKENS = 20
NUMBER_TOKENS = 20
#: Candidates of the vote that are shown.
CANDIDATES_SHOWN = 6
#: Minimum votes of a suggestion, as a share of the first one's: asked before a purchase that all
#: recalls support, a small model chose colours that hardly any supports.
FAINT = 0.2
#: Maximum confidence: a model may use any scale, but the sum must stay a number.
MAX_CONFIDENCE = 1e6


class PromptedReasoner:
    """A `Reasoner` that asks a language model.

    The fallback, an offline reasoner, lets the recalls vote, and replaces unusable replies.
    """

    prompted = True
    #: Whether a reply may plan further actions.
    _plans = True

    def __init__(
        self,
        llm: LLM,
        card: Card,
        fallback: OfflineReasoner,
        embedder: Embedder,
        options: PromptedOptions | None = None,
    ) -> None:
        """Connect a model.

        card: the environment's description in prompts; may be empty. Questions that are not ours
            show its outline and the forms of actions.
        """
        self._options = options or PromptedOptions()
        ours = self._options.wording == "ours"
        self._card = card if ours else card.bare()
        self._fallback = fallback
        self._prompter = (QuotingPrompter if self._options.wording == "paper" else Prompter)(llm)
        self.name = f"{llm.name}, {self._options.wording}"
        #: Whether the model decides every step, not only if memory is unsure.
        self._always = self._options.consulting.when == "always"
        nearest = self._options.recalls or prompting.PROMPT_RECALLS
        self.recalls = fallback.recalls if ours else nearest
        self.concurrency = self._options.concurrency
        self._budget = Budget(llm, self._options.prompt_tokens)
        index = partial(TypeIndexer, self._prompter, embedder, self._budget, self.concurrency)
        self._goals, self._observations = index("goals"), index("observations")

    def counts(self) -> dict[str, int]:
        """Return the counts so far of replies, malformed ones, and ways of matching answers."""
        return self._prompter.counts()

    def taught(self, relevance: Relevance) -> PromptedReasoner:
        """Implement `Reasoner.taught`: what its fallback knows changes, counts are shared."""
        twin = copy(self)
        twin._fallback = self._fallback.taught(relevance)
        return twin

    @property
    def searching(self) -> Reasoner:
        """The reasoner for a search: the vote, if a model is only asked when memory is unsure."""
        return self if self._always else self._fallback

    # Formation

    def annotate(self, goal: str, steps: Past) -> tuple[Notes | None, ...]:
        """Implement `Reasoner.annotate` without a model, which reads no histories."""
        return self._fallback.annotate(goal, steps)

    # Indices

    def cluster_goals(self, goals: Sequence[str]) -> Clustering:
        """Implement `Reasoner.cluster_goals`."""
        return self._goals.cluster(goals) if self._always else self._fallback.cluster_goals(goals)

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        """Implement `Reasoner.cluster_observations`."""
        if not self._always:
            return self._fallback.cluster_observations(observations)
        return self._observations.cluster(observations)

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        """Implement `Reasoner.classify_goal`."""
        return self._goals.classify([goal], types)[0]

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        """Implement `Reasoner.classify_observation`."""
        return self._observations.classify([observation], types)[0]

    # Decisions

    def notes(self, goal: str, past: Past) -> Notes:
        """Implement `Reasoner.notes` without a model.

        Sub-goals and notes that a model kept beside its decisions bought nothing: it sees the
        record, and believed what it had noted wrongly.
        """
        return self._fallback.notes(goal, past)

    def act(self, state: State, recalls: Sequence[Recall]) -> Answer:
        """Implement `Reasoner.act`; the vote decides if memory is to decide and is sure."""
        vote = self._fallback.act(state, recalls)
        learnt = self._fallback.learnt
        why = self._options.consulting.reason(self._card, state, vote.proposals[0], learnt)
        if why == "planned":
            action = prompting.planned_action(state, self._card)
            answer = self._acting(action, state, recalls, why, state.plan[1:])
        else:
            rest = [one for one in state.plan if one != vote.action]
            vote = replace(vote, plan=tuple(rest if vote.action in state.plan else ()))
            answer = self._consult(state, recalls, why) if why else vote
        by_model = answer.reason and f"{prompting.BY_MODEL}{answer.reason}"
        self._prompter.count(by_model or prompting.BY_MEMORY)
        return answer

    def _consult(self, state: State, recalls: Sequence[Recall], why: Reason) -> Answer:
        """Return the model's decision, or the vote's if no reply names a possible action.

        A model that is only asked when memory is unsure is shown the candidates of the vote, and
        may name another possible action: a small model that wrote its action freely named an
        impossible one at every third question, and did worse than the vote.

        It is asked a second time if it names an impossible action beside candidates. So it is if it
        repeats its last action, which is not listed, to choose a possible one, or with a warning if
        none is known: a small model goes to its present place until the steps run out.
        """
        candidates = self._candidates(state, recalls)
        named = ""
        for ask_again in (True, False):
            completion = self._decide(state, recalls, 1, candidates, why=why, named=named)
            action, usable = self._read(completion, candidates, state)
            if not usable and not action:
                break
            if usable and not (ask_again and self._repeats(action, state)):
                return self._acting(action, state, recalls, why, self._planned(completion.value))
            if ask_again:
                self._prompter.count("asked again")
            named = action
        self._prompter.count("left to memory")
        return self._fallback.act(state, recalls)

    def _planned(self, form: Any) -> tuple[str, ...]:
        """Return the actions that a reply plans to follow its own."""
        return tuple(action for text in getattr(form, "then", ()) if (action := text.strip()))

    def _acting(
        self,
        action: str,
        state: State,
        recalls: Sequence[Recall],
        why: Reason,
        plan: tuple[str, ...],
    ) -> Answer:
        """Return the model's action beside the vote of the recalls."""
        followed = self._fallback.followed(state, recalls, action)
        votes = self._fallback.votes(state, recalls)
        return Answer((Proposal(action, 1.0),), followed, why, votes, plan)

    def propose(self, state: State, recalls: Sequence[Recall], z: int) -> Answer:
        """Implement `Reasoner.propose`; merge equal actions and scale confidences to sum to 1."""
        if z == 1:
            return self.act(state, recalls)
        completion = self._decide(state, recalls, z, self._candidates(state, recalls))
        form = completion.value
        weights: dict[str, float] = {}
        for entry in () if form is None else form.actions:
            action, _ = self._match(entry.action, state)
            confidence = entry.confidence if entry.confidence < math.inf else 0.0
            weight = min(MAX_CONFIDENCE, max(0.0, confidence))
            weights[action] = weights.get(action, 0.0) + weight
        if not weights:
            action, _ = self._read(completion, (), state)
            weights = {action or self._fallback.act(state, recalls).action: 1.0}
        ranked = sorted(weights.items(), key=lambda item: -item[1])[:z]
        total = sum(weight for _, weight in ranked)
        proposals = tuple(
            Proposal(action, weight / total if total else 1 / len(ranked))
            for action, weight in ranked
        )
        return Answer(proposals)

    def agree(self, state: State, recalls: Sequence[Recall]) -> Agreement:
        """Implement `Reasoner.agree`; the fallback carries recalled actions over to the present."""
        return self._fallback.agree(state, recalls)

    def follow(self, state: State, recalls: Sequence[Recall], agreed: Agreement) -> Answer:
        """Implement `Reasoner.follow`.
        If no actions are listed, the model writes the action: one found by analogy may be
        impossible then.
        """
        if state.admissible is not None:
            return self._fallback.follow(state, recalls, agreed)
        answer = self._consult(state, recalls, "always")
        return replace(answer, proposals=(Proposal(answer.action, 1.0),))

    def _decide(
        self,
        state: State,
        recalls: Sequence[Recall],
        z: int,
        candidates: Sequence[Agreement],
        *,
        why: Reason = "",
        named: str = "",
    ) -> Any:
        """Return the model's reply.

        why: it is asked, if memory was to decide. named: what it named in vain before: beside
        candidates an impossible action, otherwise the one just done.
        """
        card = self._card
        form, length = self._form(state, z, len(candidates), named)
        planning = replies.PLANNED if z == 1 else 0
        tokens = (z + planning) * (ACTION_TOKENS + length // 4)
        state = with_goal_once(state)
        actions = [one.action for one in candidates]
        state = replace(state, rules=_telling(state.rules, actions, state.admissible or ()))

        def ask(share: float) -> Any:
            room = self._budget.room(share)
            view = decision_view(card, state, (), room)
            return self._prompter.ask(
                "act",
                form,
                tokens,
                card=card,
                planning=planning,
                why=prompting.WHY.get(why, "").format(*state.plan[:1]),
                z=z,
                candidates=candidates,
                listed=bool(state.admissible),
                own_words=own_words(card, view["admissible"]),
                named=named,
                **view,
            )

        return fit_context(ask)

    def _repeats(self, action: str, state: State) -> bool:
        """Return whether an action was refused here, or is not known to be useful again at once."""
        past = state.history.past
        if action in state.refused:
            return True
        if not past or action != past[-1][1] or action in (state.admissible or ()):
            return False
        return bool(state.admissible) or not self._card.is_repeatable(action)

    def _form(self, state: State, z: int, candidates: int, named: str) -> tuple[type[Any], int]:
        """Return the form of a decision's reply, and the maximum length of its action."""
        listed = state.admissible or ()
        length = replies.action_length(listed)
        if z > 1:
            return replies.proposals_form(length), length
        if candidates:
            return replies.choice_form(candidates, self._plans, length), length
        free = any(action.partition("[")[0] in self._card.free for action in listed)
        among = tuple(listed) if named and not free else ()
        return replies.decision_form(self._plans, length, among), length

    def _candidates(self, state: State, recalls: Sequence[Recall]) -> tuple[Agreement, ...]:
        """Return the candidates of the vote, for a model that is asked when memory is unsure."""
        if self._always:
            return ()
        candidates = self._fallback.weigh(state, recalls, CANDIDATES_SHOWN)
        least = {one.action: FAINT * candidates[0].share for one in candidates}
        for action in least:  # what fills free words is seldom right where nothing stands out
            if (call := read_call(action)) and call.verb in self._card.free:
                least[action] = prompting.MAJORITY
        return tuple(one for one in candidates if one.share >= least[one.action])

    def _read(
        self, completion: Completion, candidates: Sequence[Agreement], state: State
    ) -> tuple[str, bool]:
        """Return the action that a reply means, "" if it names none, and whether it can be taken.

        Without candidates any action can: the environment may know more than it lists.
        """
        form = completion.value
        if candidates and form is not None and form.choice:
            self._prompter.count("matched choice")
            return candidates[form.choice - 1].action, True
        text: str = getattr(form, "action", "")
        if not (text or candidates):
            text = replies.salvage_field(completion.text, "action")
        action, possible = self._match(text, state)
        possible = possible and action not in state.refused
        return action, bool(action) and (possible or not candidates)

    def _match(self, answer: str, state: State) -> tuple[str, bool]:
        """Return the action that an answer means, and whether it is possible; count the match."""
        action, match = replies.match_action(answer, state.admissible, self._card.free)
        match = match if action else "none"
        self._prompter.count(f"matched {match}")
        return action, match != "none"

    # Comparing processes

    def compare(self, best: Process, ground: Process) -> int:
        """Implement `Reasoner.compare`.

        Processes are shown from the step at which they diverge: the key step is not before it.
        """
        parting = self._fallback.compare(best, ground)
        last = len(best.steps) - 1
        return parting if parting >= last else self._key_step("compare", best, ground, parting)

    def _key_step(self, question: str, best: Process, ground: Process, first: int) -> int:
        """Return the key step that the model names, of two processes shown from `first` on."""

        def ask(share: float) -> int | None:
            room = (self._budget.room(share) - OVERHEAD) // 2
            number = self._ask_number(
                question,
                replies.numbers_form(1, len(best.steps), first=first + 1),
                better=ProcessView.of(best, range(first, len(best.steps)), room),
                other=ProcessView.of(ground, range(first, len(ground.steps)), room),
            )
            return None if number is None else number - 1

        key_step = fit_context_or_none(ask)
        return self._fallback.compare(best, ground) if key_step is None else key_step

    def choose(self, processes: Sequence[Process]) -> int:
        """Implement `Reasoner.choose`."""
        if len(processes) == 1:
            return 0

        def ask(share: float) -> int | None:
            room = (self._budget.room(share) - OVERHEAD) // len(processes)
            views = [ProcessView.of(one, range(len(one.steps)), room) for one in processes]
            return self._ask_number("choose", replies.numbers_form(1, len(views)), processes=views)

        number = fit_context_or_none(ask)
        return self._fallback.choose(processes) if number is None else number - 1

    def _ask_number(self, prompt: str, form: type[Any], **variables: Any) -> int | None:
        """Return the number that the model names, or None."""
        filled = self._prompter.ask(prompt, form, NUMBER_TOKENS, card=self._card, **variables).value
        return None if filled is None else int(filled.item_1)


def _telling(
    rules: Sequence[str], candidates: Sequence[str], listed: Sequence[str]
) -> tuple[str, ...]:
    """Return the rules for a possible action, without those for all candidates."""
    telling = []
    for rule in rules:
        form = words(rule.rpartition("→ ")[2].rpartition(" (")[0])
        meant = [_in_order(form, words(one)) for one in candidates or listed]
        possible = not meant or any(meant) or any(_in_order(form, words(one)) for one in listed)
        if possible and not (meant and all(meant)):
            telling.append(rule)
    return tuple(telling)


def _in_order(part: Words, whole: Words) -> bool:
    """Return whether some words stand among others in their order."""
    others = iter(whole)
    return all(word in others for word in part)


#: Maximum tokens of an evaluation and of a summary.
NOTES_TOKENS = 400

_SUB_GOAL = re.compile(
    r"sub-?goal\s*\d+\s*[:.]?\s*(.*?)\s*[-–—:]+\s*\(?((?:in|not)[\s-]*)?complete", re.I | re.S
)
_TYPE = re.compile(r"^\W*high-level type\s*\d*\W*(.*?)\W*\[(.*)\]", re.I | re.M)
_ACTION = re.compile(r"^\W*(?:\d+\s*[.):]\s*)?(?:(?:next |possible )?actions?\s*\d*\s*:\s*)?", re.I)
#: A confidence at the end of a line: 0.4, 40 %, or any number after the word.
_CONFIDENCE = re.compile(
    r"[\s,;:(\[–—-]*(?:confidence(?: score)?\W*(\d*\.?\d+)|(\d?\.\d+|\d+(?:\.\d+)?(?=\s*%)))\W*$",
    re.I,
)


class PublishedReasoner(PromptedReasoner):
    """Asks as the paper does: a history before each decision, and the nearest tuples as they are.

    Processes are compared and chosen whole.
    """

    _plans = False

    def annotate(self, goal: str, steps: Past) -> tuple[Notes | None, ...]:
        """Implement `Reasoner.annotate`: a step whose observation was not recorded has no notes."""
        return tuple(
            self.notes(goal, steps[:number]) if text.strip() else None
            for number, (text, _) in enumerate(steps)
        )

    def notes(self, goal: str, past: Past) -> Notes:
        """Implement `Reasoner.notes`: h_τ, an evaluation and, of a past, a summary (Eq. 6)."""
        return Notes(self.assess(goal, past), self.summarize(goal, past) if past else "")

    def assess(self, goal: str, past: Past) -> str:
        """Return the sub-goals of `goal`, each complete or not (Table 4, Evaluation)."""
        form = self._ask_about_past("published/assess", replies.EvaluationForm, goal, past)
        return (form and form.text) or self._fallback.notes(goal, past).assessment

    def summarize(self, goal: str, past: Past) -> str:
        """Return a summary of the past (Table 4, Summarization)."""
        form = self._ask_about_past("published/summarize", replies.SummaryForm, goal, past)
        summary = "" if form is None else " ".join(form.summary.split())
        return summary or self._fallback.notes(goal, past).summary

    def _ask_about_past(self, prompt: str, form: type[Any], goal: str, past: Past) -> Any:
        """Return the filled form, or None if the reply is unusable or the question too long."""

        def ask(share: float) -> Any:
            view = past_view(past, self._budget.room(share), goal)
            return self._prompter.ask(prompt, form, NOTES_TOKENS, card=self._card, **view).value

        return fit_context_or_none(ask)

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        """Implement `Reasoner.cluster_observations`; those not recorded join the first type."""
        known = [text for text in observations if text.strip()]
        made = super().cluster_observations(known)
        types = dict(zip(known, made.assignment, strict=True))
        return Clustering(made.names or ("",), tuple(types.get(text, 0) for text in observations))

    def _decide(self, state: State, recalls: Sequence[Recall], z: int, *_: Any, **__: Any) -> Any:
        """Return the model's reply: `z` actions in imitation of the recalls (Table 4)."""
        form, length = self._form(state, z, 0, "")
        tokens = 2 * z * (ACTION_TOKENS + length // 4)
        # The notes take the place of the past.
        state = replace(state, course=(), history=replace(state.history, past=()))
        if not self._card.situated:
            state = replace(state, opening="")
        nearest = recalls[: self.recalls]

        def ask(share: float) -> Any:
            room = self._budget.room(share)
            view = decision_view(self._card, state, nearest, room)
            words = own_words(self._card, view["admissible"])
            given = {"card": self._card, "z": z, "own_words": words}
            return self._prompter.ask("published/act", form, tokens, **given, **view)

        return fit_context(ask)

    def _repeats(self, action: str, state: State) -> bool:
        """Return that nothing is asked again: the paper says nothing of refused actions."""
        return False

    def compare(self, best: Process, ground: Process) -> int:
        """Implement `Reasoner.compare`: the first step that differs (Table 4, Compare)."""
        return self._key_step("published/compare", best, ground, 0) if len(best.steps) > 1 else 0


class QuotingPrompter(Prompter):
    """Asks Table 4's questions word for word, and reads replies in the formats that it asks for.

    The paper prints no question for the choice among processes: that one is ours.
    """

    at_once: ClassVar[int] = 1

    def _completion(
        self, prompt: str, form: type[Any], max_tokens: int, variables: Mapping[str, Any]
    ) -> Completion:
        name = prompt.rpartition("/")[2]
        if name not in READERS:
            return super()._completion(prompt, form, max_tokens, variables)
        messages = prompts.render(f"reasoner/paper/{name}", **variables)
        completion = self.llm.complete(messages, sampling=GREEDY, max_tokens=max_tokens)
        read = weighed_actions if variables.get("z", 1) > 1 else READERS[name]
        try:
            value = TypeAdapter(form).validate_python(read(completion.text))
        except ValidationError:
            value = None
        return replace(completion, value=value, malformed=value is None)


def evaluation(text: str) -> dict[str, Any]:
    """Read "subgoal 1: goal - complete" for each sub-goal."""
    judged = _SUB_GOAL.findall(text)
    complete = [number for number, (_, lacking) in enumerate(judged, 1) if not lacking]
    return {"sub_goals": [goal for goal, _ in judged], "complete": complete}


def summary(text: str) -> dict[str, Any]:
    """Read "Summary: …"."""
    return {"summary": re.sub(r"^\W*summary\s*:\s*", "", text.strip(), flags=re.I)}


def types(text: str) -> dict[str, Any]:
    """Read "High-level Type1: type name [1, 3]" for each type."""
    members = ((name, re.findall(r"\d+", numbers)) for name, numbers in _TYPE.findall(text))
    return {"types": [{"name": name, "members": [*map(int, some)]} for name, some in members]}


def number(text: str) -> dict[str, Any]:
    """Read "[2]: reason" or "2: reason"."""
    return {"item_1": int(digits[0]) if (digits := re.search(r"\d{1,9}", text)) else None}


def action(text: str) -> dict[str, Any]:
    """Read an action, which may have a label before it."""
    lines = [_ACTION.sub("", line).strip() for line in text.splitlines()]
    return {"action": next(filter(None, lines), None)}


def weighed_actions(text: str) -> dict[str, Any]:
    """Read actions with their confidences, on a line each or with the confidence on the next."""
    actions: list[dict[str, Any]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        stated = _CONFIDENCE.search(line)
        name = _ACTION.sub("", line[: stated.start()] if stated else line)
        if name:
            actions.append({"action": name, "confidence": 0.0})
        if stated and actions:
            actions[-1]["confidence"] = float(stated[1] or stated[2])
    return {"actions": actions}


#: The reader of the reply to each question.
READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "assess": evaluation,
    "summarize": summary,
    "cluster": types,
    "classify": number,
    "act": action,
    "compare": number,
}
