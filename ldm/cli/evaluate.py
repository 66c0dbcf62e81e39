"""`ldm eval`: evaluate an agent on the tasks of a split, recorded and resumable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.arms import foretell_all, play_all, report, say_refined
from ldm.cli.choices import (
    CandidatesFrom,
    ClassifiedBy,
    DecisionMode,
    HistoryShown,
    RankHistory,
    ShowAdmissible,
    TuplesShown,
    full_location,
    listed_ids,
    listed_names,
    memory_generations,
    said,
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
)
from ldm.cli.preparing import prepared, recorded_plan, resumed_all
from ldm.cli.several import (
    Beside,
    labelled,
    one_each,
    optimised,
    shown_examples,
    swept,
)
from ldm.cli.wiring import DEFAULT_MEMORY, DEFAULT_RUNS, settings
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.eval import EvaluationPlan, Report

DEFAULT_AGENT = "ldm"


def evaluate(  # noqa: PLR0913, PLR0917 - one parameter an option
    env: Annotated[
        str | None, typer.Option(help="Environment: a name or package.module:Class.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split; each environment has a default.")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="Agent: a name or package.module:Class; several: react,ldm."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many tasks, kinds evenly.")] = None,
    kinds: Annotated[str | None, typer.Option(help="Only these task kinds: heat,cool.")] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Only these task ids: a,b or a file. TextCraft: a published list, JSONL."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Tasks at a time; default: one a core, with a model --concurrency."),
    ] = None,
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
    sweep: Annotated[
        str | None,
        typer.Option(metavar="NAME=A,B,…", help="Evaluate with each value of an agent option."),
    ] = None,
    plans: Annotated[
        Path | None, typer.Option(help="Folder with the plans of `ldm autoplan`, for autoplan.")
    ] = None,
    decision: DecisionMode = None,
    k: TuplesShown = None,
    history: HistoryShown = None,
    rank_history: RankHistory = None,
    candidates: CandidatesFrom = None,
    index: ClassifiedBy = None,
    admissible: ShowAdmissible = None,
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
      ldm eval --env alfworld --agent ldm --k 7 --set env.dialect=put
      ldm eval --env alfworld --llm gpt-4o-mini --candidates vote --history summary
      ldm eval --env alfworld --generation 0,newest
      ldm eval --env alfworld --agent react,plan_execute,ldm --llm MODEL --limit 6
      ldm eval --env textcraft --agent adapt --sweep d_max=1,2,3,4 --llm MODEL
      ldm eval --env textcraft --tasks adapt_test_200.jsonl --split stored_test
      ldm eval --resume runs/alfworld-valid_seen-ldm-20261121-101530-ab12
      ldm eval --env alfworld --agent my_agents:Chatty --llm gpt-4o-mini --max-usd 2 --estimate
    """
    agent_options, env_options = settings(assign or [])
    agent_options |= said(
        decision=decision,
        k=k,
        history=history,
        rank_history=rank_history,
        candidates=candidates,
        index=index,
    )
    env_options |= said(admissible=admissible)
    if data is not None:
        env_options["data"] = str(data.expanduser().absolute())
    agent_options |= optimised(plans) | shown_examples(agent_options)
    if engine is not None:
        env_options["engine"] = engine
    played = env or (recorded_plan(resume, runs)[1].env if resume else "")
    if (published := stored_list(played, tasks, split)) is not None:
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
        if sweep is not None:
            raise LdmError(
                "--sweep cannot be added to a recorded run.", "Leave it out, or start a new run."
            )
        groups = [resumed_all(resume, runs, (asked, models), control)]
    else:
        beside = Beside(control, tuple(earlier))
        agents = tuple(dict.fromkeys(listed_names(agent or DEFAULT_AGENT)))
        groups = [
            prepared(swept(beside.plans(one_each(plan, agents)), sweep), runs, models)
            for plan in _plans(asked)
        ]
    if estimate:
        for group in groups:
            foretell_all(group, workers)
        return
    finished = [labelled(play_all(group, workers)) for group in groups]
    _show(finished, as_json)
    for group in groups:
        say_refined(group, error=as_json)


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
    found = [recorded_plan(name, runs) for name in names]
    first = found[0][0]
    for other, _ in found[1:]:
        differing = differences(first.manifest.protocol, other.manifest.protocol)
        if differing:
            raise LdmError(
                f"{first.directory} and {other.directory} cannot be compared. Their protocols "
                f"differ: {'; '.join(differing)}.",
                "Evaluate both in the same way.",
            )
    reports = labelled([(plan, report(plan, run, results(run))) for run, plan in found])
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


def _side_by_side(reports: Sequence[Report], *, error: bool) -> None:
    from ldm.eval.report import comparison, gains

    columns, table = comparison(reports)
    output.print_table("Side by side", columns, table, error=error)
    for line in gains(reports):
        output.say(line, error=error)
