"""Agents that plan keep the contract of agents in every environment, whatever they are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ldm.episode import Agent, Environment, run_episode
from ldm.llm import Message, Sampling
from ldm.testing import AgentContract
from tests.agents.loop_contract import SPLITS, make_agent
from tests.agents.scripted import ODD, Scripted, always, babbling

AGENTS = ("adapt", "autoplan", "plan_execute")
OPTIONS: dict[str, Any] = {"d_max": 3, "executor_steps": 3, "max_calls": 40}
BUDGET = 25
PLANS = (
    "Step 1: go to shelf 1\nStep 2: look\nExecution Order: Step 1 OR Step 2",
    "Step 1: shortlist them\nStep 2: match it\nStep 3: wait\nExecution Order: (1 AND 2) OR 3",
    "1. a\n2. b\n" * 30,
)


def planning() -> Scripted:
    """Babbles as executor, and gives a plan or two as a planner."""
    babble = babbling()

    def reply(messages: Sequence[Message], sampling: Sampling) -> str:
        if "You divide a task" in messages[0].content:
            return PLANS[len(messages[-1].content) % len(PLANS)]
        return babble.complete(messages, sampling=sampling).text

    return Scripted(reply)


@pytest.fixture(params=[(agent, env) for agent in AGENTS for env in SPLITS], ids="-in-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    agent, env = request.param
    return agent, env


class TestTheContract(AgentContract):
    tasks = 1

    @pytest.fixture(autouse=True)
    def of(self, pair: tuple[str, str]) -> None:
        self.agent, self.env_name = pair
        self.split = SPLITS[self.env_name]

    @pytest.fixture
    def env(self, environments: dict[str, Environment]) -> Environment:
        return environments[self.env_name]

    def make_agent(self, seed: int = 0, budget: int | None = None) -> Agent:
        return make_agent(self.agent, planning(), seed, budget=budget or BUDGET, **OPTIONS)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", AGENTS)
def test_no_reply_breaks_an_episode(
    name: str, kind: str, environments: dict[str, Environment]
) -> None:
    for env_name in SPLITS:
        env = environments[env_name]
        llm = always(ODD[kind])
        agent = make_agent(name, llm, budget=4, **OPTIONS)
        result, trials = run_episode(env, agent, env.tasks(SPLITS[env_name])[0])
        assert result.error == ""
        assert all(len(trial.steps) <= 4 for trial in trials)
        assert result.usage.calls == len(llm.requests)
