"""The expert solves the games of its world, and its episodes are what a memory is formed from."""

import pytest

from ldm.agents import Resources
from ldm.agents.expert import ExpertAgent, ExpertOptions
from ldm.envs.alfworld import ALFWorld, ALFWorldOptions
from ldm.envs.webshop import WebShop
from ldm.episode import run_episode
from ldm.errors import LdmError


def test_it_solves_games_in_either_dialect_and_tries_again_in_another_order() -> None:
    env, tried = ALFWorld(ALFWorldOptions(dialect="put")), 0
    for task in env.tasks("demo_test"):
        agent = ExpertAgent(ExpertOptions(budget=14), Resources())
        result, trials = run_episode(env, agent, task)
        assert result.success == (result.trials < 5 or trials[-1].success)
        tried += result.trials > 1 and trials[0].steps != trials[1].steps
        agent = ExpertAgent(ExpertOptions(), Resources())
        assert run_episode(env, agent, task)[0].success
    assert tried > 3


def test_in_another_world_it_says_that_it_knows_none_of_it() -> None:
    with pytest.raises(LdmError, match="ALFWorld's households, not webshop"):
        ExpertAgent.check(WebShop().card, ExpertOptions())
