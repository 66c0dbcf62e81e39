"""PDDL goal conditions, compiled once per game and then evaluated in microseconds.

A conjunct stands outside of the quantifiers whose variables it lacks, so that it is checked early;
constant facts about one thing (an object's type) are checked once, when compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ldm.worlds.alfworld.games import Expression, UnknownRules, typed

S = TypeVar("S")
Binding = dict[str, str]
Test = Callable[[S, Binding], bool]
#: Whether a predicate's atom holds in a state for these names of things.
Holds = Callable[[S, tuple[str, ...]], bool]


@dataclass(frozen=True)
class GoalCompiler(Generic[S]):
    """Compiler for the goals of one game.

    things: names of the things of each type. static: predicates that never change, with the atoms
    that hold. changing: predicates that depend on the state.
    """

    things: Mapping[str, Sequence[str]]
    static: Mapping[str, frozenset[tuple[str, ...]]]
    changing: Mapping[str, Holds[S]]

    def compile(self, goal: Expression) -> Callable[[S], bool]:
        """Return a function that decides whether `goal` holds in a state.

        Raise UnknownRules for a connective, type or predicate that is not known.
        """
        test = self._test(goal)
        return lambda state: test(state, {})

    def _test(self, form: Expression) -> Test[S]:
        head, operands = _split(form)
        if head in ("and", "or"):
            parts = [self._test(part) for part in operands]
            joined = all if head == "and" else any
            return lambda state, bound: joined(part(state, bound) for part in parts)
        if head == "not":
            (inner,) = (self._test(part) for part in _exactly(operands, 1, form))
            return lambda state, bound: not inner(state, bound)
        if head == "imply":
            first, second = _exactly(operands, 2, form)
            return self._test(("or", ("not", first), second))
        if head == "exists":
            return self._exists(form)
        if head == "forall":
            variables, body = _exactly(operands, 2, form)
            failing = self._exists(("exists", variables, ("not", body)))
            return lambda state, bound: not failing(state, bound)
        return self._atom(form)

    def _atom(self, form: Expression) -> Test[S]:
        name, arguments = _split(form)
        terms = [term for term in arguments if isinstance(term, str)]
        if len(terms) != len(arguments):
            raise UnknownRules(f"not an atom: {form}")
        if name == "=":
            left, right = _exactly(tuple(terms), 2, form)
            return lambda state, bound: _value(left, bound) == _value(right, bound)
        if name in self.static:
            atoms = self.static[name]
            return lambda state, bound: tuple(_value(t, bound) for t in terms) in atoms
        if name in self.changing:
            holds = self.changing[name]
            return lambda state, bound: holds(state, tuple(_value(t, bound) for t in terms))
        raise UnknownRules(f"the goal requires {name!r}, which no action can achieve")

    def _exists(self, form: Expression) -> Test[S]:
        """Return the test of a quantifier: each further variable is a quantifier within it."""
        ((variable, kind), *others), body = _quantified(form)
        if kind not in self.things:
            raise UnknownRules(f"the goal uses the unknown type {kind!r}")
        if others:
            variables = tuple(part for name, its in others for part in (name, "-", its))
            body = ("exists", variables, body)
        things, checks = list(self.things[kind]), list[Test[S]]()
        for part in _conjuncts(body):
            test = self._test(part)
            if _split(part)[0] in self.static and _free(part) == {variable}:
                things = [name for name in things if _static(test, variable, name)]
            else:
                checks.append(test)
        return lambda state, bound: any(
            all(check(state, {**bound, variable: name}) for check in checks) for name in things
        )


def _static(test: Test[S], variable: str, name: str) -> bool:
    return test(None, {variable: name})  # type: ignore[arg-type]  # no state is looked at


def _value(term: str, bound: Binding) -> str:
    return bound[term] if term[0] == "?" else term


def _split(form: Expression) -> tuple[str, tuple[Expression, ...]]:
    if isinstance(form, str) or not form or not isinstance(form[0], str):
        raise UnknownRules(f"not a condition: {form}")
    return form[0], form[1:]


def _exactly(parts: tuple[E, ...], count: int, form: Expression) -> tuple[E, ...]:
    if len(parts) != count:
        raise UnknownRules(f"exactly {count} parts are required: {form}")
    return parts


E = TypeVar("E", bound=Expression)


def _quantified(form: Expression) -> tuple[list[tuple[str, str]], Expression]:
    """Return the variables of a quantifier, each with its type, and its body."""
    declared, body = _exactly(_split(form)[1], 2, form)
    variables = list(typed(declared)) if isinstance(declared, tuple) else []
    if not variables:
        raise UnknownRules(f"a quantifier without variables: {form}")
    return variables, body


def _conjuncts(form: Expression) -> Iterator[Expression]:
    """Yield the parts of a conjunction; those of a quantifier without its variables precede it."""
    head, operands = _split(form)
    if head == "and":
        for part in operands:
            yield from _conjuncts(part)
    elif head == "exists":
        variables, body = _quantified(form)
        own, parts = {name for name, _ in variables}, list(_conjuncts(body))
        yield from (part for part in parts if own.isdisjoint(_free(part)))
        inner = (part for part in parts if not own.isdisjoint(_free(part)))
        yield ("exists", operands[0], ("and", *inner))
    else:
        yield form


def _free(form: Expression) -> set[str]:
    """Return the variables in `form`, without those that it binds itself."""
    if isinstance(form, str):
        return {form} if form.startswith("?") else set()
    inner: set[str] = set().union(*(_free(part) for part in form[1:])) if form else set()
    if form and form[0] in ("exists", "forall") and isinstance(form[1], tuple):
        inner -= {name for name in form[1] if isinstance(name, str)}
    return inner
