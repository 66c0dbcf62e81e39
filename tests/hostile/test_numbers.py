"""Scores, rewards and counts have ranges: what is no such number enters no record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.random import RandomAgent, RandomOptions
from ldm.episode import run_episode
from ldm.memory.index import Generation, IndexedTuple
from ldm.records import Problem
from ldm.types import EpisodeResult, StateActionTuple, TimeStep, Trajectory
from tests.test_records import RESULT
from tests.test_types import TRAJECTORY, TUPLE
from tests.toy import ToyEnv

#: As they stand in JSON; the last two are infinite as floats.
NUMBERS = ("NaN", "Infinity", "-Infinity", "1e300", "-5", "1.5", "1e999", "9" * 400)
FIELDS = [
    (TRAJECTORY, "score"),
    (TRAJECTORY, "steps.0.reward"),
    (RESULT, "score"),
    (RESULT, "seconds"),
    (TUPLE, "outcome.score"),
    (TUPLE, "outcome.value"),
    (TUPLE, "outcome.advantage"),
]
OUTCOME = '"outcome":{"score":1.0,"value":1.0,"advantage":0.0,"confirmed":0}'


def with_number(record: Any, field: str, number: str) -> str:
    """The line of a record with another number in one field, as text that JSON may not know."""
    values = json.loads(records.dumps(record))
    if field.startswith("outcome"):
        values["outcome"] = {"score": 1.0, "value": 1.0}
    *path, name = field.split(".")
    inner = values
    for part in path:
        inner = inner[int(part) if part.isdecimal() else part]
    inner[name] = "HERE"
    return json.dumps(values).replace('"HERE"', number)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("record", "field"), FIELDS, ids=lambda one: str(one)[:12])
def test_a_number_out_of_range_is_a_problem_of_its_field(
    record: Any, field: str, number: str
) -> None:
    if field == "seconds" and number in ("1.5",):
        return
    problem = records.parse(with_number(record, field, number), type(record), "a.jsonl", 3)
    assert isinstance(problem, Problem)
    assert str(problem).startswith("a.jsonl:3:")
    assert problem.field in ("", field)


@pytest.mark.parametrize("kind", [Trajectory, EpisodeResult, StateActionTuple, Generation])
def test_the_published_ranges_are_part_of_the_schema(kind: type) -> None:
    text = json.dumps(records._adapter(kind).json_schema())
    assert '"maximum": 1' in text or '"maximum": 9007199254740992' in text


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1e300, -5.0])
def test_an_environment_that_gives_no_reward_fails_its_episode_only(reward: float) -> None:
    class Generous(ToyEnv):
        def step(self, action: str) -> TimeStep:
            return replace(super().step(action), reward=reward)

    env = Generous()
    agent = RandomAgent(RandomOptions(), Resources())
    result, trials = run_episode(env, agent, env.tasks("test")[0])
    assert result.end == "error"
    assert "which is not in [-1, 1]" in result.error
    for record in (result, *trials):
        assert records.loads(records.dumps(record), type(record)) == cast(Any, record)


def test_a_tuple_of_a_memory_has_them_too() -> None:
    row = IndexedTuple(TUPLE, "heat-1", 0, 0)
    for field, number in (("reach", "NaN"), ("reach", "7"), ("goal_type", "-1")):
        problem = records.parse(with_number(row, field, number), IndexedTuple, "a", 1)
        assert isinstance(problem, Problem)
