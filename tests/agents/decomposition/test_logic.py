"""The parser of ADaPT's plans: what is meant is read, whatever noise is around it."""

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.agents.decomposition.logic import (
    MOST_MENTIONS,
    Group,
    Logic,
    Operator,
    Plan,
    parse_logic,
    parse_plan,
    written,
)
from tests.cases import cases

KNOWN = range(1, 7)
#: 100 seeds of hypothesis' choosing × 100 expressions each.
EXAMPLES, EACH = 100, 100

Tree = int | tuple[Operator, tuple["Tree", ...]]


def some_tree(rng: random.Random, depth: int = 3) -> Tree:
    """An expression as a planner may mean it: nested, levels of either operator."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(KNOWN)
    parts = tuple(some_tree(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    return rng.choice(("and", "or")), parts


def steps_of(logic: Logic) -> Iterator[int]:
    if isinstance(logic, int):
        yield logic
    else:
        for part in logic.parts:
            yield from steps_of(part)


def trace(tree: Tree | Logic, succeeds: Callable[[int], bool]) -> tuple[bool, list[int]]:
    """What a controller does: which steps are carried out, in which order, and the outcome."""
    if isinstance(tree, int):
        return succeeds(tree), [tree]
    operator, parts = (tree.operator, tree.parts) if isinstance(tree, Group) else tree
    finished: list[int] = []
    outcome = False
    for part in parts:
        outcome, more = trace(part, succeeds)
        finished += more
        if outcome == (operator == "or"):
            break
    return outcome, finished


class Writer:
    """Writes an expression down as carelessly as models do, without changing what it means."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def order(self, tree: Tree) -> str:
        text = self.part(tree, bracketed=self._rng.random() < 0.5)
        rng = self._rng
        text = rng.choice(("", " ", "\t", "**", "the order: ")) + text
        if rng.random() < 0.3:
            text = text.rstrip(")]}")  # those that close everything need not be there
        if rng.random() < 0.3:
            text += rng.choice((")", "))", "]", " ).", ";", " AND", "\nand"))
        return text

    def part(self, tree: Tree, *, bracketed: bool = True) -> str:
        rng = self._rng
        if isinstance(tree, int):
            text = self.step(tree)
        else:
            operator, parts = tree
            text = self.part(parts[0])
            for part in parts[1:]:
                text += self.operator(operator) + self.part(part)
            text = f"({text})" if bracketed else text
        while rng.random() < 0.15:
            left, right = rng.choice(("()", "[]", "{}"))
            text = f"{left}{text}{right}"
        if bracketed and rng.random() < 0.1:  # a step that there is not
            text = f"({text}{self.operator(rng.choice(('and', 'or')))}Step {rng.randint(7, 99)})"
        return text

    def step(self, number: int) -> str:
        word = self._rng.choice(("Step ", "step ", "STEP", "Step  ", "", "Step #", "sub-task "))
        note = self._rng.choice(("", "", "", " (find the mug)", " (look at 2 places)", "*"))
        return f"{word}{number}{note}"

    def operator(self, operator: Operator) -> str:
        rng = self._rng
        if operator == "and":
            connective = rng.choice(("AND", "And", "and", "&", "&&", ",", "and then", "THEN", ""))
        else:
            connective = rng.choice(("OR", "Or", "or", "|", "||", ", or", "OR else"))
        return f" {connective} "


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2**63))
def test_ten_thousand_noisy_expressions_mean_what_was_meant(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(EACH):
        tree = some_tree(rng)
        order = Writer(rng).order(tree)
        logic = parse_logic(order, KNOWN)
        assert logic is not None, order
        for _ in range(3):
            outcomes = {step: rng.random() < 0.5 for step in KNOWN}
            assert trace(logic, outcomes.__getitem__) == trace(tree, outcomes.__getitem__), order


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2**63))
def test_ten_thousand_heaps_of_tokens_give_homogeneous_groups_of_known_steps(seed: int) -> None:
    rng = random.Random(seed)
    words = ["AND", "or", *"()[}123,-|", "Step", "77", "mug", "to"]
    for _ in range(EACH):
        order = rng.choice((" ", "")).join(rng.choices(words, k=rng.randint(0, 40)))
        logic = parse_logic(order, (1, 2, 3))
        if logic is not None:
            assert set(steps_of(logic)) <= {1, 2, 3}
            assert homogeneous(logic), order
            assert parse_logic(written(logic), (1, 2, 3)) == logic


def homogeneous(logic: Logic) -> bool:
    """Whether every group has two or more parts, none of them a group of the same operator."""
    if isinstance(logic, int):
        return True
    inner = [part for part in logic.parts if isinstance(part, Group)]
    return (
        len(logic.parts) >= 2
        and all(part.operator != logic.operator for part in inner)
        and all(homogeneous(part) for part in inner)
    )


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_it(text: str) -> None:
    parse_logic(text, KNOWN)
    parse_plan(text)
    parse_plan(f"Step 1: a\nStep 2: b\nExecution Order: {text}")


@pytest.mark.parametrize(
    "order", ["(" * 50_000, ")" * 50_000, "(1 OR " * 5_000, "1" * 50_000, "Step 1 AND " * 5_000]
)
def test_a_runaway_reply_is_read_once_and_bounded(order: str) -> None:
    logic = parse_logic(order, KNOWN)
    plan = parse_plan(f"Step 1: a\nExecution Order: {order}\n{order}")
    assert logic is None or len(list(steps_of(logic))) <= MOST_MENTIONS
    assert plan.logic == 1


@pytest.mark.parametrize(("order", "expected"), cases(__file__, "orders_as_models_write_them"))
def test_orders_as_models_write_them(order: str, expected: str) -> None:
    logic = parse_logic(order, (1, 2, 3))
    assert logic is not None
    assert written(logic) == expected


@pytest.mark.parametrize("order", ["", "AND OR", "as above", "()", "Step 8 AND Step 9", "12 eggs"])
def test_an_order_that_says_nothing_is_none(order: str) -> None:
    assert parse_logic(order, (1, 2, 3)) is None


@pytest.mark.parametrize("text", cases(__file__, "as_models_write_them"))
def test_plans_as_models_write_them(text: str) -> None:
    plan = parse_plan(text)
    assert plan.steps == {
        1: "Find and take the mug from the countertop",
        2: "Find and take the mug from a cabinet",
        3: "Put the mug on the desk",
    }
    assert plan.logic == Group("and", (Group("or", (1, 2)), 3))
    assert plan.flaw == ""
    lines = [f"Step {number}: {step}" for number, step in plan.steps.items()]
    assert parse_plan("\n".join([*lines, f"Execution Order: {written(plan.logic)}"])) == plan


def test_plans_of_a_small_model() -> None:
    craft, unknown, cut = (parse_plan(text) for text in cases(__file__, "of_a_small_model"))
    assert (craft.logic, craft.flaw) == (Group("and", (1, 2, 3)), "")
    assert craft.steps[2] == "craft 6 crimson planks using 1 crimson stems"
    assert unknown.logic == Group("or", (1, 2))
    assert cut.logic == Group("and", (1, 2, 3, 4, 5, 6))
    assert cut.flaw == "there is no execution order"


@pytest.mark.parametrize(
    ("order", "expected"), cases(__file__, "operators_at_the_edge_of_a_bracket_or_before_one")
)
def test_operators_at_the_edge_of_a_bracket_or_before_one(order: str, expected: str) -> None:
    assert parse_logic(order, (1, 2, 3)) == parse_logic(expected, (1, 2, 3))


@pytest.mark.parametrize("text", cases(__file__, "other_forms_of_a_plan"))
def test_other_forms_of_a_plan(text: str) -> None:
    assert parse_plan(text) == Plan({1: "a", 2: "b"}, Group("or", (1, 2)))


def test_a_plan_without_a_usable_order_is_and_over_its_steps_and_says_so() -> None:
    for order in ("", "Execution Order: as listed", "Execution Order: Step 7 OR Step 8"):
        plan = parse_plan(f"Step 1: a\nStep 2: b\n{order}")
        assert plan.logic == Group("and", (1, 2))
        assert plan.flaw


def test_a_remark_on_the_execution_does_not_hide_the_order() -> None:
    plan = parse_plan("1. a\n2. b\nExecution must be careful.\nExecution Order: 1 OR 2")
    assert plan.logic == Group("or", (1, 2))


def test_a_reply_without_steps_is_no_plan() -> None:
    for text in ("", "I cannot help with that.", "Execution Order: Step 1 AND Step 2"):
        plan = parse_plan(text)
        assert (plan.steps, plan.logic) == ({}, None)
        assert plan.flaw == "there are no steps"


def test_a_step_that_is_written_again_keeps_its_first_words() -> None:
    plan = parse_plan("Step 1: a\nStep 2: b\nStep 1: c\nExecution Order: 1 AND 2")
    assert plan.steps == {1: "a", 2: "b"}
