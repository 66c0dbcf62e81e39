"""Python and the command line do the same, and what one has begun the other goes on with."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ldm
from ldm import records
from ldm.config import Evaluate
from ldm.errors import Interrupted, LdmError, LeakageError, RunStopped
from ldm.llm.service import Connection
from ldm.run.builders import PlayerBuilder
from ldm.run.engine import recorded_spec
from ldm.run.grid import Grid
from ldm.run.runtime import Runtime
from tests.agents import cook
from tests.cli.conftest import run as run_command
from tests.llm.conftest import Serve
from tests.llm.server import FakeServer
from tests.run.recorded import (
    EVALUATION,
    REFINEMENT,
    TOY,
    comparable,
    files,
    interrupt_at,
    manifest,
    memory,
    only_run,
    resume,
)
from tests.toy import ToyOptions, expert_trajectories

RANDOM = Evaluate(TOY, agent="random", limit=2)


def interrupted(task: str, experiment: Callable[[], object]) -> Interrupted:
    """Do an experiment, interrupted at a task; return the error."""
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, task)
        with pytest.raises(Interrupted) as stopped:
            experiment()
    return stopped.value


def go_on(run: Path) -> None:
    """Go on with a run from the command line."""
    command = manifest(run)["command"]
    assert run_command(command, "--resume", run, "--workers", "1").code == 0


class TestGoingOn:
    def test_with_evaluations(self, remembering: Path, quiet: Runtime) -> None:
        evaluate = partial(ldm.evaluate_all, EVALUATION, Grid(control="random"))
        whole = evaluate(runtime=Runtime(Path("whole"), workers=1))
        stopped = interrupted(whole[0].results[2].task.id, partial(evaluate, runtime=quiet))
        run = only_run("ToyEnv-test-ldm-")
        assert stopped.message == f"Stopped: 2 of 4 are recorded in {run}."
        assert stopped.remedy == f"Resume with `ldm eval --resume {run} --trust`."
        assert not (run / "episodes.jsonl").exists()
        go_on(run)
        assert files(Path("runs"), remembering) == files(Path("whole"), remembering)

    def test_with_refinements(self, remembering: Path, quiet: Runtime) -> None:
        stopped = interrupted("train/fetch-8", partial(ldm.refine, REFINEMENT, runtime=quiet))
        run = only_run()
        assert stopped.remedy == f"Resume with `ldm refine --resume {run} --trust`."
        go_on(run)
        resumed = memory(remembering), files(Path("runs"), remembering)
        assert run_command("memory", "rollback", "0", "--yes").code == 0
        ldm.refine(REFINEMENT, runtime=Runtime(Path("whole"), workers=1))
        assert resumed == (memory(remembering), files(Path("whole"), remembering))

    def test_with_a_dry_run_which_adds_nothing_until_it_is_resumed(
        self, remembering: Path, quiet: Runtime
    ) -> None:
        result = ldm.refine(replace(REFINEMENT, limit=4), runtime=quiet, dry_run=True)
        assert result.generation is None
        assert len(result.explored) == 4
        assert "of 4 goals improved; nothing was added yet" in str(result)
        added = resume(result.run.directory)
        assert added.generation.number == 1
        assert f"generation 1 with {added.generation.tuples} tuples" in str(added)
        assert added.explored == result.explored


class TestPlans:
    @pytest.fixture
    def server(self, serve: Serve) -> FakeServer:
        return serve(answer=cook.reply)

    @pytest.mark.parametrize(("first", "then"), [("python", "command"), ("command", "python")])
    def test_an_optimisation_goes_on_where_it_was(
        self,
        first: str,
        then: str,
        place: Path,
        server: FakeServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        options = {"iterations": 1, "batch": 1, "pool": 2, "steps": 12}
        spec = ldm.OptimisePlan("alfworld", kind="heat", plan=options, models={"llm": "cook"})
        runtime = Runtime(workers=1, server=Connection(server.url))
        if first == "python":
            limited = replace(spec, models={"llm": "cook", "max_calls": 9})
            with pytest.raises(RunStopped) as stopped:
                ldm.optimize_plan(limited, runtime=runtime)
            assert f"ldm autoplan --resume {only_run('autoplan')}" in stopped.value.remedy
        else:
            brief = ("--iterations", "1", "--batch", "1", "--plan.pool", "2", "--plan.steps", "12")
            kind = ("--env", "alfworld", "--kind", "heat", "--llm", "cook", "--workers", "1")
            assert run_command("autoplan", *kind, *brief, "--models.max-calls", "9").code == 1
        run, calls = only_run("autoplan"), len(server.bodies)
        if then == "command":
            more = ("--models.max-calls", "999", "--workers", "1")
            assert run_command("autoplan", "--resume", run, *more).code == 0
        else:
            resume(run, {"max_calls": 999}, runtime)
        requests = [json.dumps(body) for body in server.bodies]
        assert len(requests) > calls
        assert len(set(requests)) == len(requests)  # nothing is paid twice
        file = Path("plans/alfworld-heat.json")
        interrupted = comparable(file.read_text(), place)
        ldm.optimize_plan(spec, runtime=replace(runtime, runs=Path("whole")))
        assert interrupted == comparable(file.read_text(), place)


class TestRunsThatComeToNothing:
    def test_are_removed_where_nothing_happened(
        self, remembering: Path, quiet: Runtime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def failing(*_: object) -> None:
            raise LdmError("The shelf broke.", "Mend it.")

        monkeypatch.setattr("tests.toy.ToyEnv.reset", failing)
        monkeypatch.setattr("ldm.run.builders.Builder.knowledge", failing)
        with pytest.raises(LdmError, match="The shelf broke"):
            ldm.evaluate_all(EVALUATION, Grid(control="none"), runtime=quiet)
        with pytest.raises(LdmError, match="The shelf broke"):
            ldm.refine(REFINEMENT, runtime=quiet)
        assert not list(Path("runs").iterdir())

    def test_are_kept_where_something_happened(self, remembering: Path, quiet: Runtime) -> None:
        build, built = PlayerBuilder.equipped, [0]

        def failing_later(*arguments: Any) -> Any:
            built[0] += 1
            if built[0] > 1:
                raise LdmError("The shelf broke.", "Mend it.")
            return build(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PlayerBuilder, "equipped", failing_later)
            with pytest.raises(LdmError, match="The shelf broke"):
                ldm.evaluate_all(EVALUATION, Grid(control="none"), runtime=quiet)
        finished = only_run("ToyEnv-test-ldm-")
        assert (finished / "summary.json").exists()
        assert len(list(Path("runs").iterdir())) == 2
        assert len(resume(finished)) == 2

    @pytest.mark.parametrize(
        ("spec", "message"),
        [(replace(RANDOM, env="alfwrld"), "alfwrld"), (replace(RANDOM, agent="rnadom"), "rnadom"),
         (replace(RANDOM, split="tset"), "no split 'tset'"),
         (replace(RANDOM, env={"name": TOY, "tasks": "x"}), "tasks of environment"),
         (replace(RANDOM, agent="ldm"), "memory"),
         (replace(RANDOM, agent="react"), "needs an LLM, and none is configured")],
    )  # fmt: skip
    def test_are_not_written_where_something_does_not_fit(
        self, spec: Evaluate, message: str, place: Path, quiet: Runtime
    ) -> None:
        with pytest.raises(LdmError, match=message) as refused:
            ldm.evaluate(spec, runtime=quiet)
        assert refused.value.remedy
        assert not Path("runs").exists()


class TestRefusals:
    def test_a_run_of_another_kind(self, remembering: Path, quiet: Runtime) -> None:
        report = ldm.evaluate(RANDOM, runtime=quiet)
        others: tuple[Any, ...] = (ldm.Refine, ldm.OptimisePlan)
        for other in others:
            with pytest.raises(LdmError, match=f"is not {other.noun}"):
                recorded_spec(str(report.directory), other, quiet.runs)
        refined = ldm.refine(replace(REFINEMENT, limit=2), runtime=quiet)
        with pytest.raises(LdmError, match="is not an evaluation"):
            ldm.compare([report.directory, refined.run.directory])

    def test_changed_data(self, place: Path, quiet: Runtime) -> None:
        run = ldm.evaluate(RANDOM, runtime=quiet).directory
        file = run / "run.json"
        file.write_text(file.read_text().replace('"shelves": 3', '"shelves": 4'))
        with pytest.raises(LdmError, match="something has changed: shelves: 4 and 3") as refused:
            resume(run)
        assert refused.value.remedy == "Start a new run."

    def test_a_changed_memory(self, remembering: Path, quiet: Runtime) -> None:
        evaluated = ldm.evaluate(EVALUATION, runtime=quiet).directory
        few = replace(REFINEMENT, limit=2)
        explored = ldm.refine(few, runtime=quiet, dry_run=True).run.directory
        fewer = expert_trajectories(options=ToyOptions(tasks=3, shelves=8))
        records.write(remembering / "fewer" / "train.jsonl", fewer)
        ldm.build_memory("fewer", options=ldm.Build(rebuild=True))
        for run in (evaluated, explored):
            with pytest.raises(LdmError, match="holds other tuples"):
                resume(run)

    def test_another_model(self, place: Path, serve: Serve) -> None:
        server = serve(answer=lambda body: "Act: go to sink")
        runtime = Runtime(workers=1, server=Connection(server.url))
        spec = replace(RANDOM, agent={"name": "react", "budget": 2}, models={"llm": "small"})
        run = ldm.evaluate(spec, runtime=runtime).directory
        with pytest.raises(LdmError, match=r"was started with llm small, not large"):
            resume(run, {"llm": "large"}, runtime)
        (again,) = resume(run, {"llm": "small", "max_calls": 0}, runtime)
        assert again.directory == run

    def test_runs_under_different_protocols(self, place: Path, quiet: Runtime) -> None:
        first = ldm.evaluate(RANDOM, runtime=quiet)
        second = ldm.evaluate(replace(RANDOM, limit=1), runtime=quiet)
        with pytest.raises(LdmError, match="Their protocols differ: tasks: 1"):
            ldm.compare([first.directory, second.directory])
        with pytest.raises(LdmError, match="needs two runs"):
            ldm.compare([first.directory])
        third = ldm.evaluate(replace(RANDOM, seed=1), runtime=quiet)
        comparison = ldm.compare([first.directory, third.directory.name])
        directories = [report.directory for report in comparison.reports]
        assert directories == [first.directory, third.directory]

    def test_sources_of_the_memory(self, remembering: Path, quiet: Runtime) -> None:
        shed = replace(EVALUATION, split="train", env=REFINEMENT.env)
        with pytest.raises(LeakageError, match="train/"):
            ldm.evaluate(shed, runtime=quiet)
        assert not Path("runs").exists()


COMMON = ("--env", TOY, "--env.tasks", "10", "--workers", "1")


@pytest.mark.slow
def test_commands_and_functions_leave_the_same_bytes(
    place: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commands() -> None:
        run_command("build-memory", "data").done()
        run_command("refine", *COMMON, "--env.shelves", "8", "--depth", "12").done()
        options = ("--env.shelves", "5", "--agent.budget", "12", "--limit", "4")
        compared = ("--generation", "0,newest", "--control", "random")
        run_command("eval", *COMMON, *options, *compared).done()

    def functions() -> None:
        runtime = Runtime(workers=1)
        ldm.build_memory("data")
        assert ldm.refine(REFINEMENT, runtime=runtime).generation is not None
        grid = Grid(generations=(0,), control="random")
        assert len(ldm.evaluate_all(EVALUATION, grid, runtime=runtime)) == 3

    left = []
    for way in (commands, functions):
        (there := place / way.__name__).mkdir()
        shutil.copytree(built / "data", there / "data")
        monkeypatch.chdir(there)
        way()
        left.append((memory(there), files(there / "runs", there)))
    assert left[0] == left[1]
    names = {name.rpartition("/")[2] for name, _ in left[0][1]}
    assert names >= {"run.json", "trees.jsonl", "episodes.jsonl", "trajectories.jsonl"}
