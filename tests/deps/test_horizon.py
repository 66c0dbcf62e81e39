"""The horizon predictor: what it reads, what it predicts, and what files it accepts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm import records
from ldm.agents import Resources, check_files
from ldm.deps import DepsAgent
from ldm.deps.parser import Goal
from ldm.deps.select import (
    NUMBERS,
    SHIPPED,
    UNKNOWN,
    HorizonModel,
    feature_rows,
    shipped,
    situation,
)
from ldm.deps.styles import DepsOptions
from ldm.episode import run_episode
from ldm.errors import LdmError
from ldm.types import TimeStep
from ldm.worlds.minecraft.environment import CARD
from tests.deps.ideal import Ideal, play
from tests.deps.workshop import Workshop

SEEN = TimeStep(
    "Got 3 log.\nTime: 92 of 6000. Place: 4 east, 10 south, y 64, birch_forest.\n"
    "Inventory: 1 diamond_axe, 3 oak_log, 1 stone_axe. Equipped: diamond_axe.\n"
    "You see: 4 birch trees, nearest 26 northeast; 8 oak trees, nearest here; sand, 12 west; "
    "1 coal ore, 3 north, y 50.\n"
    "You remember: 20 birch trees, nearest 20 northwest, 70 ticks ago; 1 cow, 45 south, "
    "300 ticks ago."
)


class TestWhatItReads:
    def situation(self, goal: Goal) -> Any:
        return situation(goal, SEEN, CARD.reading)

    def test_the_nearest_of_what_an_item_comes_from(self) -> None:
        oak = self.situation(Goal("mine", "oak_log", 2))
        assert (oak.distance, oak.age, oak.known) == (0.0, 0.0, 8.0)
        birch = self.situation(Goal("mine", "birch_log"))
        assert (birch.distance, birch.age, birch.known) == (20.0, 70.0, 24.0)
        cow = self.situation(Goal("mine", "beef"))
        assert (cow.distance, cow.age, cow.known) == (45.0, 300.0, 1.0)
        assert self.situation(Goal("kill", "cow")).distance == 45.0
        assert self.situation(Goal("mine", "sand")).distance == 12.0
        assert self.situation(Goal("mine", "coal")).distance == 3.0

    def test_a_family_is_as_near_as_its_nearest_member(self) -> None:
        assert self.situation(Goal("mine", "log")).distance == 0.0
        assert self.situation(Goal("mine", "log")).known == 32.0

    def test_what_is_not_known_is_told_apart(self) -> None:
        sheep = self.situation(Goal("mine", "wool"))
        assert (sheep.distance, sheep.age, sheep.known) == (UNKNOWN, UNKNOWN, 0.0)

    def test_tool_place_time_and_count(self) -> None:
        log = self.situation(Goal("mine", "log", 5))
        assert (log.tier, log.biome, log.y, log.left, log.count) == (
            "stone", "birch_forest", 64.0, 5908.0, 5.0,
        )  # fmt: skip
        assert self.situation(Goal("mine", "log", tool="diamond_axe")).tier == "diamond"
        assert self.situation(Goal("mine", "cobblestone")).tier == ""


class TestTheShippedModel:
    PATH = SHIPPED / "minecraft.json.gz"

    def test_is_small_and_of_its_environment(self) -> None:
        assert shipped("minecraft") == self.PATH
        assert shipped("nowhere") is None
        assert self.PATH.stat().st_size <= 1_000_000
        assert HorizonModel.load(self.PATH).env == "minecraft"

    def test_takes_what_is_here_for_nearer_than_what_is_far_or_unknown(self) -> None:
        model = HorizonModel.load(self.PATH)
        log, beef, wool = (Goal("mine", item) for item in ("log", "beef", "wool"))
        here, far, unknown = model.times([log, beef, wool], SEEN, CARD)
        assert here < far < unknown
        assert model.times([Goal("craft", "planks")], SEEN, CARD) == [0.0]

    def test_decides_for_deps_and_for_nobody_else(self) -> None:
        from ldm.worlds.minecraft import Minecraft
        from ldm.worlds.minecraft.environment import MinecraftOptions

        plan = "\n".join(f"step {n}: mine 1 {i}" for n, i in enumerate(("wool", "log"), 1))
        first = {}
        for method in ("dep", "deps"):
            env = Minecraft(MinecraftOptions(start="any", slice=150))
            task = next(t for t in env.tasks("parallel") if "log and 1 wool" in t.goal)
            _, _, rounds = play(env, Ideal([plan]).model(), task, method=method, rounds=0)
            first[method] = rounds[0]["pursued"][0][0]
        assert first == {"dep": 1, "deps": 2}


def small_forest(path: Path) -> Path:
    """A tree that asks for the distance: up to 10 blocks μ is 1, else 4."""
    model = HorizonModel(
        "workshop", ("item log",), (0,), (1, 0, 0), (10, 0, 0), (2, 0, 0), (2, 1, 4)
    )
    records.write(path, [model])
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return small_forest(tmp_path / "small.json")


def test_a_forest_is_the_mean_of_its_trees(small: Path) -> None:
    model = HorizonModel.load(small)
    two = replace(model, roots=(0, 1))
    rows = np.zeros((2, 1 + len(NUMBERS)), np.float32)
    rows[:, 1] = (10, 11)
    assert list(model(rows)) == [1.0, 4.0]
    assert list(two(rows)) == [1.0, 2.5]


def test_a_model_is_written_to_the_same_bytes(small: Path, tmp_path: Path) -> None:
    records.write(tmp_path / "again.json", [HorizonModel.load(small)])
    assert small.read_bytes() == (tmp_path / "again.json").read_bytes()


def test_words_that_it_does_not_know_are_no_features(small: Path) -> None:
    model = HorizonModel.load(small)
    situations = [situation(Goal("mine", item), SEEN, CARD.reading) for item in ("log", "wool")]
    assert list(feature_rows(situations, model.words)[:, 0]) == [1.0, 0.0]


def spoilt(small: Path, **fields: Any) -> bytes:
    return json.dumps({**json.loads(small.read_bytes()), **fields}).encode()


SPOILT: dict[str, Callable[[Path], bytes]] = {
    "no JSON": lambda small: b"MODEL",
    "empty": lambda small: b"",
    "cut off": lambda small: small.read_bytes()[:100],
    "a circle": lambda small: spoilt(small, right=[0, 1, 1]),
    "backwards": lambda small: spoilt(small, right=[2, 1, 0]),
    "out of the tree": lambda small: spoilt(small, right=[9, 0, 0]),
    "below nothing": lambda small: spoilt(small, right=[-5, 0, 0]),
    "no such feature": lambda small: spoilt(small, feature=[99, 0, 0]),
    "a root nowhere": lambda small: spoilt(small, roots=[7]),
    "no roots": lambda small: spoilt(small, roots=[]),
    "too many roots": lambda small: spoilt(small, roots=[0] * 1001),
    "other lengths": lambda small: spoilt(small, value=[1.0]),
    "no numbers": lambda small: spoilt(small, value=[1, float("nan"), 2]),
    "another kind": lambda small: spoilt(small, right=[2.5, 0, 0]),
    "other features": lambda small: spoilt(small, numbers=["y"]),
    "a part is missing": lambda small: small.read_bytes().replace(b'"value"', b'"values"'),
    "a list": lambda small: b"[1]",
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_file_that_is_no_model_is_refused(name: str, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "spoilt.json"
    path.write_bytes(SPOILT[name](small))
    with pytest.raises(LdmError, match="this is no horizon model"):
        HorizonModel.load(path)


def test_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(LdmError, match="cannot be read"):
        HorizonModel.load(tmp_path / "none.json")


class TestWhatAnAgentIsGiven:
    def error(self, **options: Any) -> str:
        env = Workshop()
        resources = Resources(llm=Ideal([""]).model(), planner=Ideal([""]).model())
        agent = DepsAgent(DepsOptions(**options), resources)
        return run_episode(env, agent, env.tasks("test")[0])[0].error

    def test_where_no_model_ships_the_order_is_the_plans(self) -> None:
        assert self.error() == ""

    def test_the_arm_needs_a_model(self) -> None:
        assert "There is no horizon model for workshop" in self.error(selector="horizon")

    def test_one_of_another_environment_is_refused(self) -> None:
        assert "is of minecraft" in self.error(horizon=str(SHIPPED / "minecraft.json.gz"))

    def test_one_of_its_own_is_used(self, small: Path) -> None:
        assert self.error(selector="horizon", horizon=str(small)) == ""

    def test_the_file_may_not_change_while_a_run_goes_on(self, small: Path) -> None:
        options = DepsOptions(horizon=str(small), horizon_digest="other")
        with pytest.raises(LdmError, match="has changed"):
            check_files(DepsAgent, options)
