"""Every agent that asks a model keeps the contract in every environment, whatever it is told."""

from __future__ import annotations

from functools import partial

import pytest

from ldm.agents import AGENTS, load_agent
from ldm.episode import Agent, Environment, run_episode
from ldm.testing import AgentContract, Onlooker
from tests.agents.loop_contract import LOOP_AGENTS, SPLITS, make_agent
from tests.agents.scripted import ODD, always, babbling

BUDGET = 9
CASES = [(agent, env, kind) for agent in LOOP_AGENTS for env in SPLITS for kind in ODD]


def test_every_agent_that_asks_a_model_is_held_to_the_contract() -> None:
    asking = {name for name in AGENTS if "llm" in load_agent(name).needs}
    assert set(LOOP_AGENTS) <= asking


@pytest.fixture(params=[(agent, env) for agent in LOOP_AGENTS for env in SPLITS], ids="-in-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An agent and an environment."""
    agent, env = request.param
    return agent, env


class TestTheContract(AgentContract):
    """The contract of agents, with a model that babbles."""

    tasks = 1

    @pytest.fixture(autouse=True)
    def of(self, pair: tuple[str, str]) -> None:
        self.agent, self.env_name = pair
        self.split = SPLITS[self.env_name]

    @pytest.fixture
    def env(self, environments: dict[str, Environment]) -> Environment:
        return environments[self.env_name]

    def make_agent(self, seed: int = 0, budget: int | None = None) -> Agent:
        return make_agent(self.agent, babbling(), seed, budget=budget or BUDGET, trials=2)


@pytest.mark.parametrize(("name", "env_name", "kind"), CASES)
def test_no_reply_breaks_an_episode(
    name: str, env_name: str, kind: str, environments: dict[str, Environment]
) -> None:
    """It ends within its limits, everything is recorded, and what was said is counted."""
    env = Onlooker(environments[env_name])
    task = env.tasks(SPLITS[env_name])[0]  # type: ignore[operator]
    llm = always(ODD[kind])
    agent = make_agent(name, llm, budget=4, trials=2)

    result, trials = run_episode(env, agent, task)  # type: ignore[arg-type]

    assert result.error == ""
    assert result.end in ("budget", "done")
    assert all(len(trial.steps) <= 4 for trial in trials)
    assert [s.action for t in trials for s in t.steps if s.action] == env.actions
    assert result.usage.calls == len(llm.requests)
    counts = [note.data for note in result.notes if note.kind == "replies"]
    assert len(counts) == result.trials
    replies = sum(c["replies"] for c in counts)
    other = sum(note.kind in ("plan", "reflection") for note in result.notes)
    assert replies == len(llm.requests) - other
    if kind in ("empty", "refusing", "label alone"):
        assert sum(c["malformed"] for c in counts) == replies
        assert result.invalid == result.env_steps


def test_a_model_without_room_is_an_error_that_says_so(
    environments: dict[str, Environment],
) -> None:
    llm = babbling()
    llm._room = 10
    agent = partial(make_agent, llm=llm, budget=4)
    for name in LOOP_AGENTS:
        env = environments["toy"]
        result, _ = run_episode(env, agent(name), env.tasks("test")[0])
        assert result.end == "error"
        assert "ContextTooLong" in result.error


@pytest.mark.parametrize("name", ["react", "adapt", "autoplan", "lats"])
def test_who_copies_the_form_of_a_free_argument_means_the_one_that_is_listed(
    name: str, environments: dict[str, Environment]
) -> None:
    """The form is ours: no shop is searched for its words. The agent `ldm` reads it so, too."""
    env = environments["webshop"]
    task = env.tasks(SPLITS["webshop"])[0]
    llm = always("Act: search[your own keywords]")
    shown, hidden = (
        run_episode(env, make_agent(name, llm, budget=3, admissible=listing), task)[1][0]
        for listing in (True, False)
    )
    assert shown.steps[0].action == f"search[{task.goal}]"
    assert hidden.steps[0].action == "search[your own keywords]"
