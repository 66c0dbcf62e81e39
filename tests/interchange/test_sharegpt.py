"""Conversations of ShareGPT become trajectories as far as they go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import formats
from ldm.envs.formats import Assumed
from ldm.interchange import sharegpt
from ldm.records import Problem
from ldm.types import Step, Trajectory

KITCHEN = Assumed(env="kitchen", kind="heat", origin="human", score=1.0)
EGG = [("system", "You cook."), ("human", "Heat an egg."), ("gpt", "take egg")]


def conversation(*messages: tuple[str, Any], **fields: Any) -> dict[str, Any]:
    return {"conversations": [{"from": who, "value": text} for who, text in messages], **fields}


def read(*messages: tuple[str, Any], **fields: Any) -> Trajectory:
    made = sharegpt.parse(json.dumps(conversation(*messages, **fields)), "x.jsonl", 1, KITCHEN)
    assert isinstance(made, Trajectory), made
    return made


def problem(*messages: tuple[str, Any]) -> str:
    made = sharegpt.parse(json.dumps(conversation(*messages)), "x.jsonl", 1, KITCHEN)
    assert isinstance(made, Problem)
    return str(made)


def test_what_the_human_says_is_heard_and_what_gpt_says_is_done() -> None:
    made = read(*EGG, ("human", "You hold the egg."), ("gpt", "heat egg"), id="7", score=0.5)
    assert (made.task.goal, made.opening) == ("Heat an egg.", "Heat an egg.")
    assert made.steps == (Step("take egg", "You hold the egg."), Step("heat egg", "", reward=0.5))
    assert (made.task.env, made.task.kind, made.origin) == ("kitchen", "heat", "human")
    assert made.score == 0.5  # the conversation's own word counts more


def test_a_function_call_is_an_action_that_an_observation_answers() -> None:
    call = json.dumps({"name": "heat", "arguments": {"what": "egg"}})
    made = read(EGG[1], ("function_call", call), ("observation", "It is hot."), ("gpt", "Done."))
    assert made.steps[0] == Step('heat {"what": "egg"}', "It is hot.")
    assert made.steps[1].action == "Done."


@pytest.mark.parametrize("text", ["heat", "[1]", '{"name": 1}', '{"arguments": {}}'])
def test_a_call_that_is_none_stays_as_it_was_written(text: str) -> None:
    assert read(EGG[1], ("function_call", text)).steps[0].action == text


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([("robot", "hi")], "x.jsonl:1:conversations.0.from: 'robot' is none of assistant, bard"),
        ([("human", 7)], "x.jsonl:1:conversations.0.value: missing or not a text"),
        ([("human", "Heat an egg.")], "x.jsonl:1:conversations: has no action"),
        ([("gpt", "take egg")], "x.jsonl:1:conversations: no message to the agent states the goal"),
    ],
)
def test_what_does_not_fit_is_named(messages: list[tuple[str, Any]], message: str) -> None:
    assert message in problem(*messages)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_file_may_be_lines_or_a_list(name: str, tmp_path: Path) -> None:
    several = [conversation(*EGG), conversation(("human", "Boil an egg."), ("gpt", "take egg"))]
    lines = "".join(json.dumps(one) + "\n" for one in several)
    (tmp_path / name).write_text(lines if name == "a.jsonl" else json.dumps(several, indent=1))
    assert formats.files_below([tmp_path]) == [tmp_path / name]
    made = formats.read_all([tmp_path], pytest.fail, assumed=KITCHEN)
    assert [one.task.goal for one in made] == ["Heat an egg.", "Boil an egg."]


def test_a_file_that_is_no_json_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"conversations": [')
    (made,) = sharegpt.read(tmp_path / "a.json")
    assert isinstance(made, Problem)
    assert "not JSON" in str(made)
