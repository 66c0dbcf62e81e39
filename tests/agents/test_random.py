"""The random agent keeps the contract of agents."""

from __future__ import annotations

from ldm.agents import Resources
from ldm.agents.random import RandomAgent, RandomOptions
from ldm.episode import Agent, run_episode
from ldm.testing import AgentContract
from tests.toy import EchoEnv, ToyEnv


class TestRandomAgent(AgentContract):
    def make_agent(self, seed: int = 0, budget: int | None = None) -> Agent:
        return RandomAgent(RandomOptions(budget or 30), Resources(seed=seed))

    def make_env(self) -> ToyEnv:
        return ToyEnv()


def test_another_seed_gives_other_actions() -> None:
    env = ToyEnv()
    task = env.tasks("test")[0]
    played = [
        run_episode(env, RandomAgent(RandomOptions(), Resources(seed=seed)), task)[1]
        for seed in (1, 2)
    ]
    assert played[0] != played[1]


def test_where_no_actions_are_listed_the_episode_ends_in_an_error_that_says_so() -> None:
    env = EchoEnv()
    agent = RandomAgent(RandomOptions(), Resources())
    result, _ = run_episode(env, agent, env.tasks("test")[0])
    assert result.end == "error"
    assert "does not list admissible actions" in result.error
