"""`ldm build-memory` and `ldm import`: trajectory files in, a memory or other files out."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from ldm.cli import output
from ldm.cli.environment import data_of_format
from ldm.cli.environment import runtime as command_runtime
from ldm.cli.headings import MEMORY, MODEL, TRAJECTORIES
from ldm.cli.options import (
    AsJson,
    Calls,
    EmbedderName,
    EstimateFirst,
    LlmName,
    MemoryAt,
    PresetName,
    Quiet,
    ReasonerName,
    expanded,
)
from ldm.errors import LdmError
from ldm.run.building import BuildOptions
from ldm.run.specs import DEFAULT_MEMORY
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.memory import BuildResult
    from ldm.types import Trajectory

Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first invalid record.")]
FormatName = Annotated[
    str, typer.Option("--format", help="Format of the files; auto-detected if omitted.")
]


@dataclass(frozen=True)
class Options:
    """Which trajectories become a memory, and how: fields of `ldm.BuildOptions`.

    None is for what a preset may say: the same as the default there, but not asked for.
    """

    heading: ClassVar[str] = TRAJECTORIES

    env: Annotated[
        str,
        typer.Option(
            help="Only this environment; as package.module:Class the memory remembers it."
        ),
    ] = ""
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Trajectories per batch; 0, the default: as published for the environment.",
            rich_help_panel=MEMORY,
        ),
    ] = None
    per_kind: Annotated[
        int | None,
        typer.Option(
            min=0, help="Trajectories per task kind, drawn with --seed; 0, the default: all."
        ),
    ] = None
    seed: Annotated[
        int, typer.Option(help="Random seed of --per-kind and of the shuffle into batches.")
    ] = 0
    min_reward: Annotated[
        float, typer.Option(min=0, max=1, help="Skip trajectories with a lower score.")
    ] = 0.0
    failures: Annotated[
        Literal["drop", "keep", "contrast"],
        typer.Option(
            help="Trajectories that scored 0: skip, keep like others, or keep as warnings."
        ),
    ] = "drop"
    embedder: EmbedderName = None
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Delete the memory first.", rich_help_panel=MEMORY),
    ] = False
    formation: Annotated[
        Literal["trajectory", "paper"] | None,
        typer.Option(
            help="Model calls for histories: one per 8 steps (the default), or two per step.",
            rich_help_panel=MODEL,
        ),
    ] = None


@dataclass(frozen=True)
class Forming:
    """What becomes a memory, and how."""

    heading: ClassVar[str] = TRAJECTORIES

    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA", help="Folders or files; default: the bundled expert episodes."
        ),
    ] = None
    preset: PresetName = None
    format_name: FormatName = ""
    strict: Strict = False
    memory: MemoryAt = DEFAULT_MEMORY
    options: Options = field(default_factory=Options)


@dataclass(frozen=True)
class FormingModels:
    """The models that form the memory, and where their calls are recorded."""

    heading: ClassVar[str] = MODEL

    llm: LlmName = None
    reasoner_llm: ReasonerName = None
    record: Annotated[
        Path | None,
        typer.Option(help="Folder for recorded model calls; default: calls/ in the memory."),
    ] = None
    calls: Calls = field(default_factory=Calls)
    estimate: EstimateFirst = False
    quiet: Quiet = False


@expanded
def build_memory(forming: Forming, models: FormingModels, as_json: AsJson = False) -> None:
    """Form a memory from every trajectory file below DATA, each environment by itself.

    Without DATA, the bundled expert episodes are used.

    Failures (a score of 0) are skipped unless --failures keeps them, either like all others or as
    warnings that vote against their actions.

    Trajectories that the memory holds already are skipped. New ones become further batches, in a
    new generation. An interrupted build resumes where it stopped.

    A model, if one is named, writes the histories and the types; its calls are recorded beside the
    memory and never paid twice. Otherwise the offline reasoner does. --estimate forms 6
    trajectories and prints what all will cost.

    \b
    Examples:
      ldm build-memory
      ldm build-memory --llm gpt-4o-mini --estimate
      ldm build-memory --llm gpt-4o-mini --max-usd 5 --rebuild
      ldm build-memory --rebuild --replay .ldm/memory/calls
      ldm build-memory expert.jsonl --memory /tmp/memory --batch-size 100
      ldm build-memory data/ --rebuild --seed 1
      ldm build-memory logs.jsonl --failures contrast --memory /tmp/memory
    """
    from ldm.run.building import build_each

    options = _options(forming, models)
    called = models.calls.options(llm=models.llm, reasoner_llm=models.reasoner_llm)
    runtime = command_runtime(quiet=models.quiet)
    if models.estimate:
        from ldm.run.formation_cost import estimate as cost_of

        lines = cost_of(forming.data, forming.memory, options, called, runtime)
        output.say_all(lines)
        return
    reports = []
    for built in build_each(forming.data, forming.memory, options, called, runtime):
        reports.append(_report(built))
        if not as_json:
            _show(built, forming)
    if as_json:
        output.print_json({"memory": forming.memory, "environments": reports})


def _options(forming: Forming, models: FormingModels) -> BuildOptions:
    """Return how the memory is built, by a preset where one is named."""
    from ldm.run.preset_memory import build_settings

    own = {name: value for name, value in asdict(forming.options).items() if value is not None}
    env = own.pop("env")
    preset = forming.preset
    published = {"env": env} if preset is None else build_settings(preset, env)
    return BuildOptions(
        **{**published, **own},
        record=models.record,
        format=forming.format_name,
        strict=forming.strict,
    )


@dataclass(frozen=True)
class Selection:
    """Which trajectories are taken from which files."""

    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files or folders.")]
    out: Annotated[
        Path,
        typer.Option("--out", help="Output file, for ATIF also a folder; .gz compresses JSONL."),
    ]
    format_name: FormatName = ""
    to: Annotated[
        Literal["ldm", "atif", "chat", "parquet"] | None,
        typer.Option(help="Output format; default: by the extension of --out."),
    ] = None
    min_reward: Annotated[
        float, typer.Option(min=0, max=1, help="Skip trajectories with a lower score.")
    ] = 0.0
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number, balanced over kinds.")
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder of the environment, to rebuild observations."),
    ] = None
    strict: Strict = False
    quiet: Quiet = False


@dataclass(frozen=True)
class Assumptions:
    """What is assumed of recordings that do not say it (`ldm.Assumed`)."""

    env: Annotated[
        str, typer.Option(help="Environment, for chat messages and ATIF that name none.")
    ] = ""
    kind: Annotated[str, typer.Option(help="Task kind of these recordings.")] = ""
    split: Annotated[str, typer.Option(help="Split of these recordings.")] = "recorded"
    origin: Annotated[
        Literal["human", "expert", "agent", "explored"],
        typer.Option(help="Who acted in these recordings."),
    ] = "agent"
    score: Annotated[float, typer.Option(min=0, max=1, help="Score of these recordings.")] = 0.0


@expanded
def import_files(selection: Selection, assumptions: Assumptions, as_json: AsJson = False) -> None:
    """Convert trajectories of other formats to our own JSONL, or ours to others.

    An invalid record is reported as file:line:field, and the others are kept. Where logs say only
    which page was opened, its text is rebuilt from the environment's data.

    ATIF, chat messages and Parquet are read and written. What ldm writes reads back equal. ShareGPT
    and OpenTelemetry spans are read. For recordings of other tools, --env names their environment,
    and --score gives their score.

    \b
    Examples:
      ldm import conversations.jsonl --out data/trajectories/alfworld/expert.jsonl
      ldm import logs/ --out all.jsonl.gz --format alfworld-conversations --strict
      ldm import human_sessions/ --data webshop/ --out human.jsonl
      ldm import react_episodes.jsonl --min-reward 1 --limit 20 --out agent.jsonl
      ldm import runs/RUN/trajectories.jsonl --out run.parquet
      ldm import runs/RUN/trajectories.jsonl --out tuning.jsonl --to chat
      ldm import harbor_job/ --env my_env --score 1 --out agent.jsonl
    """
    from ldm.envs.formats import read_all, write, written_as
    from ldm.interchange.foreign import Assumed
    from ldm.run.selection import even

    written_as(selection.out, selection.to or "")  # before much is read
    folders: list[str] = []

    def data(name: str) -> str | None:
        folder = str(selection.data) if selection.data else data_of_format(name)
        folders.extend([folder] if folder else [])
        return folder

    with output.stages(quiet=selection.quiet) as on_progress:
        on_progress("read", 0, 0)
        everything = read_all(
            selection.files,
            output.say,
            name=selection.format_name,
            strict=selection.strict,
            data=data,
            assumed=Assumed(**asdict(assumptions)),
        )
    rewarded = [t for t in everything if t.score >= selection.min_reward]
    kinds = [(t.id, f"{t.task.env} {t.task.kind}") for t in rewarded]
    trajectories = [rewarded[i] for i in even(kinds, selection.limit or len(rewarded))]
    if not trajectories:
        worth = f" with a reward of {selection.min_reward:g} or more" * bool(selection.min_reward)
        raise LdmError(
            f"There is no trajectory in these files{worth}.", f"{selection.out} was not written."
        )
    write(selection.out, trajectories, selection.to or "")
    counts = len(everything), len(rewarded)
    _show_imported(selection, trajectories, counts, folders, as_json=as_json)


def _show_imported(
    selection: Selection,
    imported: list[Trajectory],
    counts: tuple[int, int],
    folders: list[str],
    *,
    as_json: bool,
) -> None:
    """Print what was imported.

    counts: trajectories that were read, and those rewarded enough. folders: data that were at hand.
    """
    read, rewarded = counts
    kinds = Counter(f"{t.task.env} {t.task.kind}".strip() for t in imported)
    # Of those nothing is recorded that followed an action.
    blind = sum(not any(step.observation for step in t.steps) for t in imported)
    if as_json:
        report = {
            "out": str(selection.out),
            "trajectories": len(imported),
            "left_out": read - len(imported),
            "without_observations": blind,
            "kinds": dict(sorted(kinds.items())),
        }
        output.print_json(report)
        return
    from ldm.records import is_stream

    rows = [(kind, str(number)) for kind, number in sorted(kinds.items())]
    apart = is_stream(selection.out)  # the trajectories themselves may be on standard output
    output.print_table("", ("kind", "trajectories"), rows, error=apart)
    lines = [f"{counted(len(imported), 'trajectory')} → {selection.out}"]
    if read > rewarded:
        lines.append(f"{read - rewarded} skipped: reward below {selection.min_reward:g}.")
    if rewarded > len(imported):
        lines.append(f"{rewarded - len(imported)} skipped: --limit {selection.limit}.")
    if blind:
        why = (
            f"the data in {folders[0]} do not say what was seen"
            if folders
            else "name the environment's data with --data to rebuild what was seen"
        )
        lines.append(f"{counted(blind, 'trajectory')} without observations: {why}.")
    for line in lines:
        output.say(line, error=apart)


def _report(built: BuildResult) -> dict[str, Any]:
    from ldm.memory import outcome_counts

    goal_types = sum(len(batch.goal_types) for batch in built.batches)
    cells = sum(len(g.observation_types) for b in built.batches for g in b.goal_types)
    return {
        "env": built.env,
        "generation": built.generation.number,
        "new_trajectories": built.trajectories,
        "left_out": built.left_out,
        "warnings": outcome_counts(built.rows).get("warning", 0),
        "tuples": built.generation.tuples,
        "batches": len(built.batches),
        "goal_types": goal_types,
        "observation_types": cells,
        "seconds": built.seconds,
    }


def _why(forming: Forming) -> str:
    """Return why trajectories were left out, and how to keep them."""
    if forming.options.min_reward:
        return f"reward below {forming.options.min_reward:g} (--min-reward)"
    return "they scored 0 (--failures keep takes them, --failures contrast as warnings)"


def _show(built: BuildResult, forming: Forming) -> None:
    memory = forming.memory
    from ldm.memory import type_sizes
    from ldm.memory.typical import typical_goals

    if built.left_out:
        of = built.trajectories + built.skipped + built.left_out
        output.say(f"{built.left_out} of {of} trajectories skipped: {_why(forming)}.", error=False)
    if not built.trajectories:
        authors = sorted({batch.reasoner or "an unknown reasoner" for batch in built.batches})
        output.say(
            f"{built.env}: nothing new; {memory} holds all {built.skipped} trajectories already,"
            f" formed by {' and '.join(authors)} (--rebuild forms them again).",
            error=False,
        )
        return
    rows = []
    for batch in built.batches:
        sizes = type_sizes(batch, built.rows)
        observations = sum(len(below) for _, _, below in sizes)
        tuples = sum(size for _, size, _ in sizes)
        typical = typical_goals(batch, built.rows)
        names = "; ".join(
            f"{name} ({size}), e.g. {goal}"
            for goal, (name, size, _) in zip(typical, sizes, strict=True)
        )
        count = len(batch.trajectories), tuples, len(sizes), observations
        rows.append((batch.id, *map(str, count), names))
    columns = (
        "batch",
        "trajectories",
        "tuples",
        "goal types",
        "observation types",
        "goal type names",
    )
    output.print_table(f"Memory of {built.env}", columns, rows)
    spent = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in built.seconds.items())
    output.say(
        f"{built.trajectories} trajectories added as generation {built.generation.number}:"
        f" {built.generation.tuples} tuples in {len(built.batches)} batches ({spent}) → {memory}",
        error=False,
    )
    if built.skipped:
        output.say(f"{counted(built.skipped, 'duplicate')} skipped.", error=False)
