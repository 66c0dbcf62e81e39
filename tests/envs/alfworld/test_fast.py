"""What the fast engine does by itself; that it is exact is shown in test_lockstep.py."""

import random
from dataclasses import replace

import pytest

from ldm.envs.alfworld.feedback import FastEngine
from ldm.envs.alfworld.games import Game, own_games
from ldm.errors import LdmError
from tools.alfworld.solver import plan


@pytest.fixture(scope="module")
def game() -> Game:
    return next(game for game in own_games("demo_test") if game.kind == "heat")


def test_a_fork_goes_its_own_way(game: Game) -> None:
    engine = FastEngine()
    now = engine.start(game)
    rng = random.Random(0)
    for _ in range(40):
        twin = engine.fork()
        command = rng.choice(now.commands)
        for _ in range(3):
            twin.step(rng.choice(twin.step("look").commands))
        expected = engine.fork().step(command)
        now = engine.step(command)
        assert now == expected


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


def test_a_solution_is_a_shortest_one(game: Game) -> None:
    """No sequence of commands one shorter than the plan wins: tried on the smallest plans."""
    small = min(own_games("demo_test"), key=lambda game: len(plan(game)))
    length = len(plan(small))
    engine = FastEngine()
    engine.start(small)
    frontier = [engine]
    for _ in range(min(length - 1, 2)):
        following = []
        for one in frontier:
            for command in one.step("look").commands:
                twin = one.fork()
                assert not twin.step(command).won
                following.append(twin)
        frontier = following
    assert plan(small) == plan(small)


def test_a_game_without_solution_is_said(game: Game) -> None:
    impossible = replace(game, problem=game.problem.replace("(heatable ", "(coolable "))
    with pytest.raises(LdmError, match="no solution"):
        plan(impossible)
