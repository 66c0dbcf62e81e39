"""`ldm autoplan` for several kinds, settings and repeats, with the plans evaluated at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldm.agents.autoplan.plans import read
from ldm.run.statistics import spread, t_test
from tests.agents.washer import IDLE, PLAN, reply
from tests.cli.conftest import run
from tests.llm.server import FakeServer

__all__ = ["reply"]  # what the server answers
pytestmark = pytest.mark.usefixtures("place", "server")

TOY = ("--env", "tests.toy:ToyEnv")
SHORT = ("--iterations", "2", "--batch", "2", "--plan.pool", "4", "--plan.steps", "9")
BRIEF = (*SHORT, "--workers", "1")
AUTOPLAN = ("autoplan", *TOY, *BRIEF, "--llm", "washer")
EVALUATE = ("eval", *TOY, "--agent", "autoplan", "--agent.budget", "9", "--llm", "washer")


def printed(*command: str) -> Any:
    """What a command prints as JSON."""
    outcome = run(*command, "--json").done()
    return json.loads(outcome.out)


def runs(subject: str) -> list[Path]:
    return sorted(Path("runs").glob(f"{subject}*"))


class TestKinds:
    @pytest.mark.slow
    def test_each_gets_a_plan_of_its_own_in_one_command(self) -> None:
        run(*AUTOPLAN, "--kind", "each").done("Plans in toy")
        files = sorted(path.name for path in Path("plans").glob("*.json"))
        assert files == ["toy-fetch.json", "toy-wash.json"]
        plans = [read(Path("plans") / name) for name in files]
        assert [{task.split("-")[0] for task in plan.pool} for plan in plans] == [
            {"train/fetch"},
            {"train/wash"},
        ]
        assert [[one.success for one in plan.iterations] for plan in plans] == [[1, 1], [0, 1]]
        evaluated = printed(*EVALUATE, "--agent.plans", "plans")
        assert evaluated["success_rate"] == 1

    @pytest.mark.slow
    def test_are_named_or_share_one_plan(self) -> None:
        both = printed(*AUTOPLAN, "--kind", "wash,fetch", "--out", "both")["plans"]
        assert [one["kind"] for one in both] == ["wash", "fetch"]
        shared = printed(*AUTOPLAN, "--kind", "all", "--out", "shared", "--plan.pool", "8")
        assert Path(shared["file"]).name == "toy-all.json"
        pool = read(Path(shared["file"])).pool
        assert {task.split("-")[0] for task in pool} == {"train/fetch", "train/wash"}
        assert printed(*EVALUATE, "--agent.plans", "shared")["success_rate"] == 1


class TestIterations:
    @pytest.mark.slow
    def test_are_swept_by_an_evaluation(self) -> None:
        assert run(*AUTOPLAN, "--kind", "wash").code == 0
        sweep = ("--kinds", "wash", "--agent.plans", "plans", "--sweep", "agent.iteration=0,1,2")
        first = printed(*EVALUATE, *sweep)
        rates = [one["success_rate"] for one in (first, *first["compared"])]
        assert rates == [0, 1, 1]
        missing = ("--kinds", "wash", "--agent.plans", "plans", "--agent.iteration", "3")
        run(*EVALUATE, *missing).refused(
            "There is no plan of iteration 3 for wash in toy.", "There is: 0, 1, 2."
        )

    def test_are_evaluated_with_the_optimisation_as_a_curve(self, server: FakeServer) -> None:
        curve = ("--kind", "wash", "--eval", "test", "--limit", "3", "--curve")
        outcome = run(*AUTOPLAN, *curve).done(
            "Evaluated on 3 tasks of test.", "Success by iteration"
        )
        assert outcome.out.count("100.0 %") == 4  # iterations 1 and 2; the kind and all kinds
        plans, evaluations = runs("autoplan-"), runs("ToyEnv-test-autoplan")
        assert (len(plans), len(evaluations)) == (1, 3)
        manifest = json.loads((evaluations[0] / "run.json").read_text())
        options = manifest["spec"]["agent"]
        assert options["budget"] == 9
        assert "temperature" not in options  # greedy
        paid = len(server.bodies)
        again = printed("autoplan", "--resume", str(plans[0]))
        assert len(server.bodies) == paid
        rates = [(one["iteration"], one["mean"]) for one in again["evaluation"]["success"]]
        assert rates == [(0, 0), (1, 1), (2, 1)]

    def test_of_tasks_that_plans_are_made_from_are_not_evaluated(self, server: FakeServer) -> None:
        run(*AUTOPLAN, "--kind", "wash", "--eval", "train").refused("of the plans")
        assert not Path("runs").exists()
        assert not server.bodies


class TestRepeats:
    FOUR = ("--kind", "wash", "--repeat", "4", "--iterations", "1", "--seed", "3")
    SWEEP = (*FOUR, "--sweep", "plan.batch=1,2")

    @pytest.mark.slow
    def test_tell_settings_apart_by_the_papers_t_test(self) -> None:
        outcome = printed(*AUTOPLAN, *self.SWEEP, "--eval", "test", "--curve")
        plans = outcome["plans"]
        assert [(one["variant"], one["repeat"]) for one in plans] == [
            (f"batch={batch}", repeat) for batch in (1, 2) for repeat in (1, 2, 3, 4)
        ]
        assert Path(plans[5]["file"]) == (Path("plans/batch=2/repeat-2/toy-wash.json").absolute())
        lucky = [float(one["plan"] == PLAN) for one in plans[:4]]
        assert {one["plan"] for one in plans[:4]} == {PLAN, IDLE}
        assert {one["plan"] for one in plans[4:]} == {PLAN}
        rates = {
            (one["variant"], one["iteration"]): one for one in outcome["evaluation"]["success"]
        }
        assert rates["batch=1", 1]["rates"] == lucky
        assert rates["batch=1", 1]["mean"] == sum(lucky) / 4
        assert rates["batch=2", 1]["rates"] == [1, 1, 1, 1]
        assert rates["batch=2", 1]["deviation"] == 0
        assert rates["batch=1", 1]["by_kind"]["wash"]["rates"] == lucky
        (test,) = outcome["evaluation"]["t_tests"]  # none on the empty plan
        assert (test["first"], test["second"], test["iteration"]) == ("batch=1", "batch=2", 1)
        assert test["p_value"] == t_test(spread(lucky), spread([1, 1, 1, 1]))

    def test_are_runs_with_the_seeds_that_follow(self) -> None:
        repeats = ("--kind", "wash", "--repeat", "2", "--seed", "5", "--batch", "1")
        second = printed(*AUTOPLAN, *repeats)["plans"][1]
        alone = ("--kind", "wash", "--seed", "6", "--batch", "1", "--out", "alone")
        single = printed(*AUTOPLAN, *alone)
        one, other = read(Path(second["file"])), read(Path(single["file"]))
        assert (one.plan, one.pool, one.seed) == (other.plan, other.pool, 6)
        assert [[e.trajectory for e in i.experiences] for i in one.iterations] == [
            [e.trajectory for e in i.experiences] for i in other.iterations
        ]


class TestGoingOn:
    GRID = ("--kind", "each", "--repeat", "2", "--eval", "test", "--limit", "2")

    @pytest.mark.slow
    @pytest.mark.parametrize("while_evaluating", [False, True])
    def test_resumes_optimisations_and_evaluations_without_a_repeated_call(
        self, server: FakeServer, while_evaluating: bool
    ) -> None:
        whole = printed(*AUTOPLAN, *self.GRID, "--runs", "others", "--out", "others")
        paid = len(server.billed)
        optimising = sum(bool(body.get("temperature")) for body in server.bodies)
        calls = optimising + 20 if while_evaluating else 40
        outcome = stopped_after(server, calls, *AUTOPLAN, *self.GRID)
        first = runs("autoplan-ToyEnv-fetch")[0]
        assert f"`ldm autoplan --resume {Path('runs') / first.name} --trust`" in outcome.err
        assert bool(runs("ToyEnv-test-autoplan")) is while_evaluating
        again = printed("autoplan", "--resume", str(first), "--trust", "--workers", "1")
        assert len(server.billed) == 2 * paid
        assert comparable(again) == comparable(whole)

    @pytest.mark.slow
    def test_an_estimate_makes_first_iterations_and_all_goes_on(self, server: FakeServer) -> None:
        outcome = run(*AUTOPLAN, *self.GRID, "--estimate").done(
            "Measured on 4 of 16 attempts; all of them will take about",
            "model calls (",
            "The evaluation comes on top: 4 episodes",
        )
        assert not Path("plans").exists()
        first = runs("autoplan-ToyEnv-fetch")[0]
        assert f"Resume with `ldm autoplan --resume {Path('runs') / first.name}" in outcome.out
        before = len(server.bodies)
        calls = float(outcome.out.partition(" model calls")[0].split()[-1].replace(",", ""))
        printed("autoplan", "--resume", str(first), "--trust", "--workers", "1")
        optimised = [b for b in server.bodies if b.get("temperature")]
        assert len(optimised) == pytest.approx(calls, rel=0.3)
        requests = [json.dumps(body, sort_keys=True) for body in server.bodies]
        assert len(server.bodies) > before
        assert len({text for text in requests if "Hello" not in text}) > before


def stopped_after(server: FakeServer, calls: int, *command: str) -> Any:
    """The outcome of a command that is interrupted by the server after so many calls."""
    begun = len(server.bodies)
    answer = server.behaviour.answer
    assert answer is not None

    def limited(body: dict[str, Any]) -> str:
        if len(server.bodies) > begun + calls:
            server.behaviour.status = 402
        return answer(body)

    server.behaviour.answer = limited
    outcome = run(*command)
    server.behaviour.answer, server.behaviour.status = answer, 0
    assert outcome.code == 1
    return outcome


def comparable(outcome: Any) -> Any:
    """What does not depend on when and where it was made."""
    plans = [(one["kind"], one["repeat"], one["plan"], one["success"]) for one in outcome["plans"]]
    return plans, [
        {k: v for k, v in one.items() if k != "runs"} for one in outcome["evaluation"]["success"]
    ]
