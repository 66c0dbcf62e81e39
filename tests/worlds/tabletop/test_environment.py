from dataclasses import replace
from itertools import combinations

import pytest

from ldm.errors import LdmError
from ldm.types import Task
from ldm.worlds.tabletop import Tabletop, TabletopOptions, environment, physics
from ldm.worlds.tabletop.environment import LIMIT, SPLITS, Play
from ldm.worlds.tabletop.kinds import KINDS
from tests.worlds.tabletop.conftest import PHYSICS


def task_of(env: Tabletop, kind: str, split: str = "test") -> Task:
    return next(task for task in env.tasks(split) if task.kind == kind)


def play(env: Tabletop) -> Play:
    assert env._play is not None
    return env._play


def test_the_splits_have_the_kinds_of_the_paper_and_share_no_scene(env: Tabletop) -> None:
    numbers = {"train": 40, "test": 5, "test100": 20}
    listed = {split: env.tasks(split) for split in SPLITS}
    for split, tasks in listed.items():
        assert [task.kind for task in tasks] == list(KINDS) * numbers[split]
    for one, other in combinations(listed.values(), 2):
        assert not {task.leak_key for task in one} & {task.leak_key for task in other}


@PHYSICS
class TestPlaying:
    def test_an_opening_says_what_there_is_what_is_where_and_the_task(self, env: Tabletop) -> None:
        opening = env.reset(task_of(env, "put_block_in_bowl")).observation
        assert opening == (
            "There are 3 bowls: red, gray and blue. There are 4 blocks: red, blue, gray and cyan.\n"
            "The red block is on the table. The blue block is on the table. "
            "The gray block is on the table. The cyan block is on the table.\n"
            "Task: Match the blocks and the bowls."
        )

    def test_rewards_add_up_to_the_share_of_targets_and_all_end_it(self, env: Tabletop) -> None:
        env.reset(task_of(env, "put_block_in_bowl"))
        first = env.step("put the red blocks in a red bowl")
        assert first.reward == pytest.approx(1 / 3)
        assert not first.done
        undone = env.step("put the red blocks in a blue bowl")
        assert undone.reward == pytest.approx(-1 / 3)
        colours = ("red", "blue", "gray")
        rewards = [env.step(f"put the {one} blocks in a {one} bowl") for one in colours]
        assert sum(now.reward for now in rewards) == pytest.approx(1)
        assert [now.done for now in rewards] == [False, False, True]
        assert rewards[-1].admissible == ()
        assert env.step("look").done

    def test_fifteen_actions_end_the_task_and_impossible_ones_are_free(self, env: Tabletop) -> None:
        env.reset(task_of(env, "towers_of_hanoi"))
        wrong = "move the moon to the middle of the stand"
        assert not any(env.step(wrong).valid for _ in range(20))
        assert [env.step("look").done for _ in range(LIMIT)] == [False] * (LIMIT - 1) + [True]

    def test_noisy_hands_miss_and_err_by_the_number_of_moves_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(environment, "MISS", 1.0)
        env = Tabletop(TabletopOptions("noisy"))
        env.reset(task_of(env, "put_block_in_bowl"))
        missed = env.step("put the red blocks in a red bowl")
        assert missed.valid
        assert missed.observation.startswith("You reach for the red block, but")
        places = []
        monkeypatch.setattr(environment, "MISS", 0.0)
        for looks in (0, 3):
            env.reset(task_of(env, "put_block_in_bowl"))
            for _ in range(looks):
                env.step("look")
            env.step("put the red blocks in a red bowl")
            places.append(env.poses[0])
        bowl = play(env).game.scene.fixtures[0].pose
        assert places[0] == places[1]
        assert 0.0005 < places[0].distance(bowl) < 0.04

    def test_the_protocol_names_the_physics_and_the_controller(self) -> None:
        exact, noisy = Tabletop(), Tabletop(TabletopOptions("noisy"))
        assert exact.protocol()["mujoco"] == physics.version()
        assert exact.protocol() != noisy.protocol()


@pytest.mark.parametrize("change", [{"source": "juggling:1"}, {"id": "test/x"}, {"source": "a:-1"}])
def test_an_unknown_task_is_named(env: Tabletop, change: dict[str, str]) -> None:
    task = replace(env.tasks("test")[0], **change)
    with pytest.raises(LdmError, match=task.id):
        env.reset(task)


def test_without_physics_a_remedy_is_named(env: Tabletop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(physics, "find_spec", lambda name: None)
    with pytest.raises(LdmError, match="MuJoCo") as caught:
        env.reset(env.tasks("test")[0])
    assert "ldm-memory[tabletop]" in caught.value.remedy
