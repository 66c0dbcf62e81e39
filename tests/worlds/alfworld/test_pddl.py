"""Rules and problems in PDDL: read, and refused by name where an engine does not know them."""

from dataclasses import replace

import pytest

from ldm.errors import LdmError
from ldm.worlds.alfworld.feedback import FastEngine
from ldm.worlds.alfworld.games import (
    OWN_RULES,
    Game,
    UnknownRules,
    own_games,
    parse,
    read_problem,
    read_rules,
    typed,
)
from tools.alfworld.official_engine import as_data
from tools.alfworld.solver import plan


@pytest.fixture(scope="module")
def installed() -> dict[str, str]:
    """The rules of the alfworld package with the task of a game of ours."""
    return as_data(own_games("demo_test")[0])


def test_an_expression_is_nested_tuples_in_lower_case_without_comments() -> None:
    assert parse("(And (At ?a loc)) ; so (it) is") == ("and", ("at", "?a", "loc"))


@pytest.mark.parametrize("text", ["", "word", "(a", "(a))", "(a) (b)"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(UnknownRules):
        parse(text)


def test_typed_lists_give_each_name_its_type() -> None:
    types = {"a": "object", "b": "object", "c": "place"}
    assert dict(typed(("a", "b", "-", "object", "c", "-", "place"))) == types
    for wrong in (("a",), ("a", "-"), (("a",), "-", "object")):
        with pytest.raises(UnknownRules):
            list(typed(wrong))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("(define (:objects a - object) (:init (open a)))", "no :goal"),
        ("(define (:objects a - object) (:init (open b)) (:goal (open a)))", "'b' is used"),
        ("(define (:objects a - object) (:init open) (:goal (open a)))", "not a fact"),
        ("(define (:objects a - object) (:init) (:goal))", "not one formula"),
    ],
)
def test_a_bad_problem_is_refused(problem: str, message: str) -> None:
    with pytest.raises(UnknownRules, match=message):
        read_problem(problem)


def test_costs_are_passed_over() -> None:
    text = "(define (:objects a - object) (:init (= (total-cost) 0) (on a)) (:goal (on a)))"
    assert read_problem(text).facts == (("on", "a"),)


def test_the_installed_rules_are_those_of_our_own_games(installed: dict[str, str]) -> None:
    assert read_rules(installed["pddl_domain"], installed["grammar"]) == OWN_RULES


def test_types_that_an_action_names_are_read(installed: dict[str, str]) -> None:
    microwave = "(receptacleType ?r MicrowaveType)"
    both = f"{microwave} (receptacleType ?r ToasterType)"
    rules = read_rules(installed["pddl_domain"].replace(microwave, both), installed["grammar"])
    assert rules.heaters == {"microwavetype", "toastertype"}
    assert rules.coolers == OWN_RULES.coolers


def test_other_rules_are_refused_by_name(installed: dict[str, str]) -> None:
    domain, grammar = installed["pddl_domain"], installed["grammar"]
    with pytest.raises(UnknownRules, match="'openobject' is not"):
        read_rules(domain.replace("(opened ?r)\n                (checked", "(checked"), grammar)
    with pytest.raises(UnknownRules, match="lacks the action 'look'"):
        read_rules(domain.replace("(:action look", "(:thing look"), grammar)
    with pytest.raises(UnknownRules, match="grammar is neither"):
        read_rules(domain, grammar.replace("You open the", "You pull at the"))


@pytest.fixture(scope="module")
def game() -> Game:
    return next(game for game in own_games("demo_test") if game.kind == "heat")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(:init ", "(:init (magic agent1) ", "the fact 'magic'"),
        ("(:init (atLocation agent1", "(:init (canContain agent1", "not at one location"),
        ("(isHot ?o)", "(checked ?o)", "'checked', which no action"),
        ("(define", "(undefined", "no "),
    ],
)
def test_what_it_does_not_know_it_refuses(game: Game, old: str, new: str, message: str) -> None:
    assert old in game.problem
    if new == "(undefined":
        new, old = "", "(:goal"
    with pytest.raises(LdmError, match=message) as caught:
        FastEngine().start(replace(game, problem=game.problem.replace(old, new or "(:aim", 1)))
    assert game.id in caught.value.message


def test_a_game_without_solution_is_said(game: Game) -> None:
    impossible = replace(game, problem=game.problem.replace("(heatable ", "(coolable "))
    with pytest.raises(LdmError, match="no solution"):
        plan(impossible)
