"""`ldm eval --agent react,…`: several agents on the same tasks in one command, what each had."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ldm import records
from ldm.agents import demonstrations
from ldm.llm import calls
from ldm.run.runner import EPISODES, TRAJECTORIES
from ldm.types import EpisodeResult, Trajectory
from tests.agents.loop_contract import LOOP_AGENTS
from tests.cli.conftest import run
from tests.llm.server import FakeServer
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


RANDOM = ("--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "1")
PAIR = ("--agent", "random,react", "--workers", "1")


def test_all_are_shown_the_possible_actions_if_one_is(server: FakeServer) -> None:
    outcome = run("eval", *TOY, *PAIR).done()
    assert "All agents are shown the possible actions, because random is: this adds" in outcome.err
    assert "actions listed" in outcome.out.partition("The same for all of them:")[2]
    assert "take" in server.bodies[-1]["messages"][1]["content"].partition("possible")[2]
    had = [json.loads((one / "run.json").read_text())["spec"] for one in runs()]
    assert next(p["agent"] for p in had if p["agent"]["name"] == "react")["admissible"] is True


def test_what_each_had_is_said() -> None:
    outcome = run("eval", *TOY, *PAIR, "--agent.shots", "2", "--json")  # none is known there
    random, react = (report := json.loads(outcome.out)), report["compared"][0]
    assert random["had"]["actions_listed"]
    assert not any(random["had"][name] for name in ("demonstrations", "memory", "models"))
    assert react["had"]["models"] == {"llm": "fake", "planner": "fake"}
    assert react["had"]["demonstrations"] == 0
    assert "up to 0 demonstrations, the model fake (" in outcome.err
    assert "tokens per task)." in outcome.err


class TestRepeats:
    def test_are_one_row_clustered_by_task(self) -> None:
        report = json.loads(run("eval", *RANDOM, "--repeat", "3", "--json").out)
        assert report["episodes"] == 36
        repeats = report["repeats"]
        assert len(repeats["runs"]) == len(set(repeats["runs"])) == 3
        mean = repeats["success_rate"]["mean"]
        assert mean == pytest.approx(report["success_rate"])
        chances = [one["rate"] for one in repeats["pass_at"]]
        assert chances[0] == pytest.approx(mean)
        assert chances == sorted(chances)

    def test_have_the_seeds_that_follow_and_resume_together(self) -> None:
        first = json.loads(run("eval", *RANDOM, "--repeat", "2", "--seed", "5", "--json").out)
        plans = [json.loads((one / "run.json").read_text())["spec"] for one in runs()]
        assert sorted((plan["repeat"], plan["seed"]) for plan in plans) == [(1, 5), (2, 6)]
        (Path(first["repeats"]["runs"][1]) / "episodes.jsonl").unlink()
        again = json.loads(run("eval", "--resume", first["run"], "--trust", "--json").out)
        assert timeless(again) == timeless(first)

    def test_named_one_by_one_are_compared_as_one(self) -> None:
        run("eval", *RANDOM, "--repeat", "2")
        outcome = run("compare", *runs(), "--trust", "--json")
        (report,) = json.loads(outcome.out)["runs"]
        assert len(report["repeats"]["runs"]) == 2


@pytest.mark.parametrize("name", ["results.parquet", "results.csv"])
def test_results_are_written_as_a_table(name: str) -> None:
    report = json.loads(run("eval", *TOY, *PAIR, "--output", name, "--json").out)
    table = pl.read_parquet(name) if name.endswith("parquet") else pl.read_csv(name)
    assert len(table) == 8
    rates = dict(table.group_by("agent").agg(pl.col("success").mean()).iter_rows())
    assert rates["random"] == report["success_rate"]
    assert table.filter(agent="react")["models"].unique().to_list() == ["fake"]
    assert (
        f"8 episodes → again-{name}"
        in run("compare", *runs(), "--trust", "--output", f"again-{name}").done().err
    )


def labels(out: str) -> list[str]:
    first = json.loads(out)
    return [first["agent"], *(one["agent"] for one in first["compared"])]


def test_models_are_swept_and_each_run_knows_its_own(server: FakeServer) -> None:
    outcome = run("eval", *TOY, "--agent", "react", "--sweep", "models.llm=small,large", "--json")
    assert labels(outcome.out) == ["react llm=small", "react llm=large"]
    assert {body["model"] for body in server.bodies} == {"small", "large"}
    report = json.loads(outcome.out)
    assert report["had"]["models"]["llm"] == "small"
    (Path(report["compared"][0]["run"]) / "episodes.jsonl").unlink()
    again = run("eval", "--resume", report["run"], "--trust", "--json")
    assert labels(again.out) == ["react llm=small", "react llm=large"]


def test_rows_of_a_table_have_models_and_environments_of_their_own() -> None:
    preset = ("--preset", Path(__file__).with_name("two_models.toml"), "--trust", "--llm", "small")
    lacking = run("eval", *preset)
    assert (lacking.code, Path("runs").exists()) == (1, False)
    assert "--planner-llm names no model" in lacking.err
    outcome = run("eval", *preset, "--planner-llm", "wise", "--json")
    rows = [json.loads(outcome.out), *json.loads(outcome.out)["compared"]]
    assert [row["had"]["models"]["llm"] for row in rows] == ["wise", "small"]
    plans: list[dict[str, Any]] = [
        json.loads((Path(row["run"]) / "run.json").read_text()) for row in rows
    ]
    assert [plan["protocol"]["shelves"] for plan in plans] == [3, 5]
