import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.envs import formats
from ldm.errors import LdmError
from ldm.types import Trajectory
from ldm.worlds.alfworld import ALFWorld, ALFWorldOptions
from ldm.worlds.alfworld.games import FILE, KINDS, own_games
from tests.conftest import CHECKOUT
from tools.alfworld.official_engine import as_data
from tools.alfworld.replay import replay

EPISODES = CHECKOUT / "data" / "trajectories" / "alfworld" / "demo_train.jsonl"


@pytest.fixture(scope="module")
def env() -> Iterator[ALFWorld]:
    env = ALFWorld()
    yield env
    env.close()


@pytest.fixture(scope="module")
def shipped() -> list[Trajectory]:
    return records.read(EPISODES, Trajectory)


def expert_of(shipped: list[Trajectory], kind: str) -> Trajectory:
    return next(trajectory for trajectory in shipped if trajectory.task.kind == kind)


def placing(trajectory: Trajectory) -> int:
    """The index of the step that leaves an object somewhere."""
    return next(i for i, s in enumerate(trajectory.steps) if s.action.startswith("move "))


def test_our_own_splits_need_no_data_and_have_all_kinds(env: ALFWorld) -> None:
    train, test = env.tasks("demo_train"), env.tasks("demo_test")
    assert Counter(task.kind for task in train) == dict.fromkeys(KINDS.values(), 20)
    assert Counter(task.kind for task in test) == dict.fromkeys(KINDS.values(), 10)
    train_digests = {game.digest for game in own_games("demo_train")}
    assert train_digests.isdisjoint(game.digest for game in own_games("demo_test"))


@pytest.mark.parametrize("kind", KINDS.values())
def test_shipped_episodes_replay(env: ALFWorld, shipped: list[Trajectory], kind: str) -> None:
    trajectory = expert_of(shipped, kind)
    assert list(replay(env, trajectory)) == []
    assert trajectory.success
    assert trajectory.steps[-1].reward == 1.0


def test_each_training_game_has_a_shipped_episode(env: ALFWorld, shipped: list[Trajectory]) -> None:
    assert tuple(trajectory.task for trajectory in shipped) == tuple(env.tasks("demo_train"))


def test_the_opening_is_the_room_and_the_task_without_the_banner(env: ALFWorld) -> None:
    task = env.tasks("demo_test")[0]
    now = env.reset(task)
    room, line = now.observation.split("\n")
    assert room.startswith("You are in the middle of a room.")
    assert line == f"Your task is to: {task.goal}"
    assert now.admissible is not None
    assert list(now.admissible) == sorted(now.admissible)
    assert not now.done


def test_both_verbs_are_understood(env: ALFWorld, shipped: list[Trajectory]) -> None:
    trajectory = expert_of(shipped, "heat")
    at = placing(trajectory)
    spoken = trajectory.steps[at].action
    other = spoken.replace("move ", "put ").replace(" to ", " in/on ")
    env.reset(trajectory.task)
    for step in trajectory.steps[:at]:
        env.step(step.action)
    assert env.localize(other) == spoken
    assert (
        env.localize("You put the mug 1 in/on the desk 2.") == "You move the mug 1 to the desk 2."
    )
    now = env.step(other)
    assert now.valid
    assert now.done
    assert now.reward == 1.0
    assert now.observation == trajectory.steps[at].observation
    with pytest.raises(RuntimeError, match="reset"):
        env.step("look")


def test_a_demanded_dialect_is_spoken_throughout(shipped: list[Trajectory]) -> None:
    env = ALFWorld(ALFWorldOptions(dialect="put"))
    trajectory = expert_of(shipped, "pick")
    at = placing(trajectory)
    now = env.reset(trajectory.task)
    for step in trajectory.steps[:at]:
        now = env.step(step.action)
    assert now.admissible is not None
    assert any(action.startswith("put ") for action in now.admissible)
    assert not any(action.startswith("move ") for action in now.admissible)
    answer = env.step("help").observation
    assert "put (object) in/on (receptacle)" in answer
    placed = env.step(trajectory.steps[at].action)
    assert placed.observation.startswith("You put the ")
    assert env.protocol()["dialect"] == "put"
    env.close()


def test_admissible_actions_can_be_hidden() -> None:
    env = ALFWorld(ALFWorldOptions(admissible=False))
    now = env.reset(env.tasks("demo_test")[0])
    assert now.admissible is None
    assert not env.step("go to the moon").valid
    assert env.step("look").valid
    assert env.protocol()["admissible"] is False
    env.close()


def test_the_protocol_tells_the_content_of_the_listed_splits(tmp_path: Path) -> None:
    make_game(tmp_path, "valid_seen", "pick_and_place_simple-Pen-None-Desk-1/trial_1")
    make_game(tmp_path, "train", "pick_and_place_simple-Pen-None-Desk-2/trial_1")

    def data(*splits: str) -> Any:
        env = ALFWorld(ALFWorldOptions(data=str(tmp_path)))
        for split in splits:
            env.tasks(split)
        return env.protocol()["data"]

    both = data("valid_seen", "train")
    assert data() == {}
    assert both == data("train", "valid_seen")
    assert data("valid_seen") == {"valid_seen": both["valid_seen"]}
    make_game(tmp_path, "valid_seen", "pick_and_place_simple-Pen-None-Desk-1/trial_1", "put it.")
    assert data("valid_seen") != {"valid_seen": both["valid_seen"]}


def make_game(root: Path, split: str, name: str, goal: str = "put a pen in desk.") -> Path:
    """A game file in the official layout with the problem of one of our own games."""
    data: dict[str, Any] = as_data(replace(own_games("demo_test")[0], goal=goal))
    file = root / "json_2.1.1" / split / name / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    data["solvable"] = True
    file.write_text(json.dumps(data))
    return file


@pytest.mark.parametrize("below", ["", "json_2.1.1"])
def test_the_official_layout_is_read_as_published(tmp_path: Path, below: str) -> None:
    names = (
        "pick_two_obj_and_place-Pen-None-Desk-9/trial_2",
        "look_at_obj_in_light-Pen-None-DeskLamp-1/trial_1",
        "pick_and_place_with_movable_recep-Pen-Mug-Desk-1/trial_1",
        "pick_and_place_simple-AppleSliced-None-Desk-1/trial_1",
    )
    for name in names:
        make_game(tmp_path, "valid_unseen", name)
    broken = make_game(tmp_path, "valid_unseen", "pick_and_place_simple-Pen-None-Desk-1/trial_1")
    broken.write_text(json.dumps({**json.loads(broken.read_text()), "solvable": False}))
    (tmp_path / "json_2.1.1/valid_unseen/a-file").write_text("")
    env = ALFWorld(ALFWorldOptions(data=str(tmp_path / below)))
    look, pick2 = env.tasks("valid_unseen")
    assert (look.id, look.kind) == (f"valid_unseen/{names[1]}", "look")
    assert (pick2.id, pick2.kind) == (f"valid_unseen/{names[0]}", "pick2")
    assert env.reset(look).observation.endswith("put a pen in desk.")
    env.close()


def test_what_is_missing_is_said_with_a_remedy(tmp_path: Path, env: ALFWorld) -> None:
    with pytest.raises(LdmError, match="does not exist"):
        ALFWorld(ALFWorldOptions(data=str(tmp_path / "nowhere"))).tasks("valid_seen")
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    some = ALFWorld(ALFWorldOptions(data=str(tmp_path)))
    with pytest.raises(LdmError, match="no game that can be played"):
        some.tasks("train")
    task = replace(env.tasks("demo_test")[0], id="train/x/y")
    with pytest.raises(LdmError, match="is not at"):
        some.reset(task)


def test_a_damaged_game_is_named(tmp_path: Path, env: ALFWorld) -> None:
    name = "pick_and_place_simple-Pen-None-Desk-1/trial_1"
    file = make_game(tmp_path, "train", name)
    some = ALFWorld(ALFWorldOptions(data=str(tmp_path)))
    (task,) = some.tasks("train")
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "pddl_problem": "(define (nonsense"}))
    with pytest.raises(LdmError, match="not ALFWorld's") as caught:
        ALFWorld(ALFWorldOptions(data=str(tmp_path))).reset(task)
    assert task.id in caught.value.message
    file.write_text(json.dumps({**data, "solvable": False}))
    with pytest.raises(LdmError, match="unsolvable"):
        ALFWorld(ALFWorldOptions(data=str(tmp_path))).reset(task)
    file.write_text('{"grammar": "x",\n oops')
    fresh = ALFWorld(ALFWorldOptions(data=str(tmp_path)))
    with pytest.raises(LdmError, match=rf"{FILE}:2: not JSON"):
        fresh.tasks("train")
    with pytest.raises(LdmError, match=rf"{FILE}:2: not JSON"):
        fresh.reset(task)


def test_an_imported_opening_equals_that_of_the_game(shared_data: Path) -> None:
    file = shared_data / "alfworld" / "replay_episodes.jsonl"
    trajectory = next(formats.read(file, "alfworld-conversations"))
    assert isinstance(trajectory, Trajectory)
    env = ALFWorld(ALFWorldOptions(data=str(shared_data / "alfworld")))
    assert env.reset(trajectory.task).observation == trajectory.opening
    assert trajectory.task in env.tasks("train")
    env.close()
