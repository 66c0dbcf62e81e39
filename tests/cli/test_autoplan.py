"""`ldm autoplan` and `ldm eval --agent autoplan` as users meet them, with a model that cooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldm.agents.autoplan.plans import read
from tests.agents.cook import reply as reply  # noqa: PLC0414 - the server says it
from tests.cli.conftest import Run
from tests.llm.server import FakeServer

pytestmark = pytest.mark.usefixtures("place")

BRIEF = ("--iterations", "2", "--batch", "1", "--plan.pool", "4", "--plan.steps", "50")
AUTOPLAN = ("autoplan", "--env", "alfworld", "--kind", "heat", *BRIEF, "--llm", "cook")


def the_run(place: Path) -> Path:
    (directory,) = (place / "runs").glob("autoplan-*")
    return directory


def test_the_plan_is_mended_saved_and_used(run: Run, place: Path, server: FakeServer) -> None:
    outcome = run(*AUTOPLAN, "--out", "plans").done(
        "iteration", "0 %", "100 %", "rewritten", "heat the object with a microwave"
    )
    assert "using the bundled split demo_train" in outcome.err
    assert "Usage in this run: llm (cook)" in outcome.err
    plan_file = read(place / "plans" / "alfworld-heat.json")
    assert len(plan_file.pool) == len(plan_file.sources) == 4
    assert plan_file.settings["env.feedback"] == "fine"
    assert [one.success for one in plan_file.iterations] == [0, 1]
    assert (
        plan_file.iterations[0].experiences[0].reflection.flaw == "The toaster does not heat here."
    )
    manifest = json.loads((the_run(place) / "run.json").read_text())
    assert manifest["protocol"]["feedback"] == "fine"
    assert manifest["models"]["llm"] == "cook"
    assert set(manifest["prompts"]) >= {"agents/autoplan/act"}

    command = ("eval", "--env", "alfworld", "--agent", "autoplan", "--split", "demo_test")
    subset = ("--kinds", "heat", "--limit", "2")
    evaluation = (*command, *subset, "--agent.budget", "50", "--llm", "cook")
    with_plan = json.loads(run(*evaluation, "--agent.plans", "plans", "--json").out)
    planless = run(*evaluation, "--json")
    assert "autoplan starts with an empty plan" in planless.err
    without = json.loads(planless.out)
    assert (with_plan["success_rate"], without["success_rate"]) == (1.0, 0.0)
    run("eval", "--resume", with_plan["run"]).done()

    learnt = ("--split", "demo_train", "--tasks", plan_file.pool[0], "--llm", "cook")
    run(*command[:-2], *learnt, "--agent.plans", "plans").refused(
        "of the plans of autoplan", plan_file.pool[0]
    )
    assert run(*command[:-2], *learnt, "--agent.budget", "2").code == 0


@pytest.mark.slow
def test_a_run_does_not_mix_two_plans(run: Run, place: Path, server: FakeServer) -> None:
    assert run(*AUTOPLAN, "--iterations", "1").code == 0
    command = ("eval", "--env", "alfworld", "--agent", "autoplan", "--split", "demo_test")
    subset = ("--kinds", "heat", "--limit", "2", "--agent.budget", "2", "--llm", "cook")
    evaluation = (*command, *subset)
    assert run(*evaluation, "--agent.plans", "plans").code == 0
    (evaluated,) = (place / "runs").glob("alfworld-*")
    assert run("eval", "--resume", evaluated).code == 0
    file = place / "plans" / "alfworld-heat.json"
    file.write_text(file.read_text().replace("Find", "Look for"))
    run("eval", "--resume", evaluated).refused("has changed since the run began")
    lacking = ("--kinds", "heat,cool,look", "--agent.plans", "plans", "--llm", "cook")
    run(*command, *lacking, "--runs", "others").refused(
        "There is no plan for cool, look in", "--kinds heat"
    )
    assert not (place / "others").exists()
    run(*evaluation, "--agent.plans", "nowhere").refused("There are no plans in")


@pytest.mark.slow
def test_evaluated_tasks_are_not_learnt_from(run: Run, place: Path, server: FakeServer) -> None:
    played = ("eval", "--env", "alfworld", "--agent", "random", "--split", "demo_train")
    command = (*played, "--workers", "1")
    assert run(*command, "--kinds", "heat", "--limit", "16", "--agent.budget", "2").code == 0
    assert (
        "16 heat tasks of demo_train were evaluated: left out."
        in run(*AUTOPLAN, "--iterations", "1").err
    )
    assert len(read(place / "plans" / "alfworld-heat.json").pool) == 4
    assert run(*command, "--kinds", "heat", "--agent.budget", "2").code == 0
    run(*AUTOPLAN).refused("0 heat tasks to learn from")
