"""`ldm eval --env hotpotqa --agent cot,act,react,reflexion,lats`: all on the same questions."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.run.runner import EPISODES, TRAJECTORIES
from ldm.text import read_json
from ldm.types import EpisodeResult, Trajectory
from ldm.worlds.hotpotqa import HotpotQA
from ldm.worlds.hotpotqa.library import OWN_DATA
from tests.cli.conftest import Run
from tests.llm.conftest import Serve
from tests.llm.server import FakeServer
from tools.hotpotqa.expert import solve

AGENTS = "cot,act,react,reflexion,lats"
COUNT = 4
SEARCH = ("--agent.width", "3", "--agent.simulations", "6")
#: What the model answers to one of the questions until it has learnt something.
WRONG = "an elephant"
LESSON = "I answered before I had read anything. Next time I search first."


@cache
def ways() -> dict[str, list[str]]:
    """The expert's actions for the evaluated questions, by question."""
    env = HotpotQA()
    entries = read_json(OWN_DATA / "demo_test.json.gz")
    articles = read_json(OWN_DATA / "wiki_articles.json.gz")
    tasks = list(zip(env.tasks("demo_test"), entries, strict=True))[:COUNT]
    return {
        task.goal: [step.action for step in solve(env, task, entry, articles).steps]
        for task, entry in tasks
    }


def ids() -> str:
    return ",".join(task.id for task in HotpotQA().tasks("demo_test")[:COUNT])


def knows(body: dict[str, Any]) -> str:
    """Goes the expert's way and knows every answer, but is rash with the first question.

    Some samples of a search go astray, and it rates those states low; some are rash, and it
    rates those high.
    """
    if len(body["messages"]) == 1:  # the client's probe
        return "Hello."
    system, question = (message["content"] for message in body["messages"])
    goal = question.rpartition("<task>\n")[2].partition("\n</task>")[0]
    way = ways()[goal]
    if "You answer a question from what you know" in system:
        answer = way[-1].removeprefix("finish[").removesuffix("]")
        return f"Think: I know it.\nAnswer: {answer}"
    if "failed attempt" in system:
        return LESSON
    if "You judge an attempt" in system:
        attempt = question.rpartition("<attempt>")[2]
        return f"Think: hm.\nScore: {1 if 'Nowhere' in attempt else 9 if WRONG in attempt else 5}"
    done = question.rpartition("<so-far>")[2].count("\nAct:")
    draw = body.get("seed", 0)  # 0 where nothing is drawn
    if goal == next(iter(ways())) and LESSON not in question and draw % 2 == 0:
        return f"Think: easy.\nAct: finish[{WRONG}]"
    if draw % 3 == 2:
        return "Think: maybe there?\nAct: search[Nowhere]"
    return f"Think: next.\nAct: {way[min(done, len(way) - 1)]}"


@pytest.fixture
def server(serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeServer:
    monkeypatch.chdir(tmp_path)
    server = serve(answer=knows)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    return server


HOTPOTQA = ("--env", "hotpotqa", "--split", "demo_test", "--llm", "fake")


def test_all_of_them_play_the_same_questions_and_stand_side_by_side(
    run: Run, server: FakeServer
) -> None:
    outcome = run("eval", *HOTPOTQA, "--tasks", ids(), "--agent", AGENTS, *SEARCH,
                  "--agent.trials", "2", "--json")  # fmt: skip
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    rows = {one["agent"]: one for one in (report, *report["compared"])}
    # Without a lesson the first question is answered rashly.
    rates = {"cot": 1.0, "act": 0.75, "react": 0.75, "reflexion": 1.0, "lats": 1.0}
    assert {name: row["success_rate"] for name, row in rows.items()} == rates
    assert (rows["cot"]["calls"], rows["cot"]["mean_steps"]) == (1.0, 1.0)
    assert rows["reflexion"]["trials"] == 1.25
    assert rows["lats"]["simulations"] == 1.25
    assert [name for name, row in rows.items() if row["sees_reward"]] == ["reflexion", "lats"]


def test_a_search_is_recorded_as_trials_and_as_a_tree(run: Run, server: FakeServer) -> None:
    run("eval", *HOTPOTQA, "--tasks", ids(), "--agent", "lats", *SEARCH).done()
    (directory,) = Path("runs").iterdir()
    results = records.read(directory / EPISODES, EpisodeResult)
    trajectories = records.read(directory / TRAJECTORIES, Trajectory)
    assert len(trajectories) == sum(result.trials for result in results)
    assert sum(len(trial.steps) for trial in trajectories) == sum(r.env_steps for r in results)
    assert max(len(trial.steps) for trial in trajectories) <= 7  # as published
    table = run("runs", "show", directory, "--tree").out
    assert "simulations" in table
    first = results[0]
    tree = run("runs", "show", directory, first.task.id, "--tree").out
    assert f"finish[{WRONG}]  [value 0.39, visits 2, reward 0.00, done]" in tree
    assert "reward 1.00, done]" in tree
    assert "solved, 2 simulations" in tree


def test_votes_are_recorded_with_every_sample(run: Run, server: FakeServer) -> None:
    command = ("eval", *HOTPOTQA, "--tasks", ids(), "--agent", "cot", "--agent.samples", "3")
    report = json.loads(run(*command, "--json").out)
    assert (report["calls"], report["agreement"]) == (3.0, 100.0)
    call_count = len(server.bodies)
    again = run(*command[:5], *command[7:], "--replay", report["run"], "--json").done()
    assert json.loads(again.out)["success_rate"] == report["success_rate"] == 1.0
    assert len(server.bodies) == call_count  # each sample has a recorded reply of its own


@pytest.mark.parametrize("env", ["alfworld", "tests.toy:ToyEnv"])
def test_an_environment_without_questions_is_refused_before_anything_is_paid(
    env: str, run: Run, server: FakeServer
) -> None:
    run("eval", "--env", env, "--limit", "2", "--llm", "fake", "--agent", "react,cot").refused(
        "The agent cot answers questions, and a task of",
        "or an agent that acts, such as act or react",
    )
    assert server.bodies == []
    assert not Path("runs").exists()
