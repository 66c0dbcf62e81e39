"""The agent keeps the contract of agents in every environment, whatever it is told."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

from ldm.config import Evaluate, Section
from ldm.deps import DepsAgent
from ldm.deps.parser import Vocabulary
from ldm.deps.select import NOTE, REPORTING
from ldm.deps.styles import STYLES, DepsOptions, Method
from ldm.episode import Agent, Environment, run_episode
from ldm.reporting import noted
from ldm.run.conditions import sees_actions
from ldm.testing import AgentContract
from ldm.worlds.alfworld import ALFWorld
from ldm.worlds.minecraft import Minecraft
from tests.agents.loop_contract import SPLITS, make_agent
from tests.agents.scripted import ODD, always, babbling, in_turn
from tests.agents.test_contracts import PLANS as DIVISIONS
from tests.deps.workshop import Workshop

EVERYWHERE = {**SPLITS, "workshop": "test", "minecraft": "test"}
METHODS: tuple[Method, ...] = get_args(Method)
OPTIONS: dict[str, Any] = {"rounds": 2, "goal_steps": 3, "max_goals": 6}
PLANS = (
    *DIVISIONS,
    'mine({"log": 2}, null); # step 1\ncraft({"planks": 4}, {"log": 1}, null);',
    "Step 1: mine 1 wool\nStep 2: dance\nStep 3: mine 1 log",
    "1. put the yellow block in the yellow bowl\n2. look",
    "Goal: mine 1 log\nThought: wood",
    "while not inventory.has({'log': 2}):\n    mine(obj='log', tool=None)",
)


@pytest.fixture(scope="module")
def everywhere(environments: dict[str, Environment]) -> Iterator[dict[str, Environment]]:
    own: dict[str, Environment] = {"workshop": Workshop(), "minecraft": Minecraft()}
    yield {**environments, **own}
    for env in own.values():
        env.close()


@pytest.fixture(params=list(EVERYWHERE))
def env_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestTheContract(AgentContract):
    tasks = 1

    @pytest.fixture(autouse=True)
    def of(self, env_name: str) -> None:
        self.split = EVERYWHERE[env_name]

    @pytest.fixture
    def env(self, env_name: str, everywhere: dict[str, Environment]) -> Environment:
        return everywhere[env_name]

    def make_agent(self, seed: int = 0, budget: int | None = None) -> Agent:
        llm = babbling(PLANS, "^You (plan for|direct)")
        return make_agent("deps", llm, seed, budget=budget or 20, **OPTIONS)


def able(method: Method, env: Environment) -> bool:
    """Return whether a method can work there: programs need an inventory."""
    return STYLES[method].form not in ("program", "policy") or Vocabulary.of(env.card).counted


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("method", METHODS)
def test_no_reply_breaks_an_episode(
    method: Method, kind: str, everywhere: dict[str, Environment]
) -> None:
    for name, split in EVERYWHERE.items():
        env = everywhere[name]
        if not able(method, env):
            continue
        llm = always(ODD[kind])
        agent = make_agent("deps", llm, budget=4, method=method, **OPTIONS)
        result, trials = run_episode(env, agent, env.tasks(split)[0])
        assert result.error == "", (name, result.error)
        assert result.end in ("budget", "done", "gave_up")
        assert all(sum(bool(step.action) for step in trial.steps) <= 4 for trial in trials)
        assert result.usage.calls == len(llm.requests)
        data = noted(result, NOTE)
        assert data is not None
        assert len(data["rounds"]) <= max(OPTIONS["rounds"] + 1, OPTIONS["max_goals"])
        assert REPORTING.tree(result) is not None
        assert REPORTING.findings([result]).lines


def test_a_trial_may_be_limited_by_its_actions_alone() -> None:
    walks = ["Think: on", "Act: go to fridge 1", "Think: back", "Act: go to microwave 1"]
    llm = in_turn(["Step 1: walk about", *walks * 3])
    env = ALFWorld()
    agent = make_agent("deps", llm, actions=3, method="gpt")
    result, (trial,) = run_episode(env, agent, env.tasks("demo_test")[0])
    assert (result.end, result.env_steps, len(trial.steps)) == ("budget", 3, 6)


@pytest.mark.parametrize(("env", "seen"), [("minecraft", False), ("alfworld", True)])
def test_tables_say_whether_a_model_is_shown_the_possible_actions(env: str, seen: bool) -> None:
    spec = Evaluate(env=Section(env), agent=Section("deps"))
    assert sees_actions(spec, {}) == seen
    assert sees_actions(replace(spec, agent=Section("random")), {})


@pytest.mark.parametrize("method", METHODS)
def test_a_model_without_room_is_an_error_that_says_so(method: Method) -> None:
    llm = babbling()
    llm._room = 10
    env = Workshop()
    result, _ = run_episode(env, make_agent("deps", llm, method=method), env.tasks("test")[0])
    assert result.end == "error"
    assert "ContextTooLong" in result.error


def test_budgets_are_those_of_the_paper_where_it_has_one() -> None:
    from ldm.agents import Resources
    from ldm.envs import load_env

    agent = DepsAgent(DepsOptions(), Resources())
    for name, budget in (("alfworld", 50), ("minecraft", 300), ("webshop", 60)):
        assert agent.budget(load_env(name).card) == budget
