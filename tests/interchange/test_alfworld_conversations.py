import json
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import formats
from ldm.interchange.alfworld_conversations import detect
from ldm.records import Problem
from ldm.types import Trajectory

GAME = "train/pick_heat_then_place_in_recep-Egg-None-Desk-1/trial_1"
BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\nA room.\n\n"


def line(*texts: str, game: Any = GAME) -> dict[str, Any]:
    speakers = ("human", "gpt")
    messages = [{"from": speakers[i % 2], "value": text} for i, text in enumerate(texts)]
    return {"game": game, "conversations": messages}


def read(folder: Path, conversation: Any) -> Trajectory | Problem:
    file = folder / "x.jsonl"
    file.write_text(json.dumps(conversation))
    (one,) = formats.read(file, "alfworld-conversations")
    return one


def test_a_conversation_becomes_a_successful_trajectory(tmp_path: Path) -> None:
    conversation = line(
        f"{BANNER}Your task is to: put a hot egg in desk.",
        "go to desk 1",
        "You arrive at loc 3. On the desk 1, you see nothing.",
        "dance",
        "Nothing happens.",
        "put egg 1 in/on desk 1",
    )
    trajectory = read(tmp_path, conversation)
    assert isinstance(trajectory, Trajectory)
    assert trajectory.task.id == GAME
    assert (trajectory.task.split, trajectory.task.kind) == ("train", "heat")
    assert trajectory.task.goal == "put a hot egg in desk."
    assert trajectory.opening == "A room.\nYour task is to: put a hot egg in desk."
    assert [(s.action, s.observation, s.reward, s.valid) for s in trajectory.steps] == [
        ("go to desk 1", "On the desk 1, you see nothing.", 0.0, True),
        ("dance", "Nothing happens.", 0.0, False),
        ("put egg 1 in/on desk 1", "", 1.0, True),
    ]
    assert trajectory.success
    assert (trajectory.score, trajectory.origin) == (1.0, "expert")


def test_an_answer_to_the_last_action_is_kept(tmp_path: Path) -> None:
    conversation = line("Your task is to: x.", "look", "You see.")
    trajectory = read(tmp_path, conversation)
    assert isinstance(trajectory, Trajectory)
    assert [(s.observation, s.reward) for s in trajectory.steps] == [("You see.", 1.0)]


OPENING = "Your task is to: x."


@pytest.mark.parametrize(
    ("conversation", "field"),
    [({"game": GAME, "conversations": None}, "conversations"),
     ({"game": GAME, "conversations": "hello"}, "conversations"), (line(OPENING), "conversations"),
     ({"game": GAME, "conversations": [OPENING, "look"]}, "conversations.0"),
     ({"game": GAME, "conversations": [{"from": "gpt", "value": "x"}] * 2},
      "conversations.0.from"),
     (line(OPENING, " "), "conversations.1.value"),
     (line("A room.", "look"), "conversations.0.value"), (line(OPENING, "look", game=7), "game"),
     (line(OPENING, "look", game="train/x"), "game"),
     (line(OPENING, "look", game="train/make_soup-1/trial"), "game")],
)  # fmt: skip
def test_faults_are_named_by_file_line_and_field(
    conversation: dict[str, Any], field: str, tmp_path: Path
) -> None:
    assert detect(conversation)
    problem = read(tmp_path, conversation)
    assert isinstance(problem, Problem)
    assert (problem.file, problem.line, problem.field) == (str(tmp_path / "x.jsonl"), 1, field)
    assert problem.message


def test_a_trajectory_of_ours_is_no_conversation() -> None:
    assert not detect({"task": {}, "opening": "", "steps": []})


def test_all_recorded_expert_episodes_parse(shared_data: Path) -> None:
    file = shared_data / "alfworld" / "expert_trajectories_train.jsonl"
    results = list(formats.read(file, "alfworld-conversations"))
    parsed = [one for one in results if isinstance(one, Trajectory)]
    assert len(parsed) == len(results) == 1200
    assert sum(len(one.steps) for one in parsed) == 19950
    assert len({one.id for one in parsed}) == 1200
