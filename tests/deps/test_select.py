"""The selector: which goals can be pursued now, and which of them each arm takes."""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from ldm.deps.parser import Goal, Plan
from ldm.deps.select import AtRandom, candidates, most_similar, soonest
from ldm.types import TimeStep
from tests.deps.workshop import CARD
from tests.embedder import BagOfWords
from tools.horizon import scaled

NOW = TimeStep("Time: 0 of 6000.\nInventory: 2 stick.")
LOG, PLANKS, WOOL, COBBLE = (
    Goal("mine", "log", 3, rank=1),
    Goal("craft", "planks", 4, rank=2),
    Goal("mine", "wool", 1, rank=3),
    Goal("mine", "cobblestone", 1, tool="wooden_pickaxe", rank=4),
)
PLAN = Plan("", (LOG, PLANKS, WOOL, COBBLE))


@pytest.mark.parametrize(
    ("done", "held", "items"),
    [
        (set(), "2 stick", ["log", "wool"]),  # the first, and all that can be gathered
        ({1}, "2 stick", ["planks", "wool"]),  # what is made waits for what is before it
        ({1}, "1 wooden_pickaxe", ["planks", "wool", "cobblestone"]),
        ({1, 2, 3}, "1 stick", ["cobblestone"]),  # without its tool only as the first
        ({1, 2, 3, 4}, "2 stick", []),
    ],
)
def test_what_can_be_pursued_now(done: set[int], held: str, items: list[str]) -> None:
    now = TimeStep(f"Inventory: {held}.")
    assert [goal.item for goal in candidates(PLAN, done, now, CARD.reading)] == items


def test_alternatives_are_candidates_and_what_takes_a_tool_that_is_not_held_is_none() -> None:
    reading = replace(CARD.reading, fitting={"coal": ("pickaxe",)}, needing=("coal",))
    wood = replace(LOG, others=(replace(LOG, item="birch_log"),))
    plan = Plan("", (wood, PLANKS, Goal("mine", "coal", rank=3)))
    for hand, items in (("1 stick", []), ("1 stone_pickaxe", ["coal"])):
        now = TimeStep(f"Inventory: {hand}.")
        possible = [one.item for one in candidates(plan, set(), now, reading)]
        assert possible == ["log", "birch_log", *items]


def test_the_random_arm_stays_with_its_goal_until_that_has_ended() -> None:
    arm = AtRandom(0, "task")
    first = arm((LOG, WOOL, COBBLE), NOW)
    assert all(arm((LOG, WOOL, COBBLE), NOW) == first for _ in range(20))
    others = tuple(goal for goal in (LOG, WOOL, COBBLE) if goal != first)
    assert arm(others, NOW) in others


def test_the_random_arm_depends_on_its_seed_alone() -> None:
    def draws(seed: int) -> list[Goal]:
        return [AtRandom(seed, n)((LOG, WOOL, COBBLE), NOW) for n in range(30)]

    assert draws(1) == draws(1) != draws(2)
    assert len(Counter(draws(1))) == 3


def test_the_similarity_arm_takes_what_is_nearest_to_what_is_seen() -> None:
    arm = partial(most_similar, BagOfWords)
    assert arm((LOG, WOOL), TimeStep("wool")) == WOOL
    assert arm((LOG, WOOL), TimeStep("log")) == LOG


@pytest.mark.parametrize(("ticks", "mu"), [(0, 0.0), (20, 2.0), (60, 4.0), (10**9, 15.0)])
def test_times_have_the_scale_of_sixteen_classes(ticks: int, mu: float) -> None:
    assert scaled(ticks) == pytest.approx(mu)


def test_the_soonest_is_taken_and_of_equals_the_first() -> None:
    times = {"log": 5.0, "wool": 3.0, "cobblestone": 3.0}
    arm = partial(soonest, lambda goals, now: [times[goal.item] for goal in goals])
    assert arm((LOG, COBBLE, WOOL), NOW) == COBBLE
