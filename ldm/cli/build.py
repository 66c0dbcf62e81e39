"""`ldm build-memory` and `ldm import`: trajectory files in, a memory or other files out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from ldm.cli import environment, output
from ldm.cli.options import Given, Models, Output, offers
from ldm.config import DEFAULT_MEMORY, LIMITS, PLACE, TRAJECTORIES, Build, Option, load, merge
from ldm.envs.formats import Assumed, read_all, write, written_as
from ldm.errors import LdmError
from ldm.memory.formation import BuildResult
from ldm.memory.rows import outcome_counts, type_sizes
from ldm.records import is_stream
from ldm.run import building
from ldm.run.presets import stage_preset
from ldm.run.selection import even
from ldm.text import counted
from ldm.types import Trajectory


@dataclass(frozen=True)
class Forming:
    """The files that a memory is formed from, and its location."""

    data: Annotated[
        list[Path] | None,
        Option("Folders or files; default: the bundled expert episodes.", argument="DATA"),
    ] = None
    preset: Annotated[str | None, Option("Settings of a paper: ldm2, or a file.", TRAJECTORIES)] = (
        None
    )
    memory: Annotated[str, PLACE] = DEFAULT_MEMORY
    estimate: Annotated[
        bool, Option("Form a small sample, print what all will cost, and stop.", LIMITS)
    ] = False


@offers(Forming, Build, Models, Output)
def build_memory(**values: Any) -> None:
    """Form a memory from every trajectory file below DATA, each environment by itself.

    Trajectories that the memory holds already are skipped. New ones become further batches, in a
    new generation. An interrupted build resumes where it stopped.

    A model, if one is named, writes the histories and the types; its calls are recorded beside the
    memory and never paid twice. Otherwise the offline reasoner does.

    \b
    Examples:
      ldm build-memory
      ldm build-memory data/ --rebuild --seed 1
      ldm build-memory expert.jsonl --memory /tmp/memory --batch-size 100
      ldm build-memory logs.jsonl --failures contrast --memory /tmp/memory
      ldm build-memory --llm MODEL --estimate
      ldm build-memory --llm MODEL --max-usd 5 --rebuild
      ldm build-memory --rebuild --replay .ldm/memory/calls
    """
    given = Given(build_memory, values)
    forming, printing = given.group(Forming), given.group(Output)
    values = given.of(Build)
    if forming.preset is not None:
        values = merge(Build, stage_preset(forming.preset, values.get("env", ""), "build"), values)
    spec, runtime = load(Build, values), environment.runtime(quiet=printing.quiet)
    if forming.estimate:
        output.say_all(building.estimate(forming.data, forming.memory, spec, runtime))
        return
    reports = []
    for built in building.build_each(forming.data, forming.memory, spec, runtime):
        reports.append(_as_object(built))
        if not printing.as_json:
            _show(built, forming.memory, spec)
    if printing.as_json:
        output.print_json({"memory": forming.memory, "environments": reports})


@dataclass(frozen=True)
class Selection(Output):
    """The files to read, the trajectories to take, and the destination."""

    files: Annotated[list[Path], Option("Files or folders.", argument="FILE...")] = ()  # type: ignore[assignment]
    out: Annotated[Path, Option("Output file; .gz compresses it.", TRAJECTORIES)] = Path()
    format: Annotated[
        str, Option("Format of the files; default: as their lines tell.", TRAJECTORIES)
    ] = ""
    to: Annotated[
        Literal["ldm", "chat"] | None, Option("Output format; default: ldm.", TRAJECTORIES)
    ] = None
    min_reward: Annotated[float, Option("Skip trajectories of lower score.", TRAJECTORIES)] = 0.0
    limit: Annotated[
        int | None, Option("Number of trajectories, balanced over kinds.", TRAJECTORIES)
    ] = None
    data: Annotated[
        Path | None, Option("Data folder of the environment, to rebuild observations.")
    ] = None
    strict: Annotated[bool, Option("Stop at the first invalid record.", TRAJECTORIES)] = False


@offers(Selection, Assumed)
def import_files(**values: Any) -> None:
    """Convert trajectories of other formats to our own JSONL, or ours to others.

    An invalid record is reported as file:line:field, and the others are kept. Where logs say only
    which page was opened, its text is rebuilt from the environment's data.

    Chat messages are also written; what ldm writes reads back equal.
    For recordings of other tools, --env names their environment,
    and --score gives their score.

    \b
    Examples:
      ldm import conversations.jsonl --out data/trajectories/alfworld/expert.jsonl
      ldm import logs/ --out all.jsonl.gz --format alfworld-conversations --strict
      ldm import human_sessions/ --data webshop/ --out human.jsonl
      ldm import react_episodes.jsonl --min-reward 1 --limit 20 --out agent.jsonl
      ldm import runs/RUN/trajectories.jsonl --out tuning.jsonl --to chat
      ldm import chats/ --env my_env --score 1 --out agent.jsonl
    """
    given = Given(import_files, values)
    selection, assumed = given.group(Selection), given.group(Assumed)
    if not selection.out.name:
        raise LdmError("No output file is named.", "Name one with --out FILE.")
    if not (0 <= selection.min_reward <= 1 and 0 <= (assumed.score or 0) <= 1):
        raise LdmError("--min-reward and --score are from 0 to 1.", "Correct it.")
    if selection.limit is not None and selection.limit < 1:
        raise LdmError("--limit is 1 or more.", "Leave it out for all trajectories.")
    written_as(selection.out, selection.to or "")  # fail before reading much
    folders: list[str] = []

    def data(name: str) -> str | None:
        folder = str(selection.data) if selection.data else environment.data_of_format(name)
        folders.extend([folder] if folder else [])
        return folder

    with output.stages(quiet=selection.quiet) as on_progress:
        on_progress("read", 0, 0)
        everything = read_all(
            selection.files,
            output.say,
            name=selection.format,
            strict=selection.strict,
            data=data,
            assumed=assumed,
        )
    rewarded = [t for t in everything if t.score >= selection.min_reward]
    kinds = [(t.id, f"{t.task.env} {t.task.kind}") for t in rewarded]
    trajectories = [rewarded[i] for i in even(kinds, selection.limit or len(rewarded))]
    if not trajectories:
        worth = f" with a reward of {selection.min_reward:g} or more" * bool(selection.min_reward)
        raise LdmError(
            f"No trajectories found in these files{worth}.", f"{selection.out} was not written."
        )
    write(selection.out, trajectories, selection.to or "")
    counts = len(everything), len(rewarded)
    _show_imported(selection, trajectories, counts, folders)


def _show_imported(
    selection: Selection, imported: list[Trajectory], counts: tuple[int, int], folders: list[str]
) -> None:
    """Print what was imported.

    counts: trajectories read, and those with a sufficient reward. folders: available data.
    """
    read, rewarded = counts
    kinds = Counter(f"{t.task.env} {t.task.kind}".strip() for t in imported)
    # Such recordings hold no observation after an action.
    blind = sum(not any(step.observation for step in t.steps) for t in imported)
    if selection.as_json:
        report = {
            "out": str(selection.out),
            "trajectories": len(imported),
            "left_out": read - len(imported),
            "without_observations": blind,
            "kinds": dict(sorted(kinds.items())),
        }
        output.print_json(report)
        return
    rows = [(kind, str(number)) for kind, number in sorted(kinds.items())]
    apart = is_stream(selection.out)  # the trajectories themselves may be on standard output
    output.print_table("", ("kind", "trajectories"), rows, error=apart)
    lines = [f"{counted(len(imported), 'trajectory')} → {selection.out}"]
    if read > rewarded:
        lines.append(f"{read - rewarded} skipped: reward below {selection.min_reward:g}.")
    if rewarded > len(imported):
        lines.append(f"{rewarded - len(imported)} skipped: --limit {selection.limit}.")
    if blind:
        why = "name the environment's data with --data to rebuild what was seen"
        if folders:
            why = f"the data in {folders[0]} do not say what was seen"
        lines.append(f"{counted(blind, 'trajectory')} without observations: {why}.")
    output.say_all(lines, error=apart)


def _as_object(built: BuildResult) -> dict[str, Any]:
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


def _show(built: BuildResult, memory: str, spec: Build) -> None:
    if built.left_out:
        why = "they scored 0 (--failures keep takes them, --failures contrast as warnings)"
        if spec.min_reward:
            why = f"reward below {spec.min_reward:g} (--min-reward)"
        of = built.trajectories + built.skipped + built.left_out
        output.show(f"{built.left_out} of {of} trajectories skipped: {why}.")
    if not built.trajectories:
        authors = sorted({batch.reasoner or "an unknown reasoner" for batch in built.batches})
        output.show(
            f"{built.env}: nothing new; {memory} holds all {built.skipped} trajectories already,"
            f" formed by {' and '.join(authors)} (--rebuild forms them again)."
        )
        return
    rows = []
    for batch in built.batches:
        sizes = type_sizes(batch, built.rows)
        observations = sum(len(below) for *_, below in sizes)
        tuples = sum(size for _, _, size, _ in sizes)
        names = "; ".join(f"{name} ({size}), e.g. {goal}" for name, goal, size, _ in sizes)
        count = len(batch.trajectories), tuples, len(sizes), observations
        rows.append((batch.id, *map(str, count), names))
    counts = ("trajectories", "tuples", "goal types", "observation types")
    columns = ("batch", *counts, "goal type names")
    output.print_table(f"Memory of {built.env}", columns, rows)
    spent = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in built.seconds.items())
    output.show(
        f"{built.trajectories} trajectories added as generation {built.generation.number}:"
        f" {built.generation.tuples} tuples in {len(built.batches)} batches ({spent}) → {memory}"
    )
    if built.skipped:
        output.show(f"{counted(built.skipped, 'duplicate')} skipped.")
