"""PDDL goal conditions, compiled once per game and then evaluated in microseconds.

A quantifier binds its variables one after the other and checks each conjunct as soon as all of its
variables are bound; constant facts (an object's type) are checked once, when compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from ldm.envs.alfworld.games import Expression, UnknownRules, typed

S = TypeVar("S")
Binding = dict[str, str]
Test = Callable[[S, Binding], bool]
#: Whether a predicate's atom holds in a state for these names of things.
Holds = Callable[[S, tuple[str, ...]], bool]


class GoalCompiler(Generic[S]):
    """Compiler for the goals of one game.

    things: names of the things of each type. static: predicates that never change, with the atoms
    that hold. changing: predicates that depend on the state.
    """

    def __init__(
        self,
        things: Mapping[str, Sequence[str]],
        static: Mapping[str, frozenset[tuple[str, ...]]],
        changing: Mapping[str, Holds[S]],
    ) -> None:
        self._things = things
        self._static = static
        self._changing = changing

    def compile(self, goal: Expression) -> Callable[[S], bool]:
        """Return a function that decides whether `goal` holds in a state.

        Raise UnknownRules for a connective, type or predicate that is not known.
        """
        test = self._test(goal)
        return lambda state: test(state, {})

    def _test(self, form: Expression) -> Test[S]:
        head, operands = _split(form)
        if head == "and":
            parts = [self._test(part) for part in operands]
            return lambda state, bound: all(part(state, bound) for part in parts)
        if head == "or":
            parts = [self._test(part) for part in operands]
            return lambda state, bound: any(part(state, bound) for part in parts)
        if head == "not":
            (inner,) = (self._test(part) for part in _exactly(operands, 1, form))
            return lambda state, bound: not inner(state, bound)
        if head == "imply":
            first, second = (self._test(part) for part in _exactly(operands, 2, form))
            return lambda state, bound: not first(state, bound) or second(state, bound)
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
        if name in self._static:
            atoms = self._static[name]
            return lambda state, bound: tuple(_value(t, bound) for t in terms) in atoms
        if name in self._changing:
            holds = self._changing[name]
            return lambda state, bound: holds(state, tuple(_value(t, bound) for t in terms))
        raise UnknownRules(f"the goal requires {name!r}, which no action can achieve")

    def _exists(self, form: Expression) -> Test[S]:
        variables, body = _merged(form)
        order = list(variables)
        conjuncts = list(_conjuncts(body))
        used = [_free(part) & set(order) for part in conjuncts]
        before = [self._test(p) for p, names in zip(conjuncts, used, strict=True) if not names]
        steps: list[tuple[str, list[str], list[Test[S]]]] = []
        for number, variable in enumerate(order):
            candidates = self._of_type(variables[variable])
            checks = []
            for part, names in zip(conjuncts, used, strict=True):
                if not names or max(map(order.index, names)) != number:
                    continue
                test = self._test(part)
                if self._is_static(part, variable):
                    candidates = [name for name in candidates if _static(test, variable, name)]
                else:
                    checks.append(test)
            steps.append((variable, candidates, checks))

        def search(state: S, bound: Binding, depth: int) -> bool:
            if depth == len(steps):
                return True
            variable, candidates, checks = steps[depth]
            for name in candidates:
                bound[variable] = name
                if all(check(state, bound) for check in checks) and search(state, bound, depth + 1):
                    return True
            return False

        def exists(state: S, bound: Binding) -> bool:
            return all(test(state, bound) for test in before) and search(state, dict(bound), 0)

        return exists

    def _of_type(self, kind: str) -> list[str]:
        if kind not in self._things:
            raise UnknownRules(f"the goal uses the unknown type {kind!r}")
        return list(self._things[kind])

    def _is_static(self, form: Expression, variable: str) -> bool:
        name, _ = _split(form)
        return name in self._static and _free(form) == {variable}


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


def _merged(form: Expression) -> tuple[dict[str, str], Expression]:
    """Return the variables and the body of directly nested quantifiers: ∃a ∃b φ is ∃a,b φ."""
    variables: dict[str, str] = {}
    while _split(form)[0] == "exists":
        declared, body = _exactly(_split(form)[1], 2, form)
        new = dict(typed(declared)) if isinstance(declared, tuple) else {}
        if not new or new.keys() & variables.keys():
            break
        variables |= new
        form = body
    if not variables:
        raise UnknownRules(f"a quantifier without variables: {form}")
    return variables, form


def _conjuncts(form: Expression) -> Iterator[Expression]:
    head, operands = _split(form)
    if head == "and":
        for part in operands:
            yield from _conjuncts(part)
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
