"""A model's replies: their forms, requests and counts, and how they are matched to actions.

Names of the forms' classes and fields are part of the JSON Schema that is sent, and so of the key
of a recorded call: recordings replay only with the same names.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, Field

from ldm import prompts
from ldm.errors import ContextTooLong
from ldm.llm import GREEDY, LLM, Completion

#: Characters of a few words in a reply.
WORDS = 80
#: Characters of an action in a reply, if no listed one is longer.
ACTION = 160
#: Lengths of actions go in steps of this size, so that requests stay alike from state to state.
ACTION_STEP = 80
#: Maximum actions that a reply plans to follow its own.
PLANNED = 10
#: Maximum sub-goals of an evaluation: a small model may write any number of them.
MOST_SUB_GOALS = 10
#: The first word of each in a history.
SUB_GOAL = "Subgoal"


def _bounded(length: int) -> Any:
    """Cut a text or list to `length` before validation, for servers that enforce no bound."""
    return BeforeValidator(lambda value: value[:length] if isinstance(value, str | list) else value)


# A few words; some sentences; an action. Without a bound a small model does not stop. `_bounded` is
# written last, so that it runs first and the schema still has maxItems for lists.
Words = Annotated[str, Field(max_length=WORDS), _bounded(WORDS)]
Phrase = Annotated[str, Field(max_length=2 * WORDS), _bounded(2 * WORDS)]
Paragraph = Annotated[str, Field(max_length=320), _bounded(320)]


@dataclass(frozen=True)
class EvaluationForm:
    """The sub-goals of a task, in order, and the numbers of those that are complete."""

    sub_goals: Annotated[
        tuple[Phrase, ...], Field(min_length=1, max_length=MOST_SUB_GOALS), _bounded(MOST_SUB_GOALS)
    ]
    complete: Annotated[tuple[int, ...], Field(max_length=MOST_SUB_GOALS), _bounded(MOST_SUB_GOALS)]

    @property
    def text(self) -> str:
        """The sub-goals as LDM² prints them (Table 6)."""
        lines = list[str]()
        for number, text in enumerate(self.sub_goals, 1):
            status = "Complete" if number in self.complete else "Incomplete"
            if words := " ".join(text.split()):
                lines.append(f"{SUB_GOAL} {len(lines) + 1}: {words} - {status}")
        return "\n".join(lines)


@dataclass(frozen=True)
class SummaryForm:
    """The past in a paragraph."""

    summary: Paragraph


def action_length(listed: Sequence[str]) -> int:
    """Return the maximum length of an action: that of the longest listed one."""
    longest = max([ACTION, *(len(action) for action in listed)])
    return -(-longest // ACTION_STEP) * ACTION_STEP


def _line(length: int) -> Any:
    return Annotated[str, Field(max_length=length), _bounded(length)]


def _several(of: Any, most: int, least: int | None = None) -> Any:
    """Return the type of a bounded number of values."""
    return Annotated[tuple[of, ...], Field(min_length=least, max_length=most), _bounded(most)]


@cache
def decision_form(plan: bool, length: int = ACTION, among: tuple[str, ...] = ()) -> type[Any]:
    """Return a form with the next action, as `action`, of up to `length` characters.

    plan: whether it may be followed by further ones, as in the other forms. among: if given, a
    server that enforces schemas returns one of these; the reply of another one is taken as it is.
    """
    line = _line(length)
    if among:
        line = Annotated[line, Field(json_schema_extra={"enum": [*among]})]
    return _form("ActionForm", [("action", line)], plan, length)


@cache
def proposals_form(length: int = ACTION) -> type[Any]:
    """Return a form with several next `actions`, each with a `confidence`.

    There may be more than are asked for; the least confident are dropped later.
    """
    weighed = make_dataclass(
        "WeighedForm", [("action", _line(length)), ("confidence", float)], frozen=True
    )
    return _form("ActionsForm", [("actions", _several(weighed, 10, 1))], plan=False)


@cache
def choice_form(candidates: int, plan: bool, length: int = ACTION) -> type[Any]:
    """Return a form with the number of a candidate as `choice`, or 0 and another `action`."""
    number = Annotated[int, Field(ge=0, le=candidates)]
    fields = [("choice", number), ("action", _line(length))]
    return _form(f"ChoiceOf{candidates}", fields, plan, length)


def _form(name: str, fields: list[tuple[str, Any]], plan: bool, length: int = ACTION) -> type[Any]:
    """Return a form with `fields`, and a plan that may be left out."""
    more: list[Any] = [("then", _several(_line(length), PLANNED), ())] if plan else []
    return make_dataclass(name, [*fields, *more], frozen=True)


@cache
def numbers_form(items: int, last: int, first: int = 1) -> type[Any]:
    """Return a form with a number from `first` to `last` for each of `items` items."""
    number = Annotated[int, Field(ge=first, le=last)]
    return make_dataclass(
        f"Numbers{items}From{first}To{last}",
        [(f"item_{place}", number) for place in range(1, items + 1)],
        frozen=True,
    )


@cache
def types_form(items: int, most: int) -> type[Any]:
    """Return a form with 1 to `most` types (`types`), each with a `name` and numbers of `members`.

    items: the number of items to divide. In the reply of a server that does not enforce the form,
    numbers of no item are dropped, then types without members, then types beyond `most`.
    """
    number = Annotated[int, Field(ge=1, le=items)]
    # Types should be of about equal size, and a small model lists all items in each of them.
    largest = max(2, items // 2 + 1)
    members = _several(number, largest, 1)
    type_form = make_dataclass(
        f"TypeOf{items}", [("name", Words), ("members", members)], frozen=True
    )

    def with_members(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        types = []
        for entry in value:
            if isinstance(entry, dict) and isinstance(entry.get("members"), list):
                numbers = [n for n in entry["members"] if isinstance(n, int) and 1 <= n <= items]
                if numbers:
                    types.append({**entry, "members": numbers})
            else:
                types.append(entry)
        return types[:most]

    several = tuple[type_form, ...]  # type: ignore[valid-type] # a class made above
    types = Annotated[several, Field(min_length=1, max_length=most), BeforeValidator(with_members)]
    return make_dataclass(f"{most}TypesOf{items}", [("types", types)], frozen=True)


def field_values(form: Any) -> list[Any]:
    """Return the values of a filled form's fields, in their order."""
    return list(vars(form).values())


#: Minimum similarity, in [0, 1], of an answer to the admissible action it is taken for.
MIN_SIMILARITY = 0.8
#: The shares of recalls and texts that are tried in turn if the model's context is too short.
TEXT_SHARES = (1.0, 0.5, 0.25)

#: The separator of several actions or numbers of one; not in brackets, which may hold search terms.
_SEPARATOR = re.compile(r"\s*;(?![^\[]*\])\s*| and then |(?<=\d), (?=\d)")

#: An action with an argument in brackets, within any other text.
_CALL = re.compile(r"\b(\w+)\[(.*)\]")

Match = Literal["exact", "normalised", "closest", "none", "free"]
T = TypeVar("T")


class Prompter:
    """Renders prompts, sends them to one model, and counts its replies. Thread-safe.

    at_once: the number of items that one question may classify.
    """

    at_once: ClassVar[int] = 16

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self._counts = Counter[str]()
        self._lock = threading.Lock()

    def count(self, name: str) -> None:
        """Count one more of `name`."""
        with self._lock:
            self._counts[name] += 1

    def counts(self) -> dict[str, int]:
        """Return the counts so far, sorted by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    def ask(self, prompt: str, form: type[Any], max_tokens: int, **variables: Any) -> Completion:
        """Return the model's reply to the prompt `reasoner/PROMPT` with these variables.

        form: the dataclass that the reply fills in; `Completion.value` is None if it does not.
        Raise the errors of `LLM.complete`.
        """
        completion = self._completion(prompt, form, max_tokens, variables)
        self.count("replies")
        if completion.malformed:
            self.count("malformed")
        return completion

    def _completion(
        self, prompt: str, form: type[Any], max_tokens: int, variables: Mapping[str, Any]
    ) -> Completion:
        messages = prompts.render(f"reasoner/{prompt}", **variables)
        return self.llm.complete(messages, schema=form, sampling=GREEDY, max_tokens=max_tokens)


def fit_context(ask: Callable[[float], T]) -> T:
    """Return the answer to the longest question that fits the model's context.

    ask: asks with a share of the recalls and texts, 1 for all of them.
    Raise ContextTooLong if even the shortest question does not fit.
    """
    for share in TEXT_SHARES[:-1]:
        try:
            return ask(share)
        except ContextTooLong:
            continue
    return ask(TEXT_SHARES[-1])


def fit_context_or_none(ask: Callable[[float], T]) -> T | None:
    """Return the result of `fit_context`, or None if even the shortest question does not fit."""
    try:
        return fit_context(ask)
    except ContextTooLong:
        return None


def salvage_field(text: str, name: str) -> str:
    """Return field `name` of a reply with broken JSON, or the first line of one in plain text."""
    if match := re.search(rf'"{name}"\s*:\s*"((?:[^"\\\n]|\\.)*)', text):
        return match[1].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines and not lines[0].startswith(("{", "```", "[")) else ""


def match_action(
    answer: str, admissible: Sequence[str] | None, free: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, Match]:
    """Return the admissible action that an answer means, and how it was recognised.

    "free" if no actions are listed or the argument is free; "none" if nothing is similar: then the
    answer is returned as it is, and the environment may refuse it. Ties keep the order of
    `admissible`.

    free: verb → the placeholder of a free argument (`Card.free`).
    """
    answer = " ".join(answer.split())
    if not admissible:
        return answer, "free"
    if answer not in admissible and (match := _CALL.search(answer)):
        verb, argument = match[1].lower(), match[2].strip()
        listed = [action for action in admissible if action.startswith(f"{verb}[")]
        if verb in free and listed:
            # A copied placeholder stands for the listed argument.
            copied = argument in ("", free[verb])
            return (listed[0], "normalised") if copied else (f"{verb}[{argument}]", "free")
    if answer in admissible:
        return answer, "exact"
    normalised = [normalise_action(action) for action in admissible]
    action = normalise_action(answer)
    if action not in normalised:  # of several actions the first
        action = normalise_action(_SEPARATOR.split(answer)[0])
    if action in normalised:
        return admissible[normalised.index(action)], "normalised"
    similarity = [_similarity(action, other) for other in normalised]
    best = max(range(len(normalised)), key=lambda i: (similarity[i], -i))
    if similarity[best] >= MIN_SIMILARITY:
        return admissible[best], "closest"
    return answer, "none"


def _similarity(answer: str, action: str) -> float:
    """Return the similarity of two normalised actions, in [0, 1]; 0 if they surely differ.

    Another number means another thing: "cabinet 1" is not "cabinet 2". A name in brackets must be
    similar by itself: with the verb, "click[large]" and "click[x-large]" would be the same.
    """
    from rapidfuzz.distance import Levenshtein

    if re.findall(r"\d+", answer) != re.findall(r"\d+", action):
        return 0.0
    similarity = Levenshtein.normalized_similarity(answer, action)
    names = [text.partition("[")[2] for text in (answer, action)]
    return min(similarity, Levenshtein.normalized_similarity(*names)) if all(names) else similarity


def normalise_action(action: str) -> str:
    """Return an action without case, quotes, articles and an "Action:" before it."""
    bare = re.sub(r"^\W*(?:next )?(?:action|do|act)\s*:\s*", "", action.lower())
    bare = re.sub(r"\b(?:the|a|an)\s+", "", bare)
    return " ".join(re.sub(r"[^\w\[\]<>/$%.,' -]", " ", bare).strip(" .'-").split())
