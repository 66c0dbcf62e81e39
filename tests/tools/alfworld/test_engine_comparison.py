"""The fast engine is exact: in every game, after every command, it is the official one's equal.

A sample; scripts/lockstep_alfworld.py plays all games.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from ldm.records import Problem
from ldm.worlds.alfworld.games import KINDS, Game, Skipped, data_root, own_games, scan_split
from ldm.worlds.alfworld.world import World
from tools.alfworld.engine_comparison import EngineComparison, Tally
from tools.alfworld.solver import plan


def together(games: list[Game]) -> Tally:
    """A solution and a short walk in each game."""
    comparison = EngineComparison(walks=1, length=6, seed=0)
    return sum((comparison.play(game) for game in games), Tally())


def of_each_kind(games: list[Game], count: int) -> list[Game]:
    kinds = [[game for game in games if game.kind == kind] for kind in KINDS.values()]
    return [game for some in kinds for game in some[:: max(1, len(some) // count)][:count]]


@pytest.fixture(scope="module")
def official(shared_data: Path) -> list[Game]:
    games = scan_split(data_root(shared_data / "alfworld"), "valid_seen")
    return [game for game in games if not isinstance(game, Problem | Skipped)]


@pytest.mark.official
def test_official_games_of_the_old_grammar(official: list[Game]) -> None:
    games = of_each_kind(official, 1)
    tally = together(games)
    assert tally.differences == ()
    assert tally.solved == len(games) == 6
    assert tally.steps > 60
    assert tally.invalid > 1


@pytest.mark.official
def test_our_own_games_in_the_new_grammar() -> None:
    games = of_each_kind(own_games("demo_test"), 1)
    tally = together(games)
    assert tally.differences == ()
    assert tally.solved == len(games) == 6


def test_the_quirks_that_walks_seldom_meet() -> None:
    """Sliced, hot, cool and clean at once, lamps, things laid beside the place they came from."""
    comparison = EngineComparison(walks=0, length=0, seed=0)
    game = of_each_kind(own_games("demo_test"), 1)[3]
    world = World(game)
    food = next(n for n, kinds in world.types.items() if kinds & {"appletype", "potatotype"})
    contents = zip(world.receptacles, world.start.inside, strict=True)
    source = next(place for place, things in contents if food in things)
    beside = f"{source}_too"
    kind = min(world.types[source])
    spelled = f"(receptacletype {beside} {kind}) (receptacleatlocation {beside} "
    spelled += f"{world.location[source]}) (sliceable {food}) (objecttype saw_bar_1 knifetype)"
    spelled += f"(inreceptacle saw_bar_1 {source}) (objectatlocation saw_bar_1 "
    spelled += f"{world.location[source]}) (pickupable saw_bar_1)"
    spelled += f"(cancontain {kind} knifetype)"
    problem = game.problem.lower().replace("(:init", f"(:init {spelled}")
    problem = problem.replace("(:objects", f"(:objects {beside} - receptacle saw_bar_1 - object")
    changed = replace(game, problem=problem)
    names = World(changed).names
    at, other, thing, saw = names[source], names[beside], names[food], names["saw_bar_1"]
    appliances = {
        verb: names[next(n for n, kinds in world.types.items() if f"{place}type" in kinds)]
        for verb, place in (("clean", "sinkbasin"), ("heat", "microwave"), ("cool", "fridge"))
    }
    there = [f"go to {at}", f"open {at}"]
    tally = comparison.follow(
        changed,
        [
            *there, f"take {saw} from {at}", f"slice {thing} with {saw}", "inventory",
            f"move {saw} to {other}", "look", f"take {thing} from {at}", f"examine {thing}",
            f"move {thing} to {other}", "look", f"take {thing} from {other}",
            *(
                command
                for verb, appliance in appliances.items()
                for command in (
                    f"go to {appliance}", f"{verb} {thing} with {appliance}", f"examine {thing}",
                )
            ),
            f"go to {appliances['heat']}", f"heat {thing} with {appliances['heat']}",
            f"examine {thing}", *there, f"close {at}", f"examine {at}", "help", "look",
        ],
    )  # fmt: skip
    assert tally.differences == ()
    assert tally.invalid < 8


def test_lamps_stay_on() -> None:
    comparison = EngineComparison(walks=0, length=0, seed=0)
    game = of_each_kind(own_games("demo_test"), 1)[1]
    *way, last = plan(game)
    assert last.startswith("use ")
    assert plan(game, ["dance", *way]) == (last,)
    tally = comparison.follow(game, [*way, last, last, "look", "inventory"])
    assert tally.differences == ()
    assert tally.solved == 1


def test_a_difference_is_told() -> None:
    """The comparison itself can fail: one engine plays another household."""
    one, other = of_each_kind(own_games("demo_test"), 2)[:2]
    comparison = EngineComparison(walks=0, length=0, seed=0)
    start = comparison._fast.start
    comparison._fast.start = lambda game: start(other)  # type: ignore[method-assign]
    tally = comparison.follow(one, ["help", "inventory"])
    assert len(tally.differences) == 3
    assert "lists" in tally.differences[1]
