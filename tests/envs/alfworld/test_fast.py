"""What the fast engine does by itself; that it is exact is shown in test_lockstep.py."""

from dataclasses import replace

import pytest

from ldm.envs.alfworld.feedback import FastEngine
from ldm.envs.alfworld.games import Game, own_games
from ldm.errors import LdmError
from tools.alfworld.solver import plan


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
