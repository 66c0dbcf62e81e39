"""Programs that are policies (Code as Policies, DEPS App. G): a small interpreter over `ast`.

It knows while, assert and calls, within at most one function. Anything else is malformed output;
Python executes none of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ldm.deps.parser import LONGEST_REPLY, Goal, Vocabulary, words_of

#: Maximum rounds of one loop, and maximum statements in all.
MOST_ROUNDS, MOST_STATEMENTS = 200, 5000
#: Maximum depth of nested brackets that Python's parser is given.
_DEEPEST = 30
_FENCED = re.compile(r"```\w*\n?(.*?)(?:```|\Z)", re.DOTALL)
_TYPOGRAPHIC = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})


class Malformed(Exception):
    """The program is malformed; the text says why."""


class Unmet(Exception):
    """An assert failed; the text is its message."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Runs a program. has: whether that many of an item are held. act: pursues a goal once."""

    vocabulary: Vocabulary
    has: Callable[[str, int], bool]
    act: Callable[[Goal], None]

    def run(self, text: str) -> None:
        """Run the program in a reply.

        Raise Malformed, Unmet, and the errors of `act`.
        """
        statements = _body(text)
        self._all(statements, [MOST_STATEMENTS])

    def _all(self, statements: Sequence[ast.stmt], left: list[int]) -> None:
        for statement in statements:
            left[0] -= 1
            if left[0] < 0:
                raise Malformed(f"it takes more than {MOST_STATEMENTS} statements")
            match statement:
                case ast.While(test=test, body=body, orelse=[]):
                    rounds = 0
                    while self._holds(test):
                        rounds += 1
                        if rounds > MOST_ROUNDS:
                            raise Malformed(f"a loop goes round more than {MOST_ROUNDS} times")
                        self._all(body, left)
                case ast.Assert(test=test, msg=message):
                    if not self._holds(test):
                        raise Unmet(_text(message) or ast.unparse(test))
                case ast.Expr(value=ast.Call() as call):
                    self.act(self._goal(call))
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.Return():
                    return
                case _:
                    raise Malformed(f"{type(statement).__name__} is no while, assert or call")

    def _holds(self, test: ast.expr) -> bool:
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._holds(operand)
            case ast.Call(func=ast.Attribute(attr="has"), args=[ast.Dict() as items], keywords=[]):
                return all(self.has(item, count) for item, count in _counts(items).items())
        raise Malformed("a condition is not inventory.has({item: count})")

    def _goal(self, call: ast.Call) -> Goal:
        if not isinstance(call.func, ast.Name):
            raise Malformed("a call is not of a goal")
        values = {keyword.arg or "": keyword.value for keyword in call.keywords}
        objects = [*call.args, *(values[key] for key in ("obj", "object", "item") if key in values)]
        first = objects[0] if objects else None
        counts = _counts(first) if isinstance(first, ast.Dict) else {_text(first): 1}
        verb = call.func.id.casefold()
        item, count = next(iter(counts.items()), ("", 1))
        known = self.vocabulary.item(words_of(item), verb) if verb in self.vocabulary.items else ""
        if not known:
            raise Malformed(f"{verb}({item}) names no known goal")
        tool = self.vocabulary.item(words_of(_text(values.get("tool"))))
        return Goal(verb, known, max(1, count), tool=tool, text=ast.unparse(call))


def _body(text: str) -> Sequence[ast.stmt]:
    """Return the statements of a program, or of the function that it consists of."""
    source = text[:LONGEST_REPLY].translate(_TYPOGRAPHIC)
    if fenced := _FENCED.search(source):
        source = fenced[1]
    if not source.strip() or max(source.count(sign) for sign in "([{") > 40 * _DEEPEST:
        raise Malformed("there is no program in it")
    try:
        module = ast.parse(source.strip("\n"))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Malformed("it is no Python") from error
    functions = [one for one in module.body if isinstance(one, ast.FunctionDef)]
    others = [one for one in module.body if not isinstance(one, ast.FunctionDef | ast.ImportFrom)]
    if len(functions) == 1 and not others:
        return functions[0].body
    if functions:
        raise Malformed("it is more than one function")
    if not others:
        raise Malformed("there is no statement in it")
    return others


def _counts(items: ast.Dict) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for key, value in zip(items.keys, items.values, strict=True):
        number = value.value if isinstance(value, ast.Constant) else None
        if not isinstance(number, int) or not _text(key):
            raise Malformed("an inventory is not of the form {item: count}")
        counts[_text(key)] = number
    return counts


def _text(value: ast.expr | None) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
