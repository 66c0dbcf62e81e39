"""Goal conditions against a brute-force reading of the same formula."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldm.worlds.alfworld.games import Expression, UnknownRules, parse
from ldm.worlds.alfworld.goals import GoalCompiler

THINGS = {"object": ["a", "b", "c"], "place": ["x", "y"]}
STATIC = {"kind": frozenset({("a", "t"), ("b", "t"), ("x", "p")}), "big": frozenset({("b",)})}
State = frozenset[tuple[str, ...]]


def compiled(text: Expression) -> GoalCompiler[State]:
    changing = {"in": lambda state, of: ("in", *of) in state}
    changing["hot"] = lambda state, of: ("hot", *of) in state
    return GoalCompiler(THINGS, STATIC, changing)


def holds(form: Expression, state: State, bound: dict[str, str]) -> bool:
    """The meaning of a formula, read off it."""
    assert isinstance(form, tuple)
    head, *rest = form
    if head in ("and", "or"):
        return (all if head == "and" else any)([holds(part, state, bound) for part in rest])
    if head == "not":
        return not holds(rest[0], state, bound)
    if head == "imply":
        return not holds(rest[0], state, bound) or holds(rest[1], state, bound)
    if head in ("exists", "forall"):
        names, kinds = rest[0][::3], rest[0][2::3]
        choices = product(*(THINGS[str(kind)] for kind in kinds))
        truths = [holds(rest[1], state, {**bound, **dict(zip(names, c))}) for c in choices]  # type: ignore[arg-type]  # noqa: B905
        return any(truths) if head == "exists" else all(truths)
    terms = tuple(bound.get(str(term), str(term)) for term in rest)
    if head == "=":
        return terms[0] == terms[1]
    return terms in STATIC[str(head)] if head in STATIC else (str(head), *terms) in state


VARIABLES = {"?o": "object", "?q": "object", "?r": "place"}


def formulas(scope: tuple[str, ...], depth: int) -> st.SearchStrategy[Expression]:
    objects = st.sampled_from([*(v for v in scope if VARIABLES[v] == "object"), "a", "b"])
    places = st.sampled_from([*(v for v in scope if VARIABLES[v] == "place"), "x"])
    atoms: st.SearchStrategy[Expression] = st.one_of(
        st.tuples(st.just("in"), objects, places),
        st.tuples(st.just("hot"), objects),
        st.tuples(st.just("big"), objects),
        st.tuples(st.just("kind"), objects, st.just("t")),
        st.tuples(st.just("="), objects, objects),
    )
    if depth == 0:
        return atoms
    inner = formulas(scope, depth - 1)
    quantifier = st.sampled_from(["exists", "forall"])
    quantified = [
        st.tuples(quantifier, st.just((v, "-", k)), formulas((*scope, v), depth - 1))
        for v, k in VARIABLES.items()
        if v not in scope
    ]
    return st.one_of(
        atoms,
        st.tuples(st.sampled_from(["and", "or", "imply"]), inner, inner),
        st.tuples(st.just("not"), inner),
        *quantified,
    )


FACTS = [*(("in", o, p) for o in "abc" for p in "xy"), *(("hot", o) for o in "abc")]


@given(formulas((), 4), st.frozensets(st.sampled_from(FACTS)))
def test_a_compiled_goal_means_what_the_formula_says(form: Expression, state: State) -> None:
    assert compiled(form).compile(form)(state) == holds(form, state, {})


@pytest.mark.parametrize(
    "text",
    ["(broken a)", "(exists (?o - ghost) (hot ?o))", "(not (hot a) (hot b))", "(exists () (hot a))",
     "((hot a))", "(hot (a))", "(exists ?o (hot ?o))"],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text: str) -> None:
    form = parse(text)
    with pytest.raises(UnknownRules):
        compiled(form).compile(form)
