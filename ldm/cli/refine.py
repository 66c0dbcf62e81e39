"""`ldm refine`: explore training goals, and add what was done better to the memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from ldm.cli import output
from ldm.cli.completing import environments, splits
from ldm.cli.headings import ADDITIONS, DECISIONS, MEMORY, SEARCH, TASKS
from ldm.cli.options import (
    BundledEmbedder,
    Calls,
    Data,
    Decisions,
    Kinds,
    LlmName,
    Machines,
    MemoryDefault,
    PresetName,
    ReasonerName,
    ReasonerUrl,
    Recorded,
    Seed,
    expanded,
    listed_ids,
    listed_names,
    option_settings,
    refuse_with_resume,
)
from ldm.errors import LdmError
from ldm.options import Settings, settings
from ldm.run.goal_choice import DEFAULT_GOALS, Goals
from ldm.run.specs import DEFAULT_MEMORY, RefinementSpec
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.llm.models import ModelOptions
    from ldm.run.refine import Refined


@dataclass(frozen=True)
class Search:
    """How goals are explored: fields of `ldm.explore.RefineOptions`."""

    heading: ClassVar[str] = SEARCH

    decision: Annotated[
        Literal["pooled", "per-batch"] | None,
        typer.Option(help="One tree per goal, or one per batch memory. Default: pooled."),
    ] = None
    explorer: Annotated[
        Literal["tree", "rollouts", "best-first"] | None,
        typer.Option(
            help="Search. Default: best-first; tree (paper) with --gate off or --consult always."
        ),
    ] = None
    budget: Annotated[
        int | None,
        typer.Option(help="Steps per goal, for rollouts and best-first. Default: 3000."),
    ] = None
    width: Annotated[int | None, typer.Option(help="Paths kept per level (n). Default: 4.")] = None
    concentration: Annotated[
        float | None,
        typer.Option(
            help="Share of votes from which only the majority is tried; 2: never. Default: 0.8."
        ),
    ] = None
    proposals: Annotated[
        int | None, typer.Option(help="Actions proposed per state (z). Default: 5.")
    ] = None
    depth: Annotated[int | None, typer.Option(help="Maximum steps per path. Default: 50.")] = None
    agreement: Annotated[
        Literal["weighted", "counted"] | None,
        typer.Option(help="Agreement of recalls: weighted, or one vote each. Default: weighted."),
    ] = None
    merge: Annotated[
        bool | None,
        typer.Option("--merge/--no-merge", help="Merge equal states in the tree."),
    ] = None
    shorter: Annotated[
        bool | None,
        typer.Option("--shorter/--no-shorter", help="Also look for shorter solutions."),
    ] = None
    add: Annotated[
        Literal["key", "whole", "random"] | None,
        typer.Option(
            help="What to add: from the key step on, all, or a random path. Default: key.",
            rich_help_panel=ADDITIONS,
        ),
    ] = None


@dataclass(frozen=True)
class Gate:
    """How the gate judges: fields of `ldm.explore.GateOptions`."""

    heading: ClassVar[str] = ADDITIONS

    gate: Annotated[
        Literal["on", "off", "open"] | None,
        typer.Option(
            help="on: add only what does not lower training scores; off: all improvements, no "
            "practice (paper); open: everything. Default: on."
        ),
    ] = None
    practice: Annotated[
        bool | None,
        typer.Option("--practice/--no-practice", help="Also add solved episodes as a whole."),
    ] = None
    solved: Annotated[
        bool | None,
        typer.Option("--solved/--no-solved", help="Include those solved at the first try."),
    ] = None
    hindsight: Annotated[
        bool | None,
        typer.Option(
            "--hindsight/--no-hindsight",
            help="Correct their needless steps.",
        ),
    ] = None
    reach: Annotated[
        float | None,
        typer.Option(
            help="Minimum cosine of goals that recall an improvement; 0: any. Default: by the gate."
        ),
    ] = None
    siblings: Annotated[
        int | None,
        typer.Option(help="Alternatives that a key step has to beat; 0: none. Default: 3."),
    ] = None


@dataclass(frozen=True)
class Exploration:
    """Which goals are explored, and how."""

    heading: ClassVar[str] = TASKS

    preset: PresetName = None
    env: Annotated[
        str | None,
        typer.Option(
            help="Environment; the memory's only one if omitted.", autocompletion=environments
        ),
    ] = None
    split: Annotated[str | None, typer.Option(help="A training split.", autocompletion=splits)] = (
        None
    )
    tasks: Annotated[
        str | None,
        typer.Option(
            help=f"Number of new goals, balanced over kinds (default {DEFAULT_GOALS}); or ids."
        ),
    ] = None
    kinds: Kinds = None
    goals_by: Annotated[
        Literal["even", "failed", "long"] | None,
        typer.Option(
            "--goals",
            help="Which new goals: balanced over kinds (even), or of four times as many those that "
            "the memory fails at (failed) or takes longest for (long). Default: even.",
        ),
    ] = None
    reuse_goals: Annotated[
        bool, typer.Option("--reuse-goals", help="Also explore goals that the memory knows.")
    ] = False
    options: Search = field(default_factory=Search)
    gate: Gate = field(default_factory=Gate)
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Rounds, each with the memory of the one before. Default: 1."),
    ] = None
    seed: Seed = None

    def goals(self, count: int = DEFAULT_GOALS) -> Goals:
        """Return which goals to explore; count: how many where nothing is said."""
        ids = self.tasks is not None and not self.tasks.isdecimal()
        return Goals(
            count=int(self.tasks) if self.tasks and not ids else count,
            ids=listed_ids(self.tasks) if self.tasks and ids else (),
            kinds=listed_names(self.kinds or ""),
            reuse=self.reuse_goals,
            by=self.goals_by or "even",
        )


@dataclass(frozen=True)
class Base:
    """The memory that is built upon, and how decisions are made with it."""

    heading: ClassVar[str] = MEMORY

    memory: MemoryDefault = None
    generation: Annotated[
        int | None, typer.Option(help="Generation to explore with; not the newest: --dry-run only.")
    ] = None
    embedder: BundledEmbedder = None
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Decision option, or env.NAME=VALUE; repeatable.",
            rich_help_panel=DECISIONS,
        ),
    ] = None
    decisions: Decisions = field(default_factory=Decisions)
    data: Data = None


@dataclass(frozen=True)
class Execution(Recorded):
    """How the refinement runs, and the models that decide."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Goals in parallel; default: cores, or --concurrency with a model."
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Explore and report only; --resume adds it later.")
    ] = False
    llm: LlmName = None
    reasoner_llm: ReasonerName = None
    reasoner_base_url: ReasonerUrl = None
    calls: Calls = field(default_factory=Calls)
    where: Machines = field(default_factory=Machines)

    def models(self) -> ModelOptions:
        """Return which models are called, and within which limits."""
        return self.calls.options(
            llm=self.llm,
            reasoner_llm=self.reasoner_llm,
            reasoner_base_url=self.reasoner_base_url,
        )


@expanded
def refine(exploration: Exploration, base: Base, execution: Execution) -> None:
    """Explore new training goals, and add improvements as the memory's next generation.

    Each goal is first played greedily. Where that falls short of the full score, other decision
    processes are explored, and the steps of a better one are added from its key step on (LDM²
    §3.3). Solved episodes are added as a whole (--practice). Before anything is added, the goals
    are played with and without it, each without its own episodes: only what does not lower scores
    is added (--gate).

    \b
    Examples:
      ldm refine --env alfworld --tasks 60 --seed 0
      ldm refine --env alfworld --tasks 180 --rounds 3
      ldm refine --env alfworld --kinds heat,cool --width 8 --dry-run
      ldm refine --resume runs/refine-alfworld-train-20261121-101530-ab12
      ldm runs tree runs/refine-alfworld-train-20261121-101530-ab12 TASK
    """
    from ldm.run import refine as refinement
    from ldm.run.engine import recorded_spec
    from ldm.run.preset_memory import RefinementPreset

    runtime = execution.runtime(execution.workers, execution.where)
    models = execution.models()
    policy_options, env_options = option_settings(base.assign, base.data, base.decisions)
    if execution.resume is not None:
        refuse_with_resume(
            **{
                **asdict(exploration),
                "options": None,
                **asdict(exploration.options),
                **asdict(exploration.gate),
            },
            memory=base.memory,
            generation=base.generation,
            embedder=base.embedder,
            set=policy_options,
            data=env_options,
        )
        run, spec = recorded_spec(
            execution.resume, RefinementSpec, runtime.runs, trust=execution.trust
        )
        recorded = refinement.resume(run, spec, models, runtime)
    else:
        spec = _spec(exploration, base, policy_options, env_options)
        goals = exploration.goals()
        if exploration.preset is not None:
            published = RefinementPreset.named(exploration.preset, spec.env)
            spec, goals = published.spec(spec), exploration.goals(published.settings.tasks)
        recorded = refinement.prepare(spec, goals, models, runtime, dry_run=execution.dry_run)
    results = []
    for result in refinement.rounds(recorded, runtime, dry_run=execution.dry_run):
        _show(result, as_json=execution.as_json)
        results.append(result)
    if execution.as_json:
        objects = [_as_object(result) for result in results]
        output.print_json(objects[-1] | ({"rounds": objects} if len(objects) > 1 else {}))
    if all(one.error for one in results[-1].explored):
        raise LdmError("Every goal failed.", "The first failure is shown above.")


def _spec(
    exploration: Exploration, base: Base, policy_options: Settings, env_options: Settings
) -> RefinementSpec:
    """Return what a new refinement is asked to do."""
    return RefinementSpec(
        env=exploration.env or "",
        split=exploration.split or "",
        memory=base.memory or DEFAULT_MEMORY,
        generation=base.generation,
        embedder=base.embedder,
        env_options=env_options,
        policy_options=policy_options,
        options=settings(**asdict(exploration.options)),
        gate_options=settings(**asdict(exploration.gate)),
        rounds=exploration.rounds or 1,
        seed=exploration.seed or 0,
    )


def _show(result: Refined, *, as_json: bool) -> None:
    from ldm.explore.report import COLUMNS, rows

    spec, run, explored = result.spec, result.run, result.explored
    title = f"Refinement of generation {spec.generation} on {spec.env}, {spec.split}"
    output.print_table(title, COLUMNS, rows(explored), error=as_json)
    _show_gate(result, as_json=as_json)
    broken = [one for one in explored if one.error]
    if broken:
        last = broken[0].error.strip().splitlines()[-1]
        output.say(
            f"{counted(len(broken), 'goal')} failed with an error and added nothing. "
            f"{broken[0].task.id}: {last}"
        )
    added = result.generation
    if added is None and result.idle:
        line = (
            f"Nothing to add: the memory stays at generation {spec.generation}. "
            "Other goals may yield more: --seed draws others, --tasks more."
        )
    elif added is None:
        line = f"Nothing was added (--dry-run); `{run.resume_command}` adds it."
    else:
        line = f"Generation {added.number}: {added.tuples} tuples → {spec.memory}"
    output.say(line, error=as_json)
    output.say(f"Files: {run.directory}", error=as_json)


def _as_object(result: Refined) -> dict[str, Any]:
    """Return a round as JSON values."""
    from ldm.explore.report import by_kind, gate_data, totals

    spec, added = result.spec, result.generation
    return {
        "env": spec.env,
        "split": spec.split,
        "generation": None if added is None else added.number,
        "tuples": None if added is None else added.tuples,
        "gate": gate_data(result.verdict, result.gain(), result.intervals()),
        **asdict(totals(result.explored)),
        "by_kind": {kind: asdict(total) for kind, total in by_kind(result.explored).items()},
        "run": str(result.run.directory),
    }


def _show_gate(result: Refined, *, as_json: bool) -> None:
    from ldm.explore.report import GATE_COLUMNS, decisions, gate_rows

    verdict = result.verdict
    if verdict.comparisons:
        title = "Scores without and with what was learnt, each without its own episodes"
        output.print_table(
            title, GATE_COLUMNS, gate_rows(verdict, result.intervals()), error=as_json
        )
    output.say_all(decisions(verdict, result.gain()), error=as_json)
