"""`ldm eval`: evaluate an agent on the tasks of a split, recorded and resumable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.arms import Arm, foretell, label, play, report, short, told_apart
from ldm.cli.choices import (
    full_location,
    listed_ids,
    listed_names,
    memory_generations,
    stored_list,
    with_data,
    without_data,
)
from ldm.cli.models import (
    CacheAt,
    Concurrency,
    EstimateFirst,
    LlmName,
    MaxCalls,
    MaxTokens,
    MaxUsd,
    ModelOptions,
    PlannerName,
    PricesAt,
    ReasonerName,
    ReplayOf,
    Timeout,
    connection,
    listed,
)
from ldm.cli.wiring import DEFAULT_MEMORY, Wiring, settings
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.eval import EvaluationPlan, Report
    from ldm.runs import Manifest, Run
    from ldm.types import Task

DEFAULT_AGENT = "ldm"
#: Tuples that are named, of those recalled only after refinement.
SHOWN = 5
DEFAULT_RUNS = Path("runs")


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
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Only these task ids: a,b or a file. TextCraft: a published list, JSONL."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one a core.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything drawn at random.")] = None,
    control: Annotated[
        Literal["random", "none"] | None,
        typer.Option(help="Evaluate the agent with random tuples, or none, too."),
    ] = None,
    memory: Annotated[str | None, typer.Option(help=f"Memory; default {DEFAULT_MEMORY}.")] = None,
    generation: Annotated[
        str | None,
        typer.Option(help="Memory generation, or several to compare: 0,newest. Default: newest."),
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
    plans: Annotated[
        Path | None, typer.Option(help="Folder with the plans of `ldm autoplan`, for autoplan.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The environment's data; default: $ALFWORLD_DATA, $WEBSHOP_DATA."),
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
    llm: LlmName = None,
    planner_llm: PlannerName = None,
    reasoner_llm: ReasonerName = None,
    cache: CacheAt = None,
    replay: ReplayOf = None,
    concurrency: Concurrency = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    max_calls: MaxCalls = None,
    prices: PricesAt = None,
    timeout: Timeout = None,
    estimate: EstimateFirst = False,
) -> None:
    """Evaluate an agent: success overall and by kind with 95 % intervals, recorded and resumable.

    Without --env, the agent is evaluated on every environment that has a memory. An agent that
    calls a model plays its tasks in threads, --workers of them (default: --concurrency). With
    --estimate it plays 6 of them, says what all will cost, and stops; --resume goes on.

    \b
    Examples:
      ldm eval
      ldm eval --env alfworld --split valid_seen --agent ldm
      ldm eval --env alfworld --kinds heat,cool --limit 20 --control random
      ldm eval --env alfworld --agent ldm --set k=7 --set env.dialect=put
      ldm eval --env alfworld --generation 0,newest
      ldm eval --env textcraft --tasks adapt_test_200.jsonl --split stored_test
      ldm eval --resume runs/alfworld-valid_seen-ldm-20261121-101530-ab12
      ldm eval --env alfworld --agent my_agents:Chatty --llm gpt-4o-mini --max-usd 2 --estimate
    """
    agent_options, env_options = settings(assign or [])
    if data is not None:
        env_options["data"] = str(data.expanduser().absolute())
    if plans is not None:
        agent_options["plans"] = str(plans.expanduser().absolute())
    if engine is not None:
        env_options["engine"] = engine
    played = env or (_recorded(resume, runs)[1].env if resume else "")
    if (published := stored_list(played, tasks)) is not None:
        env_options["tasks"], stored = published
        tasks, split = None, split or (None if resume else stored)
    newest, *earlier = memory_generations(generation)[::-1]
    given = {
        "env": env,
        "split": split,
        "agent": agent,
        "limit": limit,
        "kinds": None if kinds is None else listed_names(kinds),
        "tasks": None if tasks is None else listed_ids(tasks),
        "seed": seed,
        "memory": None if memory is None else full_location(memory),
        "generation": newest,
        "embedder": embedder,
        "agent_options": tuple(sorted(agent_options.items())) or None,
        "env_options": tuple(sorted(env_options.items())) or None,
    }
    models = ModelOptions.given(
        llm=llm,
        planner_llm=planner_llm,
        reasoner_llm=reasoner_llm,
        cache=cache,
        replay=replay,
        concurrency=concurrency,
        max_usd=max_usd,
        max_tokens=max_tokens,
        max_calls=max_calls,
        prices=prices,
        timeout=timeout,
    )
    asked = {name: value for name, value in given.items() if value is not None}
    if resume is not None:
        groups = [_resumed(resume, runs, (asked, models), control)]
    else:
        beside = _Beside(control, tuple(earlier))
        groups = [_prepared(plan, runs, models, beside) for plan in _plans(asked)]
    if estimate:
        for arm in (arm for group in groups for arm in group):
            foretell(arm, workers)
        return
    finished = [told_apart([(arm.plan, play(arm, workers)) for arm in group]) for group in groups]
    _show(finished, as_json)
    for group in groups:
        _say_refined(group, error=as_json)


def _plans(asked: dict[str, Any]) -> list[EvaluationPlan]:
    """A plan an environment: the one asked for, or every one that has a memory."""
    from ldm.envs import load_env
    from ldm.eval import EvaluationPlan

    location = asked.get("memory", full_location(DEFAULT_MEMORY))
    environments = [asked["env"]] if "env" in asked else _remembered(location)
    plans = []
    for name in environments:
        options = with_data(name, dict(asked.get("env_options", ())))
        split = asked.get("split") or load_env(name).default_split
        if "split" not in asked and (shipped := without_data(name, options)):
            split = shipped.test
            output.say(f"{shipped.why}: using the shipped split {split}.")
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


@dataclass(frozen=True, slots=True)
class _Beside:
    """What an agent is compared with: itself with a control, with other memory generations."""

    control: str | None
    generations: tuple[int | None, ...]

    def plans(self, plan: EvaluationPlan) -> list[EvaluationPlan]:
        others = [replace(plan, generation=g, memory_digest="") for g in self.generations]
        if self.control is not None:
            others.append(_controlled(plan, self.control))
        return others


def _prepared(plan: EvaluationPlan, runs: Path, models: ModelOptions, beside: _Beside) -> list[Arm]:
    """The runs of a plan, on disk: the agent's own and those that it is compared with.

    Each names the next one as its companion, so that resuming the first resumes all.
    """
    _check_models(plan, models)
    others = [_checked(other)[0] for other in beside.plans(plan)]
    plan, tasks, protocol = _checked(plan)
    arms: list[Arm] = []

    def add(chosen: EvaluationPlan, companion: str) -> str:
        manifest = _manifest(chosen, protocol, models, companion)
        subject = (short(chosen.env), chosen.split, short(label(chosen)))
        arms.insert(0, Arm(chosen, create(runs, subject, manifest), tasks, models, fresh=True))
        return arms[0].run.manifest.id

    from ldm.runs import create

    companion = ""
    for chosen in reversed([plan, *others]):
        companion = add(chosen, companion)
    return arms


def _check_models(plan: EvaluationPlan, models: ModelOptions) -> None:
    """Raise LdmError where the agent needs a model that cannot be had; say which are not used."""
    wiring = Wiring.of(plan)
    if "reasoner" in wiring.agent_class().needs:
        output.say("No language model is used: the offline reasoner decides.")
    if models.reasoner_llm:
        output.say("No reasoner asks a model yet: --reasoner-llm has no effect.")
    if "llm" not in wiring.agent_class().needs:
        if models.llm or models.planner_llm:
            output.say(f"The agent {plan.agent} calls no language model: none is used.")
        return
    if not models.configured:
        raise wiring.no_model()
    roles = models.roles()
    if not models.replay:
        output.say(f"Models at {connection().shown}: {listed(roles)}.")


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
        return plan, tasks, protocol(env, plan.split, tasks)
    finally:
        env.close()


def _manifest(
    plan: EvaluationPlan, protocol: dict[str, Any], models: ModelOptions, companion: str
) -> Manifest:
    from ldm.runs import Manifest

    names = {"embedder": plan.embedder} if plan.embedder else {}
    arguments = {"plan": plan.arguments(), "companion": companion}
    if "llm" in Wiring.of(plan).agent_class().needs:
        roles = models.roles()
        names |= {"llm": roles["llm"], "planner": roles["planner"]}
        arguments["models"] = asdict(models)
        if not models.replay:
            names["server"] = connection().shown
    return Manifest(
        command="eval",
        arguments=arguments,
        protocol=protocol,
        models=names,
        seeds={"seed": plan.seed},
    )


def _resumed(
    name: str, runs: Path, given: tuple[dict[str, Any], ModelOptions], control: str | None
) -> list[Arm]:
    """The arms of a recorded run, after making sure that it would be the same evaluation."""
    from ldm.runs import MANIFEST, differences

    run, plan = _recorded(name, runs)
    asked, models = given
    _agree(plan, asked, str(run.directory))
    if "models" in run.manifest.arguments:
        before = run.manifest.arguments["models"]
        recorded = ModelOptions.recorded(before, run.directory / MANIFEST)
        models = recorded.resumed(models, str(run.directory))
    _check_models(plan, models)
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
    arms = [Arm(plan, run, tasks, models, fresh=False)]
    if companion:
        arms += _resumed(str(run.directory.parent / companion), runs, ({}, given[1]), None)
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
    reports = told_apart([(plan, report(plan, run, results(run))) for run, plan in found])
    _side_by_side(reports, error=as_json)
    if as_json:
        output.print_json({"runs": [as_object(report) for report in reports]})


def _show(groups: Sequence[Sequence[Report]], as_json: bool) -> None:
    from ldm.eval.report import COLUMNS, as_json_group, lines, rows

    for reports in groups:
        for one in reports:
            title = f"{one.label} on {one.env}, {one.split}"
            output.print_table(title, COLUMNS, rows(one), error=as_json)
            for line in lines(one):
                output.say(line, error=as_json)
        if len(reports) > 1:
            _side_by_side(reports, error=as_json)
    if as_json:
        objects = [as_json_group(reports) for reports in groups]
        output.print_json(objects[0] if len(objects) == 1 else {"runs": objects})
    if not any(r.summary.overall.success_rate is not None for group in groups for r in group):
        raise LdmError("Every episode ended in an error.", "The first one is shown above.")


def _say_refined(arms: Sequence[Arm], *, error: bool) -> None:
    """What of the newest generation's own tuples was recalled, where others stand beside it."""
    from ldm.eval import refined_recalls
    from ldm.memory import inspect

    newest = max(arms, key=lambda arm: arm.plan.generation or 0)
    oldest = min(arm.plan.generation or 0 for arm in arms)
    if not newest.plan.memory_digest or (newest.plan.generation or 0) == oldest:
        return
    env = newest.tasks[0].env
    rows = inspect(newest.plan.memory, env, newest.plan.generation).rows
    added = {row.tuple.id: row.tuple for row in rows if row.tuple.generation > oldest}
    found = refined_recalls(newest.run, frozenset(added))
    output.say(
        f"Of the {len(added)} tuples that came after generation {oldest}, {len(found.counts)} were "
        f"recalled, in {found.steps} of {found.all_steps} steps of {found.tasks} tasks.",
        error=error,
    )
    for tuple_id, count in found.counts[:SHOWN]:
        seen = " ".join(added[tuple_id].observation.split())[:100]
        output.say(
            f"  {count:>4} times: {added[tuple_id].goal} | {seen} -> {added[tuple_id].action}",
            error=error,
        )


def _side_by_side(reports: Sequence[Report], *, error: bool) -> None:
    from ldm.eval.report import comparison, gains

    columns, table = comparison(reports)
    output.print_table("Side by side", columns, table, error=error)
    for line in gains(reports):
        output.say(line, error=error)
