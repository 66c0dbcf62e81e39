"""`ldm eval --agent react,…`: several agents on the same tasks, with one model, in one command."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.agents import demonstrations
from ldm.llm import calls
from ldm.run.runner import EPISODES, TRAJECTORIES
from ldm.types import EpisodeResult, Trajectory
from tests.agents.loop_contract import LOOP_AGENTS
from tests.cli.conftest import run
from tests.toy import ToyEnv, expert, expert_trajectories

pytestmark = pytest.mark.usefixtures("place", "server")

#: Tasks that differ in their goals, by which the model tells them apart.
TASKS = {task.goal: task for task in reversed(ToyEnv().tasks("test"))}
PLAYERS = {goal: expert(task) for goal, task in TASKS.items()}
IDS = ",".join(sorted(task.id for task in TASKS.values())[:4])
TOY = ("--env", "tests.toy:ToyEnv", "--tasks", IDS, "--llm", "fake", "--agent.budget", "6")


def reply(body: dict[str, Any]) -> str:
    """Solves the task after a lesson; before, it goes to the sink and back."""
    if len(body["messages"]) == 1:  # the client's probe
        return "Hello."
    system, question = (message["content"] for message in body["messages"])
    if "failed attempt" in system:
        return "I should have searched the shelves."
    goal = question.rpartition("<task>\n")[2].partition("\n</task>")[0]
    step_count = question.rpartition("<so-far>")[2].count("\nAct:")
    if "should have searched" in question:
        return f"Act: {PLAYERS[goal][min(step_count, len(PLAYERS[goal]) - 1)]}"
    return "Think: hm.\nAct: go to sink" if step_count % 2 else "go to shelf 1"


def runs() -> list[Path]:
    return sorted(Path("runs").iterdir())


def test_they_stand_side_by_side_with_what_each_took() -> None:
    outcome = run("eval", *TOY, "--agent", "react,reflexion,random", "--workers", "1").done()
    table = outcome.out.partition("Side by side")[2]
    for word in ("100.0 %", "trials", "calls", "tokens", "s/task"):
        assert word in table
    for pair in ("react − reflexion", "react − random", "reflexion − random"):
        assert pair in table
    assert table.count("McNemar's exact test") == 3
    assert "The corrected p-values allow for the 3 comparisons (Holm's method)." in table


def test_all_play_the_same_tasks_and_everything_is_recorded() -> None:
    agents = ",".join(LOOP_AGENTS)
    assert run("eval", *TOY, "--agent", agents, "--agent.trials", "2").code == 0
    assert len(runs()) == len(LOOP_AGENTS)
    played = {}
    for directory in runs():
        results = records.read(directory / EPISODES, EpisodeResult)
        played[results[0].agent] = [result.task.id for result in results]
        trajectories = records.read(directory / TRAJECTORIES, Trajectory)
        assert len(trajectories) == sum(result.trials for result in results)
        made = [call for call in calls.read_calls(directory) if call.role != "probe"]
        assert 0 < len(made) <= sum(result.usage.calls for result in results)
    assert set(played) == set(LOOP_AGENTS)
    assert len({tuple(tasks) for tasks in played.values()}) == 1


def test_what_stops_a_later_agent_names_the_run_that_resumes_all() -> None:
    options = ("--agent", "react,reflexion", "--agent.trials", "2")
    stopped = run("eval", *TOY, *options, "--models.max-calls", "18").refused()
    (first,) = Path("runs").glob("*react*")
    assert f"ldm eval --resume {first}" in stopped.err
    run("eval", "--resume", first, "--models.max-calls", "999").done("Side by side")


def test_a_run_does_not_mix_two_sets_of_demonstrations() -> None:
    own = Path("mine.jsonl")
    own.write_text(records.dumps(expert_trajectories()[0]) + "\n")
    options = ("--agent", "react", "--agent.demonstrations", "mine.jsonl")
    recorded = json.loads(run("eval", *TOY, *options, "--json").out)["run"]
    assert run("eval", "--resume", recorded).code == 0
    own.write_text(records.dumps(expert_trajectories()[1]) + "\n")
    run("eval", "--resume", recorded).refused("has changed since the run began")


def test_a_task_that_a_prompt_shows_is_not_evaluated() -> None:
    example = demonstrations.load("alfworld")[0].task.id
    command = ("--env", "alfworld", "--split", "demo_train", "--tasks", example, "--llm", "fake")
    run("eval", *command, "--agent", "react").refused(
        f"of the demonstrations of react: {example}", "--agent.shots 0"
    )
    assert not Path("runs").exists()
    none = ("--agent.shots", "0", "--agent.budget", "1")
    assert run("eval", *command, "--agent", "react", *none).code == 0


def timeless(report: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON report without the seconds that it took."""
    kinds = {kind: {**figures, "seconds": 0} for kind, figures in report["by_kind"].items()}
    return {**report, "seconds": 0, "by_kind": kinds}
