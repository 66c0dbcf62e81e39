"""Asking a model for a decision's parts: forms of replies, what fits, and what was no use."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from ldm import prompts
from ldm.errors import ContextTooLong
from ldm.llm import GREEDY, LLM, Completion

#: Least similarity, in [0, 1], of an answer to the admissible action it is taken for.
CLOSE = 0.8
#: What is tried where the model has no room: so much of the recalls and of every text.
EFFORTS = (1.0, 0.5, 0.25)
#: Characters of a few words in a reply.
WORDS = 80

#: What stands between several actions; not in brackets, where words are searched for.
_SEVERAL = re.compile(r"\s*;(?![^\[]*\])\s*| and then ")

Match = Literal["exact", "normalised", "closest", "none", "free"]
T = TypeVar("T")


def _bounded(length: int) -> Any:
    """Before validation: a text or list cut to `length`, for servers that enforce no bound."""
    return BeforeValidator(lambda value: value[:length] if isinstance(value, str | list) else value)


#: A few words; some sentences; an action. Without a bound a small model goes on and on.
#: The cutting comes last in each, which is first in time: so the schema says maxItems of lists.
Words = Annotated[str, Field(max_length=WORDS), _bounded(WORDS)]
Paragraph = Annotated[str, Field(max_length=320), _bounded(320)]
Line = Annotated[str, Field(max_length=160), _bounded(160)]
#: Sub-goals of a task, and how many of them: a small model writes any number there.
MOST_SUB_GOALS = 6
Few = Annotated[tuple[Words, ...], Field(max_length=MOST_SUB_GOALS), _bounded(MOST_SUB_GOALS)]
Count = Annotated[
    int,
    Field(ge=0, le=MOST_SUB_GOALS),
    BeforeValidator(lambda n: min(max(n, 0), MOST_SUB_GOALS) if isinstance(n, int) else n),
]


@dataclass(frozen=True)
class NotesForm:
    """What a model notes as it decides. complete: how many of the sub-goals, taken in order.

    Nothing on what it found: it sees what came of its last actions, and copied its own findings of
    the step before. Nothing in its own words on what is to do: it named an action there, and
    followed its own note from then on.
    """

    held: Words
    complete: Count


@dataclass(frozen=True)
class SubGoalsForm:
    """The parts of a task, in the order in which they get done."""

    sub_goals: Few


@dataclass(frozen=True)
class StepForm:
    """How things stood after a step. complete: how many of the sub-goals, taken in order.

    The action comes first: having copied it, a small model stays with the step that it is at.
    """

    action: Words
    found: Words
    held: Words
    complete: int


@dataclass(frozen=True)
class AssessmentForm:
    complete: Words
    incomplete: Words


@dataclass(frozen=True)
class SummaryForm:
    summary: Paragraph


@dataclass(frozen=True)
class ActionForm:
    action: Line


@dataclass(frozen=True)
class NotedActionForm(NotesForm):
    action: Line


def one_of(actions: Sequence[str], notes: bool) -> type[Any]:
    """A form with one of the `actions`, as `action`, with notes or without.

    Servers that enforce schemas give no other; what another one says is taken as it is.
    """
    action = Annotated[Line, Field(json_schema_extra={"enum": list(actions)})]
    bases = (NotesForm,) if notes else ()
    return make_dataclass("PossibleActionForm", [("action", action)], bases=bases, frozen=True)


@cache
def choice_of(candidates: int, notes: bool) -> type[Any]:
    """A form with the number of one of the `candidates`, as `choice`, with notes or without."""
    number = Annotated[int, Field(ge=1, le=candidates)]
    bases = (NotesForm,) if notes else ()
    return make_dataclass(f"ChoiceOf{candidates}", [("choice", number)], bases=bases, frozen=True)


@dataclass(frozen=True)
class WeighedForm:
    action: Line
    confidence: float


#: More proposals than are asked for; what is beyond those is dropped later, by confidence.
Weighed = Annotated[tuple[WeighedForm, ...], Field(min_length=1, max_length=10), _bounded(10)]


@dataclass(frozen=True)
class ActionsForm:
    actions: Weighed


@dataclass(frozen=True)
class NotedActionsForm(NotesForm):
    actions: Weighed


@cache
def notes_after(first: int, last: int) -> type[Any]:
    """A form with one `StepForm` for each of the steps `first` to `last`: no more, no fewer."""
    fields = [(f"after_step_{number}", StepForm) for number in range(first, last + 1)]
    return make_dataclass(f"NotesAfter{first}To{last}", fields, frozen=True)


@cache
def numbered(items: int, upto: int, first: int = 1) -> type[Any]:
    """A form with a number from `first` to `upto` for each of `items` items."""
    number = Annotated[int, Field(ge=first, le=upto)]
    return make_dataclass(
        f"Numbers{items}From{first}To{upto}",
        [(f"item_{place}", number) for place in range(1, items + 1)],
        frozen=True,
    )


@cache
def types_of(items: int, most: int) -> type[Any]:
    """A form with 1 to `most` types (`types`), each with a `name` and `members` of `items` items.

    A server that enforces it gives every type a member; of another one's reply, what is no number
    of an item is left out, then types without any, then those beyond the last that is wanted.
    """
    number = Annotated[int, Field(ge=1, le=items)]
    # Types should be of about equal size, and a small model lists all items in each of them.
    largest = max(2, items // 2 + 1)
    members = Annotated[
        tuple[number, ...], Field(min_length=1, max_length=largest), _bounded(largest)
    ]
    kind = make_dataclass(f"TypeOf{items}", [("name", Words), ("members", members)], frozen=True)

    def real(found: Any) -> Any:
        if not isinstance(found, list):
            return found
        kept = []
        for one in found:
            if isinstance(one, dict) and isinstance(one.get("members"), list):
                numbers = [n for n in one["members"] if isinstance(n, int) and 1 <= n <= items]
                one = {**one, "members": numbers}
                if not numbers:
                    continue
            kept.append(one)
        return kept[:most]

    several = tuple[kind, ...]  # type: ignore[valid-type] # made above
    few = Annotated[several, Field(min_length=1, max_length=most), BeforeValidator(real)]
    return make_dataclass(f"{most}TypesOf{items}", [("types", few)], frozen=True)


def values(form: Any) -> list[Any]:
    """The values of a form's fields, in their order."""
    return list(vars(form).values())


@dataclass
class Tally:
    """What became of replies, counted. Safe in several threads."""

    _counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str, times: int = 1) -> None:
        with self._lock:
            self._counts[what] += times

    def counts(self) -> dict[str, int]:
        """What was counted, by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))


class Asker:
    """Renders prompts, sends them to one model, and counts what came back."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.tally = Tally()

    def ask(self, prompt: str, form: type[Any], max_tokens: int, **given: Any) -> Completion:
        """The model's reply in a form. Raises what `LLM.complete` raises."""
        completion = self.llm.complete(
            prompts.render(f"reasoner/{prompt}", **given),
            schema=form,
            sampling=GREEDY,
            max_tokens=max_tokens,
        )
        self.tally.add("replies")
        if completion.malformed:
            self.tally.add("malformed")
        return completion


def fitting(ask: Callable[[float], T]) -> T:
    """The answer to the fullest question that the model has room for.

    ask: told how much of the texts to show, 1 is all. Raises ContextTooLong where even the shortest
    is too long.
    """
    for effort in EFFORTS[:-1]:
        try:
            return ask(effort)
        except ContextTooLong:
            continue
    return ask(EFFORTS[-1])


def fitting_or_none(ask: Callable[[float], T]) -> T | None:
    """As `fitting`; None where not even the shortest question fits."""
    try:
        return fitting(ask)
    except ContextTooLong:
        return None


def salvaged(text: str, name: str) -> str:
    """The string `name` of a reply whose JSON is broken, or its first line if it is plain text."""
    if found := re.search(rf'"{name}"\s*:\s*"((?:[^"\\\n]|\\.)*)', text):
        return found[1].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines and not lines[0].startswith(("{", "```", "[")) else ""


def matched(answer: str, admissible: Sequence[str] | None) -> tuple[str, Match]:
    """The admissible action that an answer means, and how it was told.

    "free" where nothing is known to be admissible, "none" where nothing is close: the answer is
    then given as it is, and the world may refuse it. Ties keep the order of `admissible`.
    """
    answer = " ".join(answer.split())
    if not admissible:
        return answer, "free"
    if answer in admissible:
        return answer, "exact"
    known = [normalised(action) for action in admissible]
    said = normalised(answer)
    if said not in known:  # of several actions the first
        said = normalised(_SEVERAL.split(answer)[0])
    if said in known:
        return admissible[known.index(said)], "normalised"
    likeness = [_likeness(said, action) for action in known]
    best = max(range(len(known)), key=lambda i: (likeness[i], -i))
    return (admissible[best], "closest") if likeness[best] >= CLOSE else (answer, "none")


def _likeness(said: str, action: str) -> float:
    """How alike two normalised actions are, in [0, 1]; 0 where they mean two things for sure.

    Another number is no slip of the pen but another thing: "cabinet 1" is not "cabinet 2". A name
    in brackets has to be alike by itself: the verb before it would make "click[large]" and
    "click[x-large]" one.
    """
    from rapidfuzz.distance import Levenshtein

    if re.findall(r"\d+", said) != re.findall(r"\d+", action):
        return 0.0
    likeness = Levenshtein.normalized_similarity(said, action)
    names = [text.partition("[")[2] for text in (said, action)]
    return min(likeness, Levenshtein.normalized_similarity(*names)) if all(names) else likeness


def normalised(action: str) -> str:
    """An action without what models wrap around one: case, quotes, articles, an "Action:"."""
    bare = re.sub(r"^\W*(?:next )?(?:action|do|act)\s*:\s*", "", action.lower())
    bare = re.sub(r"\b(?:the|a|an)\s+", "", bare)
    return " ".join(re.sub(r"[^\w\[\]<>/$%.,' -]", " ", bare).strip(" .'-").split())
