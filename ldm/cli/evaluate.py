"""`ldm eval`: evaluate an agent on the tasks of a split, recorded and resumable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.wiring import DEFAULT_MEMORY, Wiring, settings
from ldm.errors import Interrupted, LdmError, WorkerDied

if TYPE_CHECKING:
    from ldm.eval import EvaluationPlan, Report
    from ldm.runs import Run
    from ldm.types import EpisodeResult, Task

DEFAULT_AGENT = "ldm"
DEFAULT_RUNS = Path("runs")
#: Where an environment's data lie, if --data does not say it; and the split that needs no data.
DATA_VARIABLE = {"alfworld": "ALFWORLD_DATA"}
SPLIT_WITHOUT_DATA = {"alfworld": "demo_test"}


def evaluate(  # noqa: PLR0913, PLR0917 - one parameter an option
    env: Annotated[
        str | None, typer.Option(help="Environment: a name or package.module:Class.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split; each environment has a default.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Agent: a name or package.module:Class.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many tasks, kinds evenly.")] = None,
    kinds: Annotated[str | None, typer.Option(help="Only these task kinds: heat,cool.")] = None,
    tasks: Annotated[str | None, typer.Option(help="Only these task ids: a,b or a file.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one a core.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything drawn at random.")] = None,
    control: Annotated[
        Literal["random", "none"] | None,
        typer.Option(help="Evaluate the agent with random tuples, or none, too."),
    ] = None,
    memory: Annotated[str | None, typer.Option(help=f"Memory; default {DEFAULT_MEMORY}.")] = None,
    generation: Annotated[
        int | None, typer.Option(help="Memory generation; default: newest.")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="Embedder; default: the bundled one.")
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Agent option; env.NAME=VALUE: environment."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The environment's data; default for alfworld: $ALFWORLD_DATA."),
    ] = None,
    engine: Annotated[
        Literal["fast", "official"] | None,
        typer.Option(help="ALFWorld's engine; official needs ldm[alfworld]. Default: fast."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    runs: Annotated[Path, typer.Option(help="Folder in which runs are recorded.")] = DEFAULT_RUNS,
    resume: Annotated[
        str | None, typer.Option(help="Go on with this run (directory or id).")
    ] = None,
) -> None:
    """Evaluate an agent: success overall and by kind with 95 % intervals, recorded and resumable.

    Without --env, the agent is evaluated on every environment that has a memory.

    \b
    Examples:
      ldm eval
      ldm eval --env alfworld --split valid_seen --agent ldm
      ldm eval --env alfworld --kinds heat,cool --limit 20 --control random
      ldm eval --env alfworld --agent ldm --set k=7 --set env.dialect=put
      ldm eval --resume runs/alfworld-valid_seen-ldm-20261121-101530-ab12
    """
    agent_options, env_options = settings(assign or [])
    if data is not None:
        env_options["data"] = str(data.expanduser().absolute())
    if engine is not None:
        env_options["engine"] = engine
    given = {
        "env": env,
        "split": split,
        "agent": agent,
        "limit": limit,
        "kinds": None if kinds is None else _names(kinds),
        "tasks": None if tasks is None else _ids(tasks),
        "seed": seed,
        "memory": None if memory is None else _location(memory),
        "generation": generation,
        "embedder": embedder,
        "agent_options": tuple(sorted(agent_options.items())) or None,
        "env_options": tuple(sorted(env_options.items())) or None,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    if resume is not None:
        groups = [_resumed(resume, runs, asked, control)]
    else:
        groups = [_prepared(plan, runs, control) for plan in _plans(asked)]
    processes = _cores() if workers is None else max(1, workers)
    finished = [[_play(arm, processes) for arm in group] for group in groups]
    _show(finished, as_json)


@dataclass(frozen=True, slots=True)
class _Arm:
    """One run to play. fresh: made by this command, and to be removed if nothing comes of it."""

    plan: EvaluationPlan
    run: Run
    tasks: tuple[Task, ...]
    fresh: bool


def _plans(asked: dict[str, Any]) -> list[EvaluationPlan]:
    """A plan an environment: the one asked for, or every one that has a memory."""
    from ldm.envs import load_env
    from ldm.eval import EvaluationPlan

    location = asked.get("memory", _location(DEFAULT_MEMORY))
    environments = [asked["env"]] if "env" in asked else _remembered(location)
    plans = []
    for name in environments:
        options = dict(asked.get("env_options", ()))
        variable = DATA_VARIABLE.get(name)
        if variable and "data" not in options and os.environ.get(variable):
            options["data"] = str(Path(os.environ[variable]).expanduser().absolute())
        split = asked.get("split") or load_env(name).default_split
        if "split" not in asked and variable and "data" not in options:
            split = SPLIT_WITHOUT_DATA[name]
            output.say(
                f"No data of {name} is known (--data or ${variable}): using the shipped "
                f"split {split}."
            )
        settled = {
            "agent": DEFAULT_AGENT,
            **asked,
            "env": name,
            "split": split,
            "memory": location,
            "env_options": tuple(sorted(options.items())),
        }
        plans.append(EvaluationPlan(**settled))
    return plans


def _remembered(location: str) -> Sequence[str]:
    from ldm.memory import environments

    found = environments(location)
    if not found:
        raise LdmError(
            f"There is no memory at {location}, so there is nothing to evaluate.",
            "Build one with `ldm build-memory data/`, or name an environment with --env.",
        )
    return found


def _prepared(plan: EvaluationPlan, runs: Path, control: str | None) -> list[_Arm]:
    """The runs of a plan, on disk: the agent's own and, where asked for, its control's."""
    plan, tasks, protocol = _checked(plan)
    arms: list[_Arm] = []
    if control is not None:
        other = _controlled(plan, control)
        arms.append(_Arm(other, _created(other, runs, protocol, ""), tasks, fresh=True))
    companion = arms[0].run.manifest.id if arms else ""
    return [_Arm(plan, _created(plan, runs, protocol, companion), tasks, fresh=True), *arms]


def _controlled(plan: EvaluationPlan, control: str) -> EvaluationPlan:
    if "control" not in {field.name for field in fields(Wiring.of(plan).agent_class().Options)}:
        raise LdmError(
            f"The agent {plan.agent} recalls no tuples, so there is nothing to control for.",
            "Leave out --control.",
        )
    options = {**dict(plan.agent_options), "control": control}
    return replace(plan, agent_options=tuple(sorted(options.items())))


def _checked(plan: EvaluationPlan) -> tuple[EvaluationPlan, tuple[Task, ...], dict[str, Any]]:
    """The plan with its generation settled, its tasks and protocol. Nothing is written before."""
    from ldm.eval import check_leakage, protocol, select
    from ldm.memory import inspect

    wiring = Wiring.of(plan)
    wiring.options()
    needs = wiring.agent_class().needs
    env = wiring.environment()
    try:
        tasks = select(env.tasks(plan.split), kinds=plan.kinds, limit=plan.limit, ids=plan.tasks)
        if "memory" in needs:
            memory = inspect(plan.memory, env.card.name, plan.generation)
            check_leakage(memory.sources(), tasks)
            made = memory.generation
            made.check_embedder(plan.embedder or made.embedder)
            plan = replace(
                plan, generation=made.number, embedder=made.embedder, memory_digest=made.digest
            )
        if "reasoner" in needs:
            output.say("No model service is configured: the offline reasoner decides.")
        return plan, tasks, protocol(env, plan.split, tasks)
    finally:
        env.close()


def _created(plan: EvaluationPlan, runs: Path, protocol: dict[str, Any], companion: str) -> Run:
    from ldm.runs import Manifest, create

    manifest = Manifest(
        command="eval",
        arguments={"plan": plan.arguments(), "companion": companion},
        protocol=protocol,
        models={"embedder": plan.embedder} if plan.embedder else {},
        seeds={"seed": plan.seed},
    )
    subject = (_short(plan.env), plan.split, _short(_label(plan)))
    return create(runs, subject, manifest)


def _resumed(name: str, runs: Path, asked: dict[str, Any], control: str | None) -> list[_Arm]:
    """The arms of a recorded run, after making sure that it would be the same evaluation."""
    from ldm.runs import differences

    run, plan = _recorded(name, runs)
    _agree(plan, asked, str(run.directory))
    companion = run.manifest.arguments.get("companion", "")
    if control is not None and not companion:
        raise LdmError(f"{run.directory} has no control.", "Leave out --control.")
    now, tasks, protocol = _checked(plan)
    changed = differences(run.manifest.protocol, protocol)
    if now.memory_digest != plan.memory_digest:
        changed.append(f"the memory at {plan.memory} holds other tuples")
    if changed:
        raise LdmError(
            f"{run.directory} cannot be resumed, because something has changed: {changed[0]}.",
            "Start a new run.",
        )
    arms = [_Arm(plan, run, tasks, fresh=False)]
    if companion:
        arms += _resumed(str(run.directory.parent / companion), runs, {}, None)
    return arms


def _recorded(name: str, runs: Path) -> tuple[Run, EvaluationPlan]:
    """A recorded evaluation and its plan."""
    from ldm.eval import EvaluationPlan
    from ldm.runs import MANIFEST, open_run

    run = open_run(name, runs)
    if run.manifest.command != "eval":
        raise LdmError(f"{run.directory} is no evaluation.", f"Go on with `{run.resume_command}`.")
    file = str(run.directory / MANIFEST)
    return run, EvaluationPlan.from_arguments(run.manifest.arguments.get("plan", {}), file)


def _agree(plan: EvaluationPlan, asked: dict[str, Any], name: str) -> None:
    """Raise LdmError where an option of the command line contradicts the recorded plan."""
    for option, value in asked.items():
        recorded = getattr(plan, option)
        if option.endswith("_options"):  # those that are not named stay as they are
            recorded = tuple(pair for pair in recorded if pair[0] in dict(value))
        if recorded != value:
            raise LdmError(
                f"{name} was started with {option.replace('_', ' ')} {recorded!r}, not {value!r}.",
                "Leave the option out, or start a new run.",
            )


def _play(arm: _Arm, workers: int) -> Report:
    from ldm.eval import evaluate

    counted: list[bool] = []

    def shown(result: EpisodeResult) -> None:
        if result.end != "error":
            counted.append(result.success)
        advance(f"success {100 * sum(counted) / max(1, len(counted)):.1f} %")

    wiring = Wiring.of(arm.plan)
    shown_as = f"{_short(_label(arm.plan))} on {_short(arm.plan.env)}"
    try:
        with output.progress(shown_as, len(arm.tasks)) as advance:
            results = evaluate(arm.run, wiring, arm.tasks, workers=workers, on_result=shown)
    except (Interrupted, WorkerDied):
        raise
    except LdmError:
        if arm.fresh and not any(arm.run.parts.iterdir()):
            arm.run.remove()  # its agent could not be built
        raise
    return _report(arm.plan, arm.run, results)


def _report(plan: EvaluationPlan, run: Run, results: Sequence[EpisodeResult]) -> Report:
    from ldm.eval import Report, summarize

    return Report(
        env=plan.env,
        split=plan.split,
        label=_label(plan),
        sees_reward=Wiring.of(plan).agent_class().sees_reward,
        directory=run.directory,
        summary=summarize(results, seed=plan.seed),
        results=tuple(results),
    )


def compare(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Directories or ids.")],
    runs: Annotated[Path, typer.Option(help="Folder in which runs are recorded.")] = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare finished runs side by side, with the paired difference of the first to the others.

    Runs whose protocols differ are refused, and the difference is named.

    \b
    Example:
      ldm compare runs/RUN runs/OTHER
    """
    from ldm.eval import as_json as as_object
    from ldm.eval import results
    from ldm.runs import differences

    if len(names) < 2:
        raise LdmError("One run cannot be compared.", "Name two or more.")
    found = [_recorded(name, runs) for name in names]
    first = found[0][0]
    for other, _ in found[1:]:
        differing = differences(first.manifest.protocol, other.manifest.protocol)
        if differing:
            raise LdmError(
                f"{first.directory} and {other.directory} cannot be compared. Their protocols "
                f"differ: {'; '.join(differing)}.",
                "Evaluate both in the same way.",
            )
    reports = [_report(plan, run, results(run)) for run, plan in found]
    _side_by_side(reports, error=as_json)
    if as_json:
        output.print_json({"runs": [as_object(report) for report in reports]})


def _show(groups: Sequence[Sequence[Report]], as_json: bool) -> None:
    from ldm.eval.report import COLUMNS, as_json_group, lines, rows

    for reports in groups:
        for report in reports:
            title = f"{report.label} on {report.env}, {report.split}"
            output.print_table(title, COLUMNS, rows(report), error=as_json)
            for line in lines(report):
                output.say(line, error=as_json)
        if len(reports) > 1:
            _side_by_side(reports, error=as_json)
    if as_json:
        objects = [as_json_group(reports) for reports in groups]
        output.print_json(objects[0] if len(objects) == 1 else {"runs": objects})
    if not any(r.summary.overall.success_rate is not None for group in groups for r in group):
        raise LdmError("Every episode ended in an error.", "The first one is shown above.")


def _side_by_side(reports: Sequence[Report], *, error: bool) -> None:
    from ldm.eval.report import comparison, gains

    columns, table = comparison(reports)
    output.print_table("Side by side", columns, table, error=error)
    for line in gains(reports):
        output.say(line, error=error)


def _label(plan: EvaluationPlan) -> str:
    control = dict(plan.agent_options).get("control")
    return f"{plan.agent} control={control}" if control else plan.agent


def _short(name: str) -> str:
    """A name without its module, for ids and progress bars."""
    return name.rpartition(":")[2]


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _ids(text: str) -> tuple[str, ...]:
    """Task ids from a comma list, or from a file with one a line (# starts a comment)."""
    path = Path(text)
    if not path.is_file():
        return _names(text)
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def _location(memory: str) -> str:
    """The memory's place, so that a run can be resumed from any directory."""
    return memory if "://" in memory else str(Path(memory).expanduser().absolute())


def _cores() -> int:
    import joblib

    return int(joblib.cpu_count())
