"""`ldm autoplan` and `ldm eval --agent autoplan` as users meet them, with a model that cooks."""

from pathlib import Path

import pytest

from ldm.agents.autoplan.plans import read
from tests.agents.cook import reply as reply  # noqa: PLC0414 - the server says it
from tests.cli.conftest import run

pytestmark = pytest.mark.usefixtures("place", "server")

BRIEF = ("--iterations", "2", "--batch", "1", "--plan.pool", "4", "--plan.steps", "50")
AUTOPLAN = ("autoplan", "--env", "alfworld", "--kind", "heat", *BRIEF, "--llm", "cook")


@pytest.mark.slow
def test_a_run_does_not_mix_two_plans() -> None:
    assert run(*AUTOPLAN, "--iterations", "1").code == 0
    command = ("eval", "--env", "alfworld", "--agent", "autoplan", "--split", "demo_test")
    subset = ("--kinds", "heat", "--limit", "2", "--agent.budget", "2", "--llm", "cook")
    evaluation = (*command, *subset)
    assert run(*evaluation, "--agent.plans", "plans").code == 0
    (evaluated,) = Path("runs").glob("alfworld-*")
    assert run("eval", "--resume", evaluated).code == 0
    planless = run(*evaluation, "--limit", "1", "--runs", "others")
    assert "autoplan starts with an empty plan" in planless.err
    file = Path("plans/alfworld-heat.json")
    file.write_text(file.read_text().replace("Find", "Look for"))
    run("eval", "--resume", evaluated).refused("has changed since the run began")
    lacking = ("--kinds", "heat,cool,look", "--agent.plans", "plans", "--llm", "cook")
    run(*command, *lacking, "--runs", "lacking").refused(
        "There is no plan for cool, look in", "--kinds heat"
    )
    assert not Path("lacking").exists()


@pytest.mark.slow
def test_evaluated_tasks_are_not_learnt_from() -> None:
    played = ("eval", "--env", "alfworld", "--agent", "random", "--split", "demo_train")
    command = (*played, "--workers", "1")
    assert run(*command, "--kinds", "heat", "--limit", "16", "--agent.budget", "2").code == 0
    assert (
        "16 heat tasks of demo_train were evaluated: left out."
        in run(*AUTOPLAN, "--iterations", "1").err
    )
    assert len(read(Path("plans/alfworld-heat.json")).pool) == 4
    assert run(*command, "--kinds", "heat", "--agent.budget", "2").code == 0
    run(*AUTOPLAN).refused("0 heat tasks to learn from")
