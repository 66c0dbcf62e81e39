"""The forms of replies: what a model fills in when it is asked a question.

Names of classes and fields are part of the JSON Schema that is sent, and so of what a recorded call
is looked up by: with another name, recordings no longer replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

#: Characters of a few words in a reply.
WORDS = 80
#: Sub-goals of a task: a small model writes any number of them.
MOST_SUB_GOALS = 6


def _bounded(length: int) -> Any:
    """Cut a text or list to `length` before validation, for servers that enforce no bound."""
    return BeforeValidator(lambda value: value[:length] if isinstance(value, str | list) else value)


# A few words; some sentences; an action. Without a bound a small model goes on and on. `_bounded`
# is written last, so that it runs first and the schema still says maxItems of lists.
Words = Annotated[str, Field(max_length=WORDS), _bounded(WORDS)]
Paragraph = Annotated[str, Field(max_length=320), _bounded(320)]
Line = Annotated[str, Field(max_length=160), _bounded(160)]
SubGoals = Annotated[tuple[Words, ...], Field(max_length=MOST_SUB_GOALS), _bounded(MOST_SUB_GOALS)]
Count = Annotated[
    int,
    Field(ge=0, le=MOST_SUB_GOALS),
    BeforeValidator(lambda n: min(max(n, 0), MOST_SUB_GOALS) if isinstance(n, int) else n),
]


@dataclass(frozen=True)
class NotesForm:
    """What a model notes as it decides. complete: how many of the sub-goals, taken in order.

    It is not asked what it found: it sees what came of its last actions, and repeated its findings
    of the step before. Nor is it asked in its own words what is to do: it named an action there,
    and followed its own note from then on.
    """

    held: Words
    complete: Count


@dataclass(frozen=True)
class SubGoalsForm:
    """The parts of a task, in the order in which they get done."""

    sub_goals: SubGoals


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
    """The sub-goals that are complete, and those that are not."""

    complete: Words
    incomplete: Words


@dataclass(frozen=True)
class SummaryForm:
    """The past in a paragraph."""

    summary: Paragraph


@dataclass(frozen=True)
class ActionForm:
    """The next action."""

    action: Line


@dataclass(frozen=True)
class NotedActionForm(NotesForm):
    """Notes, and the next action."""

    action: Line


@dataclass(frozen=True)
class WeighedForm:
    """One of several next actions."""

    action: Line
    confidence: float


#: More actions than are asked for; the least confident are dropped later.
Weighed = Annotated[tuple[WeighedForm, ...], Field(min_length=1, max_length=10), _bounded(10)]


@dataclass(frozen=True)
class ActionsForm:
    """Several next actions."""

    actions: Weighed


@dataclass(frozen=True)
class NotedActionsForm(NotesForm):
    """Notes, and several next actions."""

    actions: Weighed


def action_form(actions: Sequence[str], notes: bool) -> type[Any]:
    """Return a form with one of the `actions`, as `action`, with notes or without.

    Servers that enforce schemas return one of them; the reply of another server is taken as it is.
    """
    action = Annotated[Line, Field(json_schema_extra={"enum": list(actions)})]
    bases = (NotesForm,) if notes else ()
    return make_dataclass("PossibleActionForm", [("action", action)], bases=bases, frozen=True)


@cache
def choice_form(candidates: int, notes: bool) -> type[Any]:
    """Return a form with the number of a candidate, as `choice`, with notes or without."""
    number = Annotated[int, Field(ge=1, le=candidates)]
    bases = (NotesForm,) if notes else ()
    return make_dataclass(f"ChoiceOf{candidates}", [("choice", number)], bases=bases, frozen=True)


@cache
def steps_form(first: int, last: int) -> type[Any]:
    """Return a form with one `StepForm` for each of the steps `first` to `last`."""
    fields = [(f"after_step_{number}", StepForm) for number in range(first, last + 1)]
    return make_dataclass(f"NotesAfter{first}To{last}", fields, frozen=True)


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

    items: how many there are to be divided. A server that enforces the form gives every type a
    member; in the reply of another one, numbers of no item are dropped, then types without any
    member, then types beyond `most`.
    """
    number = Annotated[int, Field(ge=1, le=items)]
    # Types should be of about equal size, and a small model lists all items in each of them.
    largest = max(2, items // 2 + 1)
    members = Annotated[
        tuple[number, ...], Field(min_length=1, max_length=largest), _bounded(largest)
    ]
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
