"""What actions do, and what the environment says of it."""

import re
from dataclasses import replace

import pytest

from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.commands import State
from tests.worlds.minecraft.conftest import Start, play

TO_STONE = (
    "mine 4 log", "craft 16 planks", "craft 4 stick", "craft 1 crafting_table",
    "craft 1 wooden_pickaxe", "mine 11 cobblestone", "craft 1 stone_pickaxe", "craft 1 furnace",
)  # fmt: skip


def test_the_opening_says_task_time_place_and_what_there_is(start: Start) -> None:
    env = Minecraft()
    opening = env.reset(env.tasks("test")[2]).observation.split("\n")
    assert opening[0] == "Task: obtain 1 wooden_slab within 3000 ticks."
    assert opening[1] == "Time: 0 of 3000. Place: at the start, y 64, plains."
    assert opening[2] == "Inventory: 1 diamond_axe."
    assert re.fullmatch(r"You see: .*4 sheep.*\.", opening[3]) or "sheep" in opening[3]


def test_an_item_is_made_from_nothing_and_earns_one(start: Start) -> None:
    env = start("test/furnace/0", given="none")
    assert env.situation.inventory == {}
    now = play(env, *TO_STONE)
    assert now.done
    assert now.reward == 1.0
    assert env.step("inventory").done


@pytest.mark.parametrize(
    ("action", "reason"),
    [("mine 1 iron_ore", "takes stone_pickaxe or better"), ("mine 0 log", "from 1 to 64"),
     ("mine 65 log", "from 1 to 64"), ("mine 1 stick", "cannot be mined"),
     ("mine 1 log with wooden_axe", "You have no wooden_axe"),
     ("mine 1 castle", "There is no item 'castle'"),
     ("kill 1 dragon", "There is no animal 'dragon'"), ("craft 4 stick", "takes 2 oak_planks"),
     ("craft 1 log", "cannot be crafted"), ("smelt 1 iron_ingot", "takes a furnace"),
     ("equip shield", "You have no shield"), ("explore up", "no direction"),
     ("dance", "not an action"), ("mine log", "not an action")],
)  # fmt: skip
def test_the_impossible_changes_nothing(start: Start, action: str, reason: str) -> None:
    plain, fine = start("test/shears/0"), start("test/shears/0", feedback="fine")
    before = plain.situation
    refused = plain.step(action)
    assert not refused.valid
    assert refused.observation.startswith("Nothing happens.\nTime: 0 of")
    assert plain.situation == before
    assert reason in fine.step(action).observation.partition("\n")[0]


def test_a_count_is_an_increase_of_what_is_held(start: Start) -> None:
    env = start("test/furnace/0")
    play(env, "mine 2 log", "mine 1 log")
    assert env.situation.held(*env.rules.members("log")) == 3


def test_control_returns_after_a_slice_and_says_how_far_it_came(start: Start) -> None:
    env = start("test/shears/0", slice=1)
    first = env.step("mine 3 log").observation.partition("\n")[0]
    assert re.fullmatch(r"Got (no|\d) log, \d to go\.", first)


@pytest.mark.parametrize("controller", ["oracle", "paper"])
def test_any_slice_gives_the_same_units_at_the_same_ticks(start: Start, controller: str) -> None:
    def played(size: int) -> State:
        env = start("train/ladder/0", slice=size, controller=controller, limit=60_000)
        play(env, *TO_STONE, "mine 2 iron_ore", "smelt 2 iron_ingot", "kill 2 sheep")
        play(env, "mine 3 leather")
        return replace(env.situation, actions=0)

    whole = played(100_000)
    assert played(1) == played(150) == whole
    assert whole.held("leather") >= 3


def test_tools_wear_and_the_one_that_breaks_ends_the_action(start: Start) -> None:
    env = start("test/diamond/0", slice=100_000)
    play(env, "mine 3 log", "craft 12 planks", "craft 4 stick", "craft 1 crafting_table",
         "craft 1 wooden_pickaxe")  # fmt: skip
    now = play(env, "mine 64 cobblestone")
    assert "Got 59 cobblestone, 5 to go. Your wooden_pickaxe broke." in now.observation
    assert not env.situation.held("wooden_pickaxe")
    assert not env.step("mine 1 cobblestone").valid


def test_smelting_burns_planks_first_and_keeps_what_is_left_of_the_fire(start: Start) -> None:
    env = start("test/iron_door/0")
    play(env, *TO_STONE[:5], "mine 12 cobblestone")
    play(env, "craft 1 furnace", "mine 3 log", "craft 8 planks")
    planks = env.situation.held(*env.rules.members("planks"))
    play(env, "smelt 2 stone")
    assert env.situation.held(*env.rules.members("planks")) == planks - 2
    play(env, "smelt 1 stone")  # 600 ticks of fire for 600 ticks of smelting
    assert env.situation.held(*env.rules.members("planks")) == planks - 2
    assert env.situation.held("furnace") == 1


def test_under_the_paper_smelting_is_quick_and_needs_no_fuel(start: Start) -> None:
    env = start("test/iron_door/0", rules="paper", controller="none")
    for action in (*TO_STONE, "mine 4 cobblestone", "smelt 4 stone"):
        assert env.step(action).valid
    assert env.situation.held("stone") == 4


def test_under_the_paper_an_impossible_attempt_costs_time(start: Start) -> None:
    env = start("test/iron_door/0", rules="paper", feedback="fine")
    now = env.step("craft 4 stick")
    assert now.valid
    assert now.observation.startswith("Nothing happens. To craft 4 stick takes 2 planks.")
    assert env.situation.tick == 150
    env.step("smelt 1 iron_ingot")
    assert env.situation.tick == 350


def test_only_what_is_stated_is_used_where_tools_have_to_be_stated(start: Start) -> None:
    env = start("test/diamond/0", tools="stated", controller="none")
    play(env, "mine 3 log", "craft 12 planks", "craft 4 stick", "craft 1 crafting_table")
    assert not env.step("craft 1 wooden_pickaxe").valid
    assert env.step("craft 1 wooden_pickaxe with crafting_table").valid
    assert not env.step("mine 1 cobblestone").valid
    assert env.step("mine 1 cobblestone with wooden_pickaxe").valid
    assert env.step("mine 1 cobblestone with pickaxe").valid


def test_the_time_limit_ends_the_task_without_a_reward(start: Start) -> None:
    env = start("test/diamond/0", limit=50)
    now = env.step("mine 64 log")
    assert now.done
    assert now.reward == 0.0
    assert env.situation.tick == 50
    assert "Time: 50 of 50." in now.observation


def test_where_only_recipes_count_actions_are_limited(start: Start) -> None:
    env = start("test/diamond/0", controller="none", limit=2)
    assert not env.step("mine 1 log").done
    last = env.step("mine 1 log")
    assert last.done
    assert "Time is up." in last.observation
    assert "Actions: 2 of 2." in last.observation


def test_each_of_several_goals_earns_its_share_once(start: Start) -> None:
    env = start("parallel/4/0")
    assert len(env.targets) == 4
    rewards = []
    for target in env.targets:
        verb = f"mine {target.count} {target.word}"
        while not env.situation.held(*target.items) >= target.count:
            rewards.append(env.step(verb).reward)
    assert sorted(rewards)[-4:] == [0.25] * 4
    assert sum(rewards) == 1.0


def test_what_is_found_below_depends_on_what_was_dug_alone(start: Start) -> None:
    one, other = start("test/diamond/0"), start("test/diamond/0")
    play(one, *TO_STONE, "mine 2 iron_ore")
    play(other, "kill 2 pig", "mine 1 dirt", *TO_STONE, "mine 2 iron_ore")
    assert one.situation.hazards == other.situation.hazards
    assert one.situation.finds == other.situation.finds


def test_an_armour_is_worn_and_said(start: Start) -> None:
    env = start("train/leather_horse_armor/0")
    assert env.step("equip diamond_axe").observation.startswith("You hold or wear diamond_axe.")
    assert "Equipped: diamond_axe." in env.step("inventory").observation
