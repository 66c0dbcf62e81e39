from __future__ import annotations

from dataclasses import replace

import pytest

from tests.toy import ToyEnv, expert_trajectories
from tools.replaying import replay


def test_an_episode_whose_answers_are_the_same_passes() -> None:
    for episode in expert_trajectories()[:3]:
        replay(ToyEnv(), episode)


def test_an_answer_that_differs_ends_the_program() -> None:
    episode = expert_trajectories()[0]
    first, *others = episode.steps
    altered = replace(episode, steps=(replace(first, observation="Otherwise."), *others))
    with pytest.raises(SystemExit, match=f"A replay of {episode.task.id} differs"):
        replay(ToyEnv(), altered)
