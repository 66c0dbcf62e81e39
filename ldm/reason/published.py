"""LDM² as published: the questions of its Table 4 (arXiv 2312.08402), in our words or in its own.

What is ours stays out: prompts know neither the world's rules nor outcomes, the steps left or what
the memory teaches. The goal g goes with what was seen at the start (Table 3: the places of a room).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from ldm import prompts
from ldm.embed import Embedder
from ldm.llm import GREEDY, LLM, Completion
from ldm.reason import Clustering, Notes, Process, State
from ldm.reason.forms import EvaluationForm, SummaryForm
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import ACTION_TOKENS, THOUGHT_TOKENS, PromptedReasoner
from ldm.reason.prompting import PROMPT_RECALLS, PromptedOptions
from ldm.reason.replies import Prompter, fit_context, fit_context_or_none
from ldm.reason.views import decision_view, own_words, past_view
from ldm.types import Card, Past, Recall

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

    def __init__(
        self,
        llm: LLM,
        card: Card,
        fallback: OfflineReasoner,
        embedder: Embedder,
        options: PromptedOptions,
    ) -> None:
        """Connect a model. card: of which prompts show the outline and the forms of actions."""
        prompter = QuotingPrompter(llm) if options.wording == "paper" else Prompter(llm)
        super().__init__(llm, card.bare(), fallback, embedder, options, prompter)
        self.recalls = options.recalls or PROMPT_RECALLS

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
        form = self._ask_about_past("published/assess", EvaluationForm, goal, past)
        return (form and form.text) or self._fallback.notes(goal, past).assessment

    def summarize(self, goal: str, past: Past) -> str:
        """Return a summary of the past (Table 4, Summarization)."""
        form = self._ask_about_past("published/summarize", SummaryForm, goal, past)
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
        thinking = self._options.thought == "short"
        tokens = 2 * z * (ACTION_TOKENS + length // 4) + THOUGHT_TOKENS * thinking
        # The notes take the place of the past.
        state = replace(state, course=(), history=replace(state.history, past=()))
        if not self._card.situated:
            state = replace(state, opening="")
        nearest = recalls[: self.recalls]

        def ask(share: float) -> Any:
            room = self._budget.room(share)
            view = decision_view(self._card, state, nearest, room)
            words = own_words(self._card, view["admissible"])
            given = {"card": self._card, "z": z, "thinking": thinking, "own_words": words}
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

    def ask(self, prompt: str, form: type[Any], max_tokens: int, **variables: Any) -> Completion:
        """Implement `Prompter.ask`."""
        name = prompt.rpartition("/")[2]
        if name not in READERS:
            return super().ask(prompt, form, max_tokens, **variables)
        messages = prompts.render(f"reasoner/paper/{name}", **variables)
        completion = self.llm.complete(messages, sampling=GREEDY, max_tokens=max_tokens)
        read = weighed_actions if variables.get("z", 1) > 1 else READERS[name]
        try:
            value = TypeAdapter(form).validate_python(read(completion.text))
        except ValidationError:
            value = None
        self.counts.add("replies")
        if value is None:
            self.counts.add("malformed")
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
