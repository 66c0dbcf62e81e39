"""Plans as models write them: numbered steps, and And/Or over their numbers (ADaPT §3.3).

A plan reads "Step 1: …", "Step 2: …" and "Execution Order: (Step 1 OR Step 2) AND Step 3". What
models make of that form is read as it is meant, in one pass over the text, whatever is in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

Operator = Literal["and", "or"]

#: A plan that mentions steps more often than that repeats itself and is not followed.
MOST_MENTIONS = 40

_OPENING, _CLOSING = "([{", ")]}"
_TOKEN = re.compile(r"\d+|[^\W\d_]+|[()\[\]{},;+:=]|&+|\|+|->|→|-|–")
_AND = frozenset({"and", "&", "&&"})
_OR = frozenset({"or", "|", "||", "else"})
_RANGE = frozenset({"-", "–", "to", "through"})
#: What stands between steps and means no more than their order.
_NEXT = frozenset({"then", "+", ",", ";", ":", "=", "->", "→"})
_STEP = frozenset({"sub", "step", "steps", "subtask", "subtasks", "task", "tasks"})
#: What may stand on either side of a step's bare number.
_BESIDE = _AND | _OR | _RANGE | _NEXT | _STEP | {*_OPENING, *_CLOSING, ""}

_STEP_LINE = re.compile(
    r"[\s#>*\-]*(?:(?:sub-?task|step|task)\s*#?(?P<named>\d+)[*_]*\s?[:.)\-–]"
    r"|(?P<bare>\d+)[.):])[\s*_]*(?P<text>\S.*)",
    re.IGNORECASE,
)
_ORDER_LINE = re.compile(
    r"[\s#>*\-]*(?:(?:execution|logic|logical)\b[^:=(\d]*|order\b[\s*_]*[:=])[\s*_]*[:=]?(?P<text>.*)",
    re.IGNORECASE,
)
_LOGIC_ALONE = re.compile(
    r"(?:[\s\d()\[\]{},;&|+*`.>-]|(?:and|or|then|steps?)(?![a-z]))+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Group:
    """Two or more parts joined by one operator; a part that is a group has the other operator."""

    operator: Operator
    parts: tuple[Logic, ...]


#: A step's number, or a group of such.
Logic = int | Group


@dataclass(frozen=True, slots=True)
class Plan:
    """A planner's sub-tasks and their logic.

    steps: number → sub-task. logic: None where there are no steps at all.
    flaw: why the logic could not be read and is And over all steps instead; "" where it was read.
    """

    steps: Mapping[int, str]
    logic: Logic | None
    flaw: str = ""

    def __str__(self) -> str:
        lines = [f"Step {number}: {text}" for number, text in self.steps.items()]
        order = "none" if self.logic is None else written(self.logic)
        return "\n".join([*lines, f"Execution Order: {order}"])


def parse_plan(text: str) -> Plan:
    """The plan in a model's reply. Never raises.

    A number that comes again is ignored, and so is everything behind the execution order.
    """
    steps: dict[int, str] = {}
    flaw = "there is no execution order"
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if steps and (order := _ORDER_LINE.match(line)):
            said = _continued(order["text"], lines[at + 1 :])
            logic = parse_logic(said, steps)
            if logic is not None:
                return Plan(steps, logic)
            flaw = f"unusable order: {said.strip()[:200]}"
        elif step := _STEP_LINE.match(line):
            number = int((step["named"] or step["bare"])[:6])
            steps.setdefault(number, step["text"].rstrip().rstrip("*_").rstrip())
    if not steps:
        return Plan({}, None, "there are no steps")
    return Plan(steps, joined("and", *steps), flaw)


def parse_logic(text: str, known: Collection[int]) -> Logic | None:
    """The logic over the `known` steps that `text` means; None where it says nothing usable.

    Any brackets will do; missing ones are supplied, superfluous ones ignored. Operators of one
    level are read from left to right, as the plan is carried out, so that "1 OR 2 AND 3" is
    (1 OR 2) AND 3. Neighbours without an operator are joined by And. Numbers that are no step, and
    words that are none of this, are left out.
    """
    stack = [_Level()]
    mentions = 0
    for found in _tokens(text):
        level = stack[-1]
        if isinstance(found, int):
            if found in known:
                mentions += 1
                level.take(found)
        elif found in _OPENING:
            stack.append(_Level())
        elif found in _CLOSING:
            if len(stack) > 1:
                stack.pop()
                stack[-1].take(level.value)
        elif found == "or":
            level.operator = "or"
        else:
            level.operator = "and"
        if mentions > MOST_MENTIONS:
            return None
    while len(stack) > 1:
        closed = stack.pop()
        stack[-1].take(closed.value)
    return stack[0].value


def joined(operator: Operator, *parts: Logic) -> Logic:
    """`parts` under one operator, without a group for a single part or within an equal group."""
    flat: list[Logic] = []
    for part in parts:
        if isinstance(part, Group) and part.operator == operator:
            flat.extend(part.parts)
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Group(operator, tuple(flat))


def written(logic: Logic) -> str:
    """The logic in the form that `parse_logic` reads, e.g. "(Step 1 OR Step 2) AND Step 3"."""
    if isinstance(logic, int):
        return f"Step {logic}"
    parts = (f"({written(p)})" if isinstance(p, Group) else written(p) for p in logic.parts)
    return f" {logic.operator.upper()} ".join(parts)


@dataclass(slots=True)
class _Level:
    """A bracket that is open: what it holds so far, and the operator before what comes next."""

    value: Logic | None = None
    operator: Operator = field(default="and")

    def take(self, part: Logic | None) -> None:
        if part is not None:
            self.value = part if self.value is None else joined(self.operator, self.value, part)
            self.operator = "and"


def _continued(order: str, following: list[str]) -> str:
    """The execution order with the lines behind it that hold nothing but logic."""
    parts = [order]
    for line in following:
        if not line.strip():
            if any(part.strip() for part in parts):
                break
        elif _LOGIC_ALONE.fullmatch(line):
            parts.append(line)
        else:
            break
    return " ".join(parts)


def _tokens(text: str) -> Iterator[int | str]:
    """Step numbers, brackets, "and" and "or"; a number among other words is no step's.

    A range "1-3" or "1 to 3" is its numbers in their order.
    """
    tokens = [found.group().lower() for found in _TOKEN.finditer(text)]
    last, ranged = 0, False
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        if token.isdecimal():
            alone = all(near in _BESIDE or near.isdecimal() for near in (before, after))
            if before in _STEP or alone:
                number = int(token[:6])
                if ranged and last < number <= last + MOST_MENTIONS:
                    yield from range(last + 1, number)
                yield number
                last = number
            ranged = False
        elif token in _RANGE:
            ranged = before.isdecimal()
        elif token in _OPENING or token in _CLOSING:
            yield token
            ranged = False
        elif token in _AND or token in _OR:
            yield "or" if token in _OR else "and"
            ranged = False
