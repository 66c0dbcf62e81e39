"""The rules for thoughts and plans fit every question of our own world, shown or not."""

from __future__ import annotations

import pytest

from ldm import records
from ldm.agents.decomposition.logic import parse_plan
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tools.demonstrations import RULES
from tools.hotpotqa.demonstrations import divide, form_of, think

EPISODES = records.read(CHECKOUT / "data/trajectories" / RULES["hotpotqa"].file, Trajectory)


@pytest.mark.parametrize("episode", EPISODES, ids=lambda episode: str(episode.task.id))
def test_every_step_has_a_thought_and_every_question_a_plan(episode: Trajectory) -> None:
    thoughts = think(episode)
    assert list(thoughts) == list(range(len(episode.steps)))
    assert all(thought.endswith(".") for thought in thoughts.values())
    plan = parse_plan(divide(episode))
    assert plan.flaw == ""
    assert 3 <= len(plan.steps) <= 5


def test_a_comparison_says_which_value_is_less() -> None:
    words = {"inhabitants", "Vöndmouth"}
    (episode,) = (e for e in EPISODES if all(word in e.task.goal for word in words))
    *_, before, last = think(episode).values()
    assert before == "At the last census 9,943 people lived in the town. Now Gønwick."
    assert last.endswith("9,943 is less than 186,501, so the answer is Gønwick.")


def test_a_question_of_no_template_is_named() -> None:
    with pytest.raises(ValueError, match="no template asks 'Why'"):
        form_of("Why")
