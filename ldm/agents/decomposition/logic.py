"""Plans as models write them: numbered steps, and And/Or over their numbers (ADaPT §3.2, App. B).

A plan reads "Step 1: …", "Step 2: …" and "Execution Order: (Step 1 OR Step 2) AND Step 3". The
parser tolerates models' deviations from that form, and reads any text in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Operator = Literal["and", "or"]

#: A plan that mentions steps more often than this repeats itself and is not followed.
MOST_MENTIONS = 40

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_EDGES = _OPENING | _CLOSING | {","}
_TOKEN = re.compile(r"\d+|[^\W\d_]+|[()\[\]{},;+:=]|&+|\|+|->|→|-|–")
_AND = frozenset({"and", "&", "&&"})
_OR = frozenset({"or", "|", "||", "else"})
_RANGE = frozenset({"-", "–", "to", "through"})
#: Separators of steps that express only their order.
_NEXT = frozenset({"then", "+", ",", ";", ":", "=", "->", "→"})
_STEP = frozenset({"sub", "step", "steps", "subtask", "subtasks", "task", "tasks"})
#: Characters allowed on either side of a step's bare number.
_BESIDE = _AND | _OR | _RANGE | _NEXT | _STEP | {*_OPENING, *_CLOSING, ""}

_STEP_LINE = re.compile(
    r"[\s#>*\-]*(?:(?:sub-?task|step|task)\s*#?(?P<named>\d+)[*_]*\s?(?:\([^()]*\)\s?)?[:.)\-–]"
    r"|(?P<bare>\d+)[.):])[\s*_]*(?P<text>.*)",
    re.IGNORECASE,
)
_ORDER_LINE = re.compile(
    r"[\s#>*\-]*(?:(?:the\s+)?(?:order\s+of\s+)?(?:execution|logic|logical)\b[^:=(\d]*"
    r"|order\b[\s*_]*[:=])[\s*_]*[:=]?(?P<text>.*)",
    re.IGNORECASE,
)
#: The start of a step or of the execution order within a line.
_WITHIN = re.compile(
    r"(?<=[.!?;])[ \t]+(?=[*_]*(?:sub-?task|step|task) ?#?\d+[*_]*\s?:)"
    r"|(?<=\S)[ \t]+(?=[*_]*execution order\b[\s*_]*[:=])",
    re.IGNORECASE,
)
_LOGIC_ALONE = re.compile(
    r"(?:[\s\d()\[\]{},;&|+*`.>-]|(?:and|or|then|steps?)(?![a-z]))+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Group:
    """Two or more parts joined by one operator; nested groups have the other operator."""

    operator: Operator
    parts: tuple[Logic, ...]


#: A step's number, or a group of parts.
Logic = int | Group


@dataclass(frozen=True, slots=True)
class Plan:
    """A planner's sub-tasks and their logic.

    steps: number → sub-task. logic: None if there are no steps at all.
    flaw: why the logic could not be read and is And over all steps instead; "" if it was read.
    """

    steps: Mapping[int, str]
    logic: Logic | None
    flaw: str = ""


def parse_plan(text: str, *, cut: bool = False) -> Plan:
    """Return the plan in a model's reply, which may be cut off before its order. Never raises.

    A repeated number is ignored, and so is everything after the execution order. If some steps are
    named, as in "Step 1: …", a list with bare numbers is a part of a step or of a thought, unless
    it continues the count. An order before the steps is read if none follows them.
    """
    lines = _WITHIN.sub("\n", text).splitlines()
    named = _named(lines)
    steps: dict[int, str] = {}
    orders: list[str] = []
    for at, line in enumerate(lines):
        if order := _ORDER_LINE.match(line):
            orders.append(_continued(order["text"], lines[at + 1 :]))
            if steps and (logic := parse_logic(orders[-1], steps)) is not None:
                return Plan(steps, logic)
        elif step := _STEP_LINE.match(line):
            number = int((step["named"] or step["bare"])[:6])
            listed = not named or (number not in named and steps and number == max(steps) + 1)
            if step["named"] or listed:
                task = step["text"] or _next_text(lines[at + 1 :])
                if task.strip("*_ "):
                    steps.setdefault(number, task.rstrip("*_; \t"))
    if not steps:
        return Plan({}, None, "there are no steps")
    for order_text in reversed(orders):
        if (logic := parse_logic(order_text, steps)) is not None:
            return Plan(steps, logic)
    if cut:
        return Plan(steps, None, "it was cut off")
    flaw = "there is no execution order"
    if orders:
        flaw = f"unusable order: {orders[-1].strip()[:200]}"
    return Plan(steps, joined("and", *steps), flaw)


def parse_logic(text: str, known: Collection[int]) -> Logic | None:
    """Return the logic over the `known` steps that `text` expresses; None if it is unusable.

    Any brackets will do; missing ones are supplied, superfluous ones ignored. Operators of one
    level are read from left to right, as the plan is carried out, so that "1 OR 2 AND 3" is
    (1 OR 2) AND 3. Neighbours without an operator are joined by And, unless it stands at the edge
    of a bracket, "1 (OR 2)", or before one that it applies to, "OR(1, 2)". Numbers of no step and
    all other words are left out.
    """
    stack = [_Level()]
    mentions = 0
    called: Operator | None = None
    tokens = list(_tokens(text))
    for before, part, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        level = stack[-1]
        if isinstance(part, int):
            if part in known:
                mentions += 1
                level.take(part)
            else:
                level.skip()
        elif part in _OPENING:
            stack.append(_Level() if called is None else _Level(called, called=True))
            called = None
        elif part in _CLOSING:
            if len(stack) > 1:
                stack.pop()
                stack[-1].absorb(level)
        elif part in ("and", "or"):
            operator: Operator = "or" if part == "or" else "and"
            first = not level.begun
            if after in _OPENING and (first or (level.called and before == ",")):
                called = operator
            if first or called is None:
                level.put(operator)
        if mentions > MOST_MENTIONS:
            return None
    while len(stack) > 1:
        closed = stack.pop()
        stack[-1].absorb(closed)
    return stack[0].value


def joined(operator: Operator, *parts: Logic) -> Logic:
    """Join `parts` by one operator, without a group for a single part or within an equal group."""
    flat: list[Logic] = []
    for part in parts:
        if isinstance(part, Group) and part.operator == operator:
            flat.extend(part.parts)
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Group(operator, tuple(flat))


def written(logic: Logic) -> str:
    """Return the logic in the form of `parse_logic`, e.g. "(Step 1 OR Step 2) AND Step 3"."""
    if isinstance(logic, int):
        return f"Step {logic}"
    parts = (f"({written(p)})" if isinstance(p, Group) else written(p) for p in logic.parts)
    return f" {logic.operator.upper()} ".join(parts)


@dataclass(slots=True)
class _Level:
    """An open bracket: its parts so far, and the operators that wait for a neighbour.

    joiner: of neighbours without an operator; `called` if it stood before the bracket: OR(1, 2).
    begun: whether any step was mentioned. leading: an operator before the first one. pending: one
    after the last.
    """

    joiner: Operator = "and"
    called: bool = False
    begun: bool = False
    value: Logic | None = None
    leading: Operator | None = None
    pending: Operator | None = None

    def put(self, operator: Operator) -> None:
        if self.begun:
            self.pending = operator
        else:
            self.leading = operator

    def take(self, part: Logic) -> None:
        operator = self.pending or self.joiner
        self.value = part if self.value is None else joined(operator, self.value, part)
        self.skip()

    def skip(self) -> None:
        """Skip an unknown step and the operator before it."""
        self.begun, self.pending = True, None

    def absorb(self, inner: _Level) -> None:
        """Add a closed bracket; operators at its edges apply to its neighbours."""
        if inner.leading is not None and self.pending is None:
            self.put(inner.leading)
        if inner.value is not None:
            self.take(inner.value)
        elif inner.begun:
            self.skip()
        if inner.pending is not None:
            self.put(inner.pending)


def _named(lines: list[str]) -> set[int]:
    """Return the numbers of steps named as in "Step 1: …", up to the execution order."""
    numbers: set[int] = set()
    begun = False
    for line in lines:
        if begun and _ORDER_LINE.match(line):
            break
        if step := _STEP_LINE.match(line):
            begun = True
            if step["named"]:
                numbers.add(int(step["named"][:6]))
    return numbers


def _next_text(following: list[str]) -> str:
    """Return the line below a step's bare label; "" if it is no description of the step."""
    line = next((line for line in following if line.strip()), "")
    return "" if _STEP_LINE.match(line) or _ORDER_LINE.match(line) else line.strip(" \t>*-")


def _continued(order: str, following: list[str]) -> str:
    """Return the execution order with the following lines that hold nothing but logic."""
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
    """Yield step numbers, brackets, commas, "and", "or"; a number among other words is no step.

    A range "1-3" or "1 to 3" yields its numbers in order.
    """
    tokens = [match.group().lower() for match in _TOKEN.finditer(text)]
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
        elif token in _EDGES:
            yield token
            ranged = False
        elif token in _AND or token in _OR:
            yield "or" if token in _OR else "and"
            ranged = False
