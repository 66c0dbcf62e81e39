"""`ldm refine`: explore training goals, and add what was done better to the memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.arms import short
from ldm.cli.choices import (
    CandidatesFrom,
    ClassifiedBy,
    HistoryShown,
    RankHistory,
    ShowAdmissible,
    TuplesShown,
    full_location,
    listed_ids,
    listed_names,
    one_environment,
    said,
    with_data,
    without_data,
)
from ldm.cli.exploring import RefinementPlan, carry_out, enlarge
from ldm.cli.models import (
    CacheAt,
    Concurrency,
    LlmName,
    MaxCalls,
    MaxTokens,
    MaxUsd,
    ModelOptions,
    PricesAt,
    ReasonerName,
    ReplayOf,
    Timeout,
    connection,
)
from ldm.cli.wiring import DEFAULT_MEMORY, DEFAULT_RUNS, build_environment, override, settings
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.episode import Environment
    from ldm.explore import ExploredGoal
    from ldm.memory import Generation
    from ldm.runs import Run
    from ldm.types import Task

DEFAULT_TASKS = "60"


def refine(  # noqa: PLR0913, PLR0917 - one parameter an option
    env: Annotated[
        str | None, typer.Option(help="Environment; the memory's only one if left out.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="A training split.")] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help=f"How many new goals, kinds evenly (default {DEFAULT_TASKS}); or ids."),
    ] = None,
    kinds: Annotated[str | None, typer.Option(help="Only these task kinds: heat,cool.")] = None,
    reuse_goals: Annotated[
        bool, typer.Option("--reuse-goals", help="Explore goals that the memory knows, too.")
    ] = False,
    decision: Annotated[
        Literal["pooled", "per-batch"] | None,
        typer.Option(help="One tree a goal, or one a batch memory. Default: pooled."),
    ] = None,
    width: Annotated[int | None, typer.Option(help="n, paths kept a level. Default: 4.")] = None,
    concentration: Annotated[
        float | None,
        typer.Option(help="Share that makes a majority the only choice; 2: never. Default: 0.8."),
    ] = None,
    proposals: Annotated[
        int | None, typer.Option(help="z, actions proposed in a state. Default: 5.")
    ] = None,
    depth: Annotated[int | None, typer.Option(help="Steps of a path. Default: 50.")] = None,
    add: Annotated[
        Literal["key", "whole", "random"] | None,
        typer.Option(help="Remember from the key step on, all, or a random path. Default: key."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything drawn at random.")] = None,
    memory: Annotated[str | None, typer.Option(help=f"Memory; default {DEFAULT_MEMORY}.")] = None,
    generation: Annotated[
        int | None, typer.Option(help="Explore with this one; below the newest: --dry-run only.")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="Embedder; default: the bundled one.")
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Decision option; env.NAME=VALUE: environment."
        ),
    ] = None,
    k: TuplesShown = None,
    history: HistoryShown = None,
    rank_history: RankHistory = None,
    candidates: CandidatesFrom = None,
    index: ClassifiedBy = None,
    admissible: ShowAdmissible = None,
    data: Annotated[Path | None, typer.Option(help="The environment's data.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Goals at a time; default: one a core, with a model --concurrency."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Explore and report; --resume adds it later.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    runs: Annotated[Path, typer.Option(help="Folder in which runs are recorded.")] = DEFAULT_RUNS,
    resume: Annotated[
        str | None, typer.Option(help="Go on with this run (directory or id).")
    ] = None,
    llm: LlmName = None,
    reasoner_llm: ReasonerName = None,
    cache: CacheAt = None,
    replay: ReplayOf = None,
    concurrency: Concurrency = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    max_calls: MaxCalls = None,
    prices: PricesAt = None,
    timeout: Timeout = None,
) -> None:
    """Explore new training goals; what was done better becomes the memory's next generation.

    Each goal is played greedily first. Where that does not earn the full score, a tree of decision
    processes is grown, and the steps of a better one are added from its key step on (LDM² §3.3).

    \b
    Examples:
      ldm refine --env alfworld --tasks 60 --seed 0
      ldm refine --env alfworld --kinds heat,cool --width 8 --dry-run
      ldm refine --resume runs/refine-alfworld-train-20261121-101530-ab12
      ldm runs tree runs/refine-alfworld-train-20261121-101530-ab12 TASK
    """
    policy_options, env_options = settings(assign or [])
    policy_options |= said(
        k=k, history=history, rank_history=rank_history, candidates=candidates, index=index
    )
    env_options |= said(admissible=admissible)
    if data is not None:
        env_options["data"] = str(data.expanduser().absolute())
    explore = {
        "decision": decision,
        "width": width,
        "concentration": concentration,
        "proposals": proposals,
        "depth": depth,
        "add": add,
    }
    asked = _Asked(
        env=env,
        split=split,
        tasks=tasks,
        kinds=None if kinds is None else listed_names(kinds),
        reuse=reuse_goals,
        seed=seed,
        memory=memory,
        generation=generation,
        embedder=embedder,
        env_options=env_options,
        policy_options=policy_options,
        options=said(**explore),
    )
    models = ModelOptions.given(
        llm=llm,
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
    if resume is not None:
        plan, run, chosen, models = _resumed(resume, runs, asked, models)
    else:
        plan, run, chosen = _prepared(asked, runs, models, dry_run=dry_run)
    explored = carry_out(plan, run, chosen, models, workers, fresh=resume is None)
    made = None if dry_run else enlarge(plan, explored, models)
    _show(plan, run, explored, made, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of the command line; None, or empty, where they were left out."""

    env: str | None
    split: str | None
    tasks: str | None
    kinds: tuple[str, ...] | None
    reuse: bool
    seed: int | None
    memory: str | None
    generation: int | None
    embedder: str | None
    env_options: Mapping[str, str]
    policy_options: Mapping[str, str]
    options: Mapping[str, str]

    def given(self) -> list[str]:
        """The names of the options that were not left out."""
        plain = [f.name for f in fields(self) if getattr(self, f.name) not in (None, False)]
        within = {"options": self.options, "set": self.policy_options, "data": self.env_options}
        return [
            *(name for name in plain if not name.endswith("options")),
            *self.options,
            *(name for name, values in within.items() if values and name != "options"),
        ]


def _prepared(
    asked: _Asked, runs: Path, models: ModelOptions, *, dry_run: bool
) -> tuple[RefinementPlan, Run, Sequence[Task]]:
    """A new run with its goals chosen. Nothing is written where something does not fit."""
    from ldm.memory import inspect
    from ldm.policy import PolicyOptions
    from ldm.runs import create

    location = full_location(asked.memory or DEFAULT_MEMORY)
    name = one_environment(location, asked.env or "")
    override(PolicyOptions, asked.policy_options, "policy")
    plan = _with_split(name, asked)
    plan.refine_options()
    env = plan.environment()
    try:
        contents = inspect(location, env.card.name, asked.generation)
        base = contents.generation
        base.check_embedder(asked.embedder or base.embedder)
        _check_newest(location, base, dry_run=dry_run)
        plan = replace(
            plan,
            memory=location,
            generation=base.number,
            embedder=base.embedder,
            memory_digest=base.digest,
        )
        chosen = _goals(plan, asked, env, contents.sources(), runs)
        plan = replace(plan, tasks=tuple(task.id for task in chosen))
        manifest = _manifest(plan, env, chosen, models)
    finally:
        env.close()
    if not models.configured:
        output.say("No language model is used: the offline reasoner decides.")
    elif not models.replay:
        output.say(f"{models.roles()['reasoner']} at {connection().shown} decides.")
    run = create(runs, ("refine", short(plan.env), plan.split), manifest)
    return plan, run, chosen


def _with_split(name: str, asked: _Asked) -> RefinementPlan:
    """The beginning of a plan: environment, its data and the training split."""
    from ldm.envs import load_env

    options = with_data(name, dict(asked.env_options))
    known = load_env(name).train_splits
    split = asked.split or known[0]
    if split not in known:
        raise LdmError(
            f"{split} is no training split of {name}.", f"Explore one of: {', '.join(known)}."
        )
    if not asked.split and (shipped := without_data(name, options)):
        split = shipped.explore
        output.say(f"{shipped.why}: using the shipped split {split}.")
    return RefinementPlan(
        env=name,
        split=split,
        tasks=(),
        memory="",
        generation=0,
        embedder="",
        memory_digest="",
        env_options=tuple(sorted(options.items())),
        policy_options=tuple(sorted(asked.policy_options.items())),
        options=tuple(sorted(asked.options.items())),
        seed=asked.seed or 0,
    )


def _check_newest(location: str, base: Generation, *, dry_run: bool) -> None:
    from ldm.memory import generations

    newest = generations(location, base.env)[-1]
    if newest.number != base.number and not dry_run:
        raise LdmError(
            f"Generation {base.number} is not the newest of {base.env}, so nothing can be added to "
            f"it: there is {newest.number}.",
            f"Use --dry-run, or go back with `ldm memory rollback {base.number}`.",
        )


def _goals(
    plan: RefinementPlan, asked: _Asked, env: Environment, sources: frozenset[str], runs: Path
) -> tuple[Task, ...]:
    """The goals to explore: those named, or some of the new ones."""
    from ldm.errors import LeakageError
    from ldm.eval import select
    from ldm.explore import evaluated_leak_keys, new_goals, rejected_goal
    from ldm.memory import generations

    everything = env.tasks(plan.split)
    before = generations(plan.memory, env.card.name)
    evaluated = evaluated_leak_keys(
        runs, plan.env, env, lambda options: build_environment(plan.env, options)
    )
    explored = {task for g in before if g.number <= plan.generation for task in g.tasks}
    new = new_goals(
        everything,
        evaluated=evaluated,
        remembered=sources,
        explored=frozenset(explored),
        reuse=asked.reuse,
    )
    wanted = asked.tasks or DEFAULT_TASKS
    if not wanted.isdecimal():
        chosen = select(everything, ids=listed_ids(wanted), kinds=asked.kinds or ())
        if refused := rejected_goal(chosen, new, evaluated):
            task, why = refused
            if task.leak_key in evaluated:
                raise LeakageError([task.leak_key], "Explore other goals; this one was evaluated.")
            raise LdmError(f"The goal {task.id} {why}.", "Explore others, or use --reuse-goals.")
        return chosen
    if left_out := sum(task.leak_key in evaluated for task in everything):
        output.say(f"{left_out} goals of {plan.split} were evaluated: they are left out.")
    if not new:
        raise LdmError(
            f"All {len(everything)} goals of {plan.split} are known already.",
            "Explore another split, or use --reuse-goals.",
        )
    return select(new, kinds=asked.kinds or (), limit=int(wanted), seed=plan.seed)


def _manifest(
    plan: RefinementPlan, env: Environment, chosen: Sequence[Task], models: ModelOptions
) -> Any:
    from ldm import prompts, records
    from ldm.eval import protocol
    from ldm.runs import Manifest

    arguments: dict[str, Any] = {"plan": json.loads(records.dumps(plan))}
    names = {"embedder": plan.embedder}
    if models.configured:
        arguments["models"] = asdict(models)
        names |= models.named({"reasoner": models.roles()["reasoner"]})
    return Manifest(
        command="refine",
        arguments=arguments,
        protocol=protocol(env, plan.split, chosen),
        models=names,
        seeds={"seed": plan.seed},
        prompts=prompts.digests() if models.configured else {},
    )


def _resumed(
    name: str, runs: Path, asked: _Asked, models: ModelOptions
) -> tuple[RefinementPlan, Run, Sequence[Task], ModelOptions]:
    """A recorded run, after making sure that it would be the same refinement."""
    from ldm import records
    from ldm.eval import protocol, select
    from ldm.memory import generations
    from ldm.runs import MANIFEST, differences, open_run

    run = open_run(name, runs)
    if run.manifest.command != "refine":
        raise LdmError(f"{run.directory} is no refinement.", f"Use `{run.resume_command}`.")
    if given := asked.given():
        raise LdmError(
            f"--resume goes on with the recorded options, and {given[0].replace('_', '-')} is "
            "given.",
            "Leave it out, or start a new run.",
        )
    text = json.dumps(run.manifest.arguments.get("plan", {}))
    plan = records.loads(text, RefinementPlan, file=str(run.directory / MANIFEST))
    env = plan.environment()
    try:
        chosen = select(env.tasks(plan.split), ids=plan.tasks)
        changed = differences(run.manifest.protocol, protocol(env, plan.split, chosen))
        before = {g.number: g.digest for g in generations(plan.memory, env.card.name)}
        if before.get(plan.generation) != plan.memory_digest:
            changed.append(f"generation {plan.generation} of the memory at {plan.memory}")
    finally:
        env.close()
    if changed:
        raise LdmError(
            f"{run.directory} cannot be resumed, because something has changed: {changed[0]}.",
            "Start a new run.",
        )
    if "models" in run.manifest.arguments:
        values = run.manifest.arguments["models"]
        recorded = ModelOptions.recorded(values, run.directory / MANIFEST)
        return plan, run, chosen, recorded.resumed(models, str(run.directory))
    return plan, run, chosen, ModelOptions()


def _show(
    plan: RefinementPlan,
    run: Run,
    explored: Sequence[ExploredGoal],
    made: Generation | None,
    *,
    as_json: bool,
) -> None:
    from ldm.explore.report import COLUMNS, by_kind, rows, totals

    title = f"Refinement of generation {plan.generation} on {plan.env}, {plan.split}"
    output.print_table(title, COLUMNS, rows(explored), error=as_json)
    broken = [one for one in explored if one.error]
    if broken:
        last = broken[0].error.strip().splitlines()[-1]
        output.say(f"{len(broken)} goals failed and add nothing. {broken[0].task.id}: {last}")
    if made is None:
        line = f"Nothing was added (--dry-run); `{run.resume_command}` adds it."
    else:
        line = f"Generation {made.number}: {made.tuples} tuples → {plan.memory}"
    output.say(line, error=as_json)
    output.say(f"Files: {run.directory}", error=as_json)
    if as_json:
        output.print_json(
            {
                "env": plan.env,
                "split": plan.split,
                "generation": None if made is None else made.number,
                "tuples": None if made is None else made.tuples,
                **asdict(totals(explored)),
                "by_kind": {kind: asdict(found) for kind, found in by_kind(explored).items()},
                "run": str(run.directory),
            }
        )
    if len(broken) == len(explored):
        raise LdmError("Every goal failed.", "The first failure is shown above.")
