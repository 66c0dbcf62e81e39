"""plan_hint: one plan, written once, before the eyes of one run."""

from __future__ import annotations

import pytest

from ldm.agents import Resources
from ldm.agents.plan_hint import LONGEST, PlanHintAgent, PlanHintOptions
from ldm.episode import run_episode
from ldm.types import EpisodeResult, Trajectory
from tests.agents.scripted import Scripted, always, in_turn
from tests.toy import ToyEnv, expert

PLAN = "1. go to shelf 1 OR go to shelf 2 AND\n2. take the fruit AND\n3. put it in the basket"
TASK = ToyEnv().tasks("test")[0]


def play(
    planner: Scripted, llm: Scripted, budget: int = 8
) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    agent = PlanHintAgent(PlanHintOptions(budget=budget), Resources(llm=llm, planner=planner))
    result, trials = run_episode(ToyEnv(), agent, TASK)
    assert result.error == ""
    return result, trials


def test_the_plan_is_a_note_and_the_executor_has_it_before_its_eyes() -> None:
    planner, llm = always(PLAN), in_turn(f"Act: {action}" for action in expert(TASK))
    result, trials = play(planner, llm)
    assert result.success
    assert (result.trials, len(trials)) == (1, 1)
    (note,) = [note for note in result.notes if note.kind == "plan"]
    assert (note.trial, note.data) == (0, {"text": PLAN})
    assert all(f"<plan>\n{PLAN}\n</plan>" in prompt for prompt in llm.prompts)
    assert result.usage.calls == len(llm.requests) + 1


@pytest.mark.parametrize(
    ("reply", "plan_text"),
    [
        (f"Think: 1 fruit is needed, of 2.\n{PLAN}", PLAN),
        (f"Sure!\n\n**1.** look\n{PLAN}", f"**1.** look\n{PLAN}"),
        ("Go to the shelf, then to the basket.", "Go to the shelf, then to the basket."),
    ],
)
def test_the_executor_is_shown_the_steps_alone(reply: str, plan_text: str) -> None:
    llm = always("Act: go to sink")
    result, _ = play(always(reply), llm)
    assert f"<plan>\n{plan_text}\n</plan>" in llm.prompts[0]
    assert result.notes[0].data == {"text": reply}


def test_without_a_plan_the_executor_works_alone() -> None:
    llm = always("Act: go to sink")
    result, _ = play(always("  \n"), llm)
    assert "<plan>" not in llm.prompts[0]
    assert [note.data for note in result.notes if note.kind == "plan"] == [{"text": ""}]


def test_a_plan_without_end_is_shortened() -> None:
    llm = always("Act: go to sink")
    play(always("go on " * 5000), llm, budget=2)
    assert len(llm.prompts[0]) < LONGEST + 1500
