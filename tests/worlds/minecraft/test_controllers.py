"""controller=paper: skills succeed as often as Table 18 of DEPS says."""

import math
from dataclasses import replace

import pytest

from ldm.worlds.minecraft.commands import Command, FoundVein, State, Way
from ldm.worlds.minecraft.controllers import RATES, Paper, Rate
from ldm.worlds.minecraft.map import World
from ldm.worlds.minecraft.rules import load_rules
from tests.worlds.minecraft.conftest import Start, play

RULES = load_rules("vanilla")
WORLD = World(5, start="plains", herded=False)
PAPER = Paper(RULES, WORLD, stated=False)
ATTEMPTS = 600


def share(command: Command, way: Way, state: State, ticks: int) -> float:
    """The share of attempts that succeed in time, each with draws of its own."""
    won = 0
    for number in range(ATTEMPTS):
        names = [f"skill {name}" for name in RATES] + ["attempt craft", "attempt smelt"]
        now, gained = replace(state, draws=dict.fromkeys(names, number)), 0
        while gained < command.count:
            unit = PAPER.unit(command, way, now, command.count - gained)
            if unit.failed or unit.after.tick > ticks:
                break
            now, gained = unit.after, gained + unit.gained
        won += gained >= command.count
    return won / ATTEMPTS


def near(actual: float, expected: float) -> bool:
    return abs(actual - expected) < 4 * math.sqrt(expected * (1 - expected) / ATTEMPTS) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_iron_is_mined_as_often_as_printed_one_at_a_time_or_three(count: int) -> None:
    spot = (WORLD.start[0], 40, WORLD.start[1])
    held = {"stone_pickaxe": 1}
    state = State(spot=spot, inventory=held, veins=(FoundVein("iron_ore", spot, 5, 0),))
    command = Command("mine", "iron_ore", ("iron_ore",), count)
    rate = next(rate for rate in RATES["iron_ore"] if rate.units == count)
    assert near(share(command, Way("stone_pickaxe"), state, rate.ticks), rate.success)


def test_a_table_and_a_furnace_fail_as_often_as_printed() -> None:
    held = {"oak_planks": 8, "crafting_table": 1, "furnace": 1, "cobblestone": 4}
    state = State(spot=(WORLD.start[0], 64, WORLD.start[1]), inventory=held)
    (recipe, *_) = RULES.recipes["chest"]
    chest = Command("craft", "chest", ("chest",))
    assert near(share(chest, Way("crafting_table", "chest", recipe), state, 600), 0.9)
    stone = Command("smelt", "stone", ("stone",))
    assert near(share(stone, Way("furnace", "stone", of="cobblestone"), state, 600), 0.8)


def test_a_drawn_time_meets_the_rate_within_the_ticks_of_its_row() -> None:
    rate = Rate(0.39, 600)
    within = [rate.draw("test", number) <= 600 for number in range(4000)]
    assert abs(sum(within) / 4000 - 0.39) < 0.03


def test_it_never_takes_less_than_the_oracle(start: Start) -> None:
    oracle = start("test/furnace/0", slice=100_000, limit=100_000)
    paper = start("test/furnace/0", slice=100_000, limit=100_000, controller="paper")
    for env in (oracle, paper):
        play(env, "mine 3 log", "kill 1 pig", "mine 2 dirt")
    assert paper.situation.tick > oracle.situation.tick


def test_a_failed_attempt_costs_time_and_nothing_else(start: Start) -> None:
    env = start("test/hopper/0", controller="paper", limit=100_000)
    play(env, "mine 8 log", "craft 32 planks", "craft 1 crafting_table")
    for _ in range(40):
        before = env.situation
        now = env.step("craft 1 wooden_pickaxe") if env.situation.held("stick") > 1 else None
        if now is None:
            env.step("craft 4 stick")
        elif now.observation.startswith("Nothing happens."):
            assert now.valid
            assert env.situation.tick == before.tick + 150
            assert env.situation.inventory == before.inventory
            return
    pytest.fail("forty attempts that fail one time in ten never failed")
