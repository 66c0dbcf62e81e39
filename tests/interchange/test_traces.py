"""Traces of LangSmith and Langfuse are episodes: calls of tools are actions, feedback the score."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import formats
from ldm.envs.formats import Assumed
from ldm.interchange import traces
from ldm.records import Problem
from ldm.types import Trajectory

DESK = Assumed(env="desk", score=0.5)
GOAL = "refund a broken lamp"
TEXT = {"type": "text", "text": "Refunded."}
CALL = 'ask_for_photo {"order": 7}'


def run(name: str, kind: str, order: str, parent: str | None = "a", **more: Any) -> dict[str, Any]:
    fixed = {"id": order, "trace_id": "a", "parent_run_id": parent, "run_type": kind}
    return {"name": name, "dotted_order": order, "extra": {"any": 1}, **fixed, **more}


LANGSMITH = [
    run("ask_for_photo", "tool", "1.3", inputs={"input": '{"order": 7}'}, outputs={"output": "ok"}),
    run("model", "llm", "1.1", inputs={}, outputs={}),
    run("look_up", "tool", "1.2", inputs={"order": 7}, outputs=None, error="unknown order"),
    run(
        "agent",
        "chain",
        "1",
        None,
        inputs={"messages": [{"role": "user", "content": GOAL}]},
        outputs={"messages": [{"kwargs": {"content": [TEXT, TEXT]}}]},
        feedback_stats={"correct": {"n": 1, "avg": 1.0}, "length": {"avg": 200}},
    ),
]
LANGFUSE = {
    "id": "t",
    "input": {"query": GOAL},
    "output": "Refunded.",
    "scores": [{"name": "correct", "value": 1}, {"name": "note", "value": "good"}],
    "observations": [
        {"type": "TOOL", "name": "ask_for_photo", "startTime": "2026-01-01T00:00:02Z",
         "input": {"order": 7}, "output": {"content": "ok"}},
        {"type": "GENERATION", "name": "model", "startTime": "2026-01-01T00:00:01Z"},
    ],
}  # fmt: skip


def read(tmp_path: Path, *lines: Any) -> list[Trajectory | Problem]:
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert formats.format_of(file) == "traces"
    return list(traces.read(file, DESK))


def test_the_runs_of_langsmith_are_put_together_in_their_order(tmp_path: Path) -> None:
    (episode, other) = read(tmp_path, *LANGSMITH, {**LANGSMITH[-1], "trace_id": "b", "id": "b"})
    assert isinstance(episode, Trajectory)
    assert episode.task.goal == GOAL
    actions = [one.action for one in episode.steps]
    assert actions == ['look_up {"order": 7}', CALL, "Refunded.\nRefunded."]
    assert [one.observation for one in episode.steps[:2]] == ["unknown order", "ok"]
    assert (episode.score, episode.success, episode.task.id) == (1.0, True, "1")
    assert isinstance(other, Trajectory)
    assert len(other.steps) == 1


def test_a_trace_of_langfuse_is_an_episode(tmp_path: Path) -> None:
    (episode,) = read(tmp_path, LANGFUSE)
    assert isinstance(episode, Trajectory)
    assert (episode.task.goal, episode.task.id, episode.score) == (GOAL, "t", 1.0)
    assert [one.action for one in episode.steps] == [CALL, "Refunded."]
    assert episode.steps[0].observation == "ok"


def test_without_feedback_the_score_is_the_assumed_one(tmp_path: Path) -> None:
    (episode,) = read(tmp_path, {**LANGFUSE, "scores": []})
    assert isinstance(episode, Trajectory)
    assert episode.score == DESK.score


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({**LANGFUSE, "input": None}, "states the goal"),
        ({**LANGFUSE, "output": None, "observations": []}, "has no action"),
        ({**LANGFUSE, "observations": [1]}, "observations.0"),
        ({**LANGFUSE, "output": {"content": [TEXT, {"type": "image"}]}}, "image"),
    ],
    ids=range(4),
)
def test_what_is_no_episode_is_a_problem(tmp_path: Path, line: Any, problem: str) -> None:
    assert problem in str(read(tmp_path, line)[0])
