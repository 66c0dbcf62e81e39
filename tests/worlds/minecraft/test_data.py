"""Splits, leak keys, shipped episodes and what `ldm data` says."""

import pytest

from ldm import records
from ldm.types import Trajectory
from ldm.worlds.minecraft import Minecraft, MinecraftOptions
from ldm.worlds.minecraft.environment import listed_tasks
from tests.conftest import CHECKOUT
from tools.minecraft.expert import solve
from tools.minecraft.tasklists import other_items

SHIPPED = CHECKOUT / "data" / "trajectories" / "minecraft" / "train.jsonl.gz"


@pytest.fixture(scope="module")
def shipped() -> list[Trajectory]:
    return list(records.read(SHIPPED, Trajectory))


def keys(split: str, **options: object) -> set[str]:
    env = Minecraft(MinecraftOptions(**options))  # type: ignore[arg-type]
    return {task.leak_key for task in env.tasks(split)}


def test_a_memory_of_train_shares_no_key_with_test() -> None:
    assert not keys("train") & keys("test", task_set="listed76")


def test_a_memory_of_the_same_items_is_refused_on_test_and_not_on_test_worlds() -> None:
    assert keys("train_worlds") == keys("test")
    assert not keys("train_worlds") & keys("test_worlds")


def test_training_and_test_worlds_differ() -> None:
    env = Minecraft()
    worlds = [
        {task.source.partition("@")[0]: game.world for task, game in env._listing(split).values()}
        for split in ("test", "test_worlds", "train_worlds")
    ]
    assert worlds[0] == worlds[1]
    assert not set(worlds[0].values()) & set(worlds[2].values())


def test_goals_of_the_parallel_split_are_two_to_four_different_ones() -> None:
    env = Minecraft()
    for task in env.tasks("parallel"):
        env.reset(task)
        assert len({target.word for target in env.targets}) == int(task.kind[-1])


def test_shipped_episodes_succeed_and_replay_word_for_word(shipped: list[Trajectory]) -> None:
    env = Minecraft()
    tasks = {task.id: task for task in env.tasks("train")}
    assert 30 <= len(shipped) <= 60
    for episode in shipped[::6]:
        assert episode.success
        assert tasks[episode.task.id] == episode.task
        now = env.reset(episode.task)
        assert now.observation == episode.opening
        for step in episode.steps:
            assert step.action in (now.admissible or ())  # in the units that are listed
            now = env.step(step.action)
            assert (now.observation, now.reward) == (step.observation, step.reward)
            assert now.valid


def test_the_expert_makes_tools_of_wood_and_stone_in_every_world() -> None:
    env = Minecraft(MinecraftOptions(worlds=2))
    for task in env.tasks("test"):
        if task.kind == "MT2":
            assert solve(env, task).success


@pytest.mark.slow
def test_the_list_of_training_items_is_that_of_the_solver_less_what_is_not_made_in_time() -> None:
    listed = [[t.number, t.kind, t.word, list(t.targets)] for t in listed_tasks()]
    others = dict(other_items(listed))
    trained = {task.source: task.kind for task in Minecraft().tasks("train")}
    assert trained.items() <= others.items()
    assert len(others) - len(trained) <= 12


def test_every_goal_on_the_card_is_an_action_of_the_grammar() -> None:
    from ldm.worlds.minecraft.commands import Command, parse

    env = Minecraft()
    assert len(env.card.goals) > 300
    for goal in env.card.goals:
        assert isinstance(parse(goal, env.rules), Command), goal
