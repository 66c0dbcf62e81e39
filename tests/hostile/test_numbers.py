"""Scores, rewards and counts have ranges: a number out of range enters no record."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.random import RandomAgent, RandomOptions
from ldm.episode import run_episode
from ldm.memory.index import IndexedTuple
from ldm.records import Problem
from ldm.types import Outcome, TimeStep
from tests.test_records import RESULT
from tests.test_types import TRAJECTORY, TUPLE
from tests.toy import ToyEnv

#: As they stand in JSON; the last one is infinite as a float.
NUMBERS = ("NaN", "-Infinity", "1e300", "-5", "1e999")
ROW = IndexedTuple(replace(TUPLE, outcome=Outcome(1.0, 1.0)), "heat-1", 0, 0)
FIELDS = [
    *((TRAJECTORY, "score"), (TRAJECTORY, "steps.0.reward"), (RESULT, "score")),
    *((RESULT, "seconds"), (ROW, "tuple.outcome.value"), (ROW, "goal_type")),
]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("record", "field"), FIELDS, ids=lambda one: str(one)[:12])
def test_a_number_out_of_range_is_a_problem_of_its_field(
    record: Any, field: str, number: str
) -> None:
    values = inner = json.loads(records.dumps(record))
    *path, name = field.split(".")
    for part in path:
        inner = inner[int(part) if part.isdecimal() else part]
    inner[name] = "HERE"
    line = json.dumps(values).replace('"HERE"', number)
    problem = records.parse(line, type(record), "a.jsonl", 3)
    assert isinstance(problem, Problem)
    assert str(problem).startswith("a.jsonl:3:")
    assert problem.field in ("", field)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1e300, -5.0])
def test_an_environment_that_gives_no_reward_fails_its_episode_only(reward: float) -> None:
    class Generous(ToyEnv):
        def step(self, action: str) -> TimeStep:
            return replace(super().step(action), reward=reward)

    env = Generous()
    agent = RandomAgent(RandomOptions(), Resources())
    result, trials = run_episode(env, agent, env.tasks("test")[0])
    assert "which is not in [-1, 1]" in result.error
    for record in (result, *trials):
        assert records.loads(records.dumps(record), type(record)) == cast(Any, record)
