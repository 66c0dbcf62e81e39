"""Recorded agent episodes become trajectories; nothing in them tells the reward."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import formats
from ldm.envs.formats import Assumed
from ldm.records import Problem
from ldm.run.building import read_trajectories
from ldm.types import Trajectory
from ldm.worlds.webshop import WebShop, WebShopOptions
from tests.conftest import CHECKOUT

SCORE = "Your score (min 0.0, max 1.0): 1.0"


def step(action: str, observation: str = "[Back to Search] \n") -> dict[str, str]:
    return {"action": action, "observation": observation}


def episode(*steps: Any, **changes: Any) -> dict[str, Any]:
    reset = step("reset", "Webshop \nInstruction:  \na red lamp \n[Search] \n")
    fields = {"episode": 7, "instruction": "a red lamp", "steps": [reset, *steps], "reward": 1.0}
    return {**fields, "bought": True, **changes}


BUY = (step("search[lamp]"), step("click[B000000001]"), step("click[Buy Now]", SCORE))


def read(folder: Path, *lines: Any) -> list[Trajectory | Problem]:
    path = folder / "episodes.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return list(formats.read(path, "webshop-episodes"))


def test_the_format_is_told_by_its_fields(tmp_path: Path) -> None:
    read(tmp_path, episode(*BUY))
    assert formats.format_of(tmp_path / "episodes.jsonl") == "webshop-episodes"


def test_an_episode_is_told_with_its_thoughts_and_without_its_score(tmp_path: Path) -> None:
    thought = step("think[a red one, I see]", "OK.")
    wrong = step("click[blue]", "Invalid action!")
    again = step("click[Buy Now]", SCORE)
    (trajectory,) = read(tmp_path, episode(BUY[0], thought, wrong, *BUY[1:], again))
    assert isinstance(trajectory, Trajectory)
    assert trajectory.opening == "Webshop \nInstruction:  \na red lamp \n[Search] "
    assert [s.action for s in trajectory.steps] == [
        "search[lamp]", "", "click[blue]", "click[B000000001]", "click[Buy Now]",
    ]  # fmt: skip
    assert trajectory.steps[1].thought == "a red one, I see"
    assert [s.valid for s in trajectory.steps] == [True, True, False, True, True]
    assert (trajectory.score, trajectory.success, trajectory.origin) == (1.0, True, "agent")
    assert trajectory.task.leak_key == "B000000001"
    assert trajectory.task.id == "agent/7"
    assert sum(s.reward for s in trajectory.steps) == 1.0
    assert not any("score" in s.observation for s in trajectory.steps)


def test_an_episode_without_a_purchase_has_no_reward(tmp_path: Path) -> None:
    (trajectory,) = read(tmp_path, episode(step("search[lamp]"), reward=0, bought=False))
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.score, trajectory.success) == (0.0, False)


@pytest.mark.parametrize(
    ("bad", "message"),
    [("{torn", "1: not JSON"), ("7", "1: Input should be an object"),
     (episode(instruction=" "), "1:instruction: is empty"),
     (episode(*BUY, reward="1"), "1:reward: Input should be a valid number"),
     (episode(*BUY, reward=2), "1:reward: Input should be less than or equal to 1"),
     (episode(*BUY, steps=[]), "1:steps: Tuple should have at least 1 item"),
     (episode(*BUY, steps="reset"), "1:steps: Input should be a valid array"),
     (episode(), "1:steps: has no action"),
     (episode("click"), "1:steps.1: Input should be an object"),
     (episode({"action": "", "observation": ""}), "1:steps.1.action: is empty"),
     (episode({"action": "click[x]"}), "1:steps.1.observation: Field required"),
     (episode(BUY[0], step("reset")), "1:steps: resets in the middle")],
)  # fmt: skip
def test_a_bad_line_is_named_and_the_next_is_read(tmp_path: Path, bad: Any, message: str) -> None:
    problem, trajectory = read(tmp_path, bad, episode(*BUY))
    assert str(problem).partition("episodes.jsonl:")[2].startswith(message)
    assert isinstance(trajectory, Trajectory)


def test_the_recorded_react_episodes_are_all_read(shared_data: Path) -> None:
    path = shared_data / "webshop" / "react_episodes.jsonl"
    assert formats.format_of(path) == "webshop-episodes"
    trajectories = [t for t in formats.read(path, "webshop-episodes") if isinstance(t, Trajectory)]
    assert len(trajectories) == 500
    assert sum(t.success is True for t in trajectories) == 179
    assert sum(t.score for t in trajectories) / 500 == pytest.approx(0.638, abs=0.0005)
    assert not any("Your score" in s.observation for t in trajectories for s in t.steps)


class TestPeople:
    """Lines of `il_trajs_finalized_images.zip`, whose pages are in the official form."""

    def line(self, recorded: Trajectory, **changes: Any) -> dict[str, Any]:
        """What the official text environment would have recorded of an episode."""
        env = WebShop(WebShopOptions(observation="text_rich"))
        tasks = {task.id: task for task in env.tasks("demo_train")}
        states = [env.reset(tasks[recorded.task.id]).observation]
        actions = [step.action for step in recorded.steps]
        states += [env.step(action).observation for action in actions[:-1]]
        actions = [one.lower() if one.startswith("click") else one for one in actions]
        count = len(actions)
        known = {"action_idxs": [0] * count, "images": [0] * count, "available_actions": []}
        return {"states": states, "actions": actions, **known, **changes}

    @pytest.fixture
    def recorded(self) -> Trajectory:
        episodes = read_trajectories(CHECKOUT / "data" / "trajectories" / "webshop")
        return max(episodes[:20], key=lambda one: len(one.steps))

    def test_pages_are_those_that_the_site_shows_in_brackets(
        self, tmp_path: Path, recorded: Trajectory
    ) -> None:
        path = tmp_path / "il_trajs_finalized_images.jsonl"
        path.write_text(json.dumps(self.line(recorded)))
        name = formats.format_of(path)
        (one,) = formats.read(path, str(name), Assumed(score=1.0))
        assert isinstance(one, Trajectory)
        assert (one.task.goal, one.opening) == (recorded.task.goal, recorded.opening)
        assert (one.score, one.success, one.origin) == (1.0, True, "human")
        env = WebShop(WebShopOptions(observation="page"))
        shown, expected = env.as_shown(one), env.as_shown(recorded)
        assert [s.observation for s in shown.steps] == [s.observation for s in expected.steps]

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"states": ["x"]}, "states"),
            ({"actions": [3]}, "actions"),
            ({"actions": []}, "actions"),
        ],
    )
    def test_a_line_that_does_not_fit_is_told(
        self, tmp_path: Path, recorded: Trajectory, changes: dict[str, Any], field: str
    ) -> None:
        (problem,) = read(tmp_path, {**self.line(recorded), **changes})
        assert isinstance(problem, Problem)
        assert problem.field.startswith(field)
