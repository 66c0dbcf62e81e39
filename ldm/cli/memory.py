"""`ldm memory`: look into a memory, search it, credit and prune it, move it, go back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldm.cli import output
from ldm.cli.completing import environments, runs_below
from ldm.cli.confirming import Yes, confirm
from ldm.cli.environment import runtime
from ldm.cli.options import AsJson, EmbedderName, MemoryAt, Quiet, RunsFrom, expanded
from ldm.config import DEFAULT_MEMORY
from ldm.errors import LdmError
from ldm.run.builders import only_environment
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.types import StateActionTuple

memory_app = typer.Typer(help="Inspect, search, prune, export and import a memory.")

Env = Annotated[
    str,
    typer.Option(
        "--env",
        help="The environment; the memory's only one if omitted.",
        autocompletion=environments,
    ),
]
RunNames = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="Finished evaluations: directories or ids.",
        autocompletion=runs_below,
    ),
]
Number = Annotated[
    int | None, typer.Option("--generation", help="Memory generation; default: the newest.")
]


@dataclass(frozen=True)
class Held:
    """A memory, and which of the environments that it holds is meant."""

    memory: MemoryAt = DEFAULT_MEMORY
    env: Env = ""

    @property
    def name(self) -> str:
        """The environment that is named, or the only one that the memory holds."""
        if not self.env:
            return only_environment(self.memory)
        from ldm.memory import environments
        from ldm.memory.directory import unknown_environment

        known = environments(self.memory)
        if self.env not in known:
            raise unknown_environment(self.memory, self.env, known)
        return self.env


HELD = Held()


@memory_app.command("show")
def show(memory: MemoryAt = DEFAULT_MEMORY, as_json: AsJson = False) -> None:
    """List the environments and generations that a memory holds.

    Outcomes (trajectories with the full, a partial or no score) are listed if any scored less than
    full.

    \b
    Examples:
      ldm memory show
      ldm memory show --memory http://localhost:8000 --json
    """
    from ldm.memory import environments, generations, inspect, outcome_counts
    from ldm.memory.rewriting import is_outdated
    from ldm.records import plain

    listed = []
    for env in environments(memory):
        rows_of = inspect(memory, env).rows
        listed += [(g, outcome_counts(rows_of, g.number)) for g in generations(memory, env)]
    if is_outdated(memory):
        output.say(
            f"{memory} was made by ldm 0.2 or earlier. It is read as it is; `ldm memory migrate` "
            "makes it smaller, quicker to open and checked whole."
        )
    if as_json:
        entries = [{**plain(g), "outcomes": earned} for g, earned in listed]
        output.print_json({"memory": memory, "generations": entries})
        return
    columns = ["environment", "generation", "origin", "tuples", "embedder", "settings"]
    rows = [[g.env, g.number, g.origin, g.recallable, g.embedder, _settings(g)] for g, _ in listed]
    if any(set(earned) - {"full", "unknown"} for _, earned in listed):
        columns.append("outcomes")
        for row, (_, earned) in zip(rows, listed, strict=True):
            row.append(", ".join(f"{count} {name}" for name, count in earned.items()))
    output.print_table(f"Memory at {memory}", columns, rows)


@memory_app.command("log")
@expanded
def log(held: Held = HELD, as_json: AsJson = False) -> None:
    """List the generations of a memory: what each added, and how it was made.

    \b
    Examples:
      ldm memory log
      ldm memory log --env alfworld --json
    """
    from ldm.memory import generations
    from ldm.records import plain

    history = generations(held.memory, held.name)
    if as_json:
        output.print_json({"memory": held.memory, "generations": [plain(g) for g in history]})
        return
    sizes = [0, *(g.recallable for g in history)]
    rows = []
    for g, before in zip(history, sizes, strict=False):
        goals = len(g.tasks) if g.origin == "refined" else None
        rows.append((g.number, g.origin, goals, f"{g.recallable - before:+}", g.recallable))
    columns = ("generation", "origin", "goals explored", "added", "tuples")
    output.print_table(f"Memory at {held.memory}", columns, rows)
    output.say_all(f"{g.number}: {_settings(g)}" for g in history)


@memory_app.command("credit")
@expanded
def credit(
    names: RunNames,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Maximum number of tuples to show.")
    ] = 20,
    utilities: Annotated[
        bool,
        typer.Option(
            "--utilities", help="Learn utilities for --recall utility, as a new generation."
        ),
    ] = False,
    where: RunsFrom = RunsFrom(),  # noqa: B008 - frozen
    as_json: AsJson = False,
) -> None:
    """Show the outcomes of each tuple in finished runs: how often it was recalled, and followed.

    Columns: steps and attempts (in) that recalled and that followed it, the mean score of those
    that followed it, and of the same kinds of task without it, what they lost altogether (harm,
    the most first), and what the tuple's own trajectory earned.

    \b
    Examples:
      ldm memory credit runs/RUN
      ldm memory credit runs/RUN runs/OTHER --limit 5 --json
      ldm memory credit runs/RUN --utilities
    """
    from ldm.run.credit import COLUMNS
    from ldm.run.crediting import credit_tuples, learn_utilities

    credited = credit_tuples(names, folder=where.runs, trust=where.trust)
    if utilities:
        learnt = learn_utilities(names, folder=where.runs, trust=where.trust)
        number = counted(len(learnt.utilities), "utility")
        output.say(f"Generation {learnt.number} has {number}.")
    listed = credited.tuples[:limit]
    title = f"{len(credited.tuples)} tuples recalled in {credited.attempts} attempts"
    if as_json:
        entries = [one.as_data() for one in listed]
        output.print_json({"attempts": credited.attempts, "tuples": entries})
        return
    output.print_table(title, COLUMNS, [one.as_row() for one in listed])
    if len(listed) < len(credited.tuples):
        output.say(f"… and {len(credited.tuples) - len(listed)} more (--limit).", error=False)


@memory_app.command("prune")
@expanded
def prune(
    names: RunNames,
    min_followed: Annotated[
        int, typer.Option("--min-followed", help="Minimum number of attempts that followed it.")
    ] = 3,
    max_score: Annotated[
        float, typer.Option("--max-score", help="Maximum mean score of these attempts.")
    ] = 0.5,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be dropped.")] = False,
    where: RunsFrom = RunsFrom(),  # noqa: B008 - frozen
    as_json: AsJson = False,
) -> None:
    """Drop tuples that were followed often with poor outcomes, as a new generation.

    The runs must evaluate training tasks. A tuple is dropped if at least --min-followed attempts
    followed it, with a mean score of at most --max-score, and below that of at least as many
    attempts without it. `ldm memory rollback` brings all of them back.

    \b
    Examples:
      ldm memory prune runs/RUN --dry-run
      ldm memory prune runs/RUN runs/OTHER --min-followed 5 --max-score 0.3
    """
    from ldm.run.credit import COLUMNS, PruneOptions
    from ldm.run.crediting import prune_memory

    options = PruneOptions(min_followed, max_score)
    pruned = prune_memory(names, options, folder=where.runs, trust=where.trust, dry_run=dry_run)
    added = pruned.generation
    if as_json:
        entries = [one.as_data() for one in pruned.dropped]
        output.print_json({"generation": added.number if added else None, "dropped": entries})
        return
    if pruned.dropped:
        output.print_table("Dropped", COLUMNS, [one.as_row() for one in pruned.dropped])
    number = counted(len(pruned.dropped), "tuple")
    if added is None:
        would = f"{number} would be dropped" if pruned.dropped else "No tuple is to be dropped"
        output.say(f"{would}; nothing was changed.", error=False)
        return
    output.say(
        f"{number} dropped: generation {added.number} recalls {added.recallable}. Go back "
        f"with `ldm memory rollback {added.number - 1}`.",
        error=False,
    )


@memory_app.command("rollback")
@expanded
def rollback(
    generation: Annotated[
        int | None, typer.Argument(metavar="G", help="The generation to go back to.")
    ] = None,
    held: Held = HELD,
    yes: Yes = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Bring back what rollbacks took away.")
    ] = False,
) -> None:
    """Go back to an earlier generation; later ones disappear.

    --undo brings them back, until the next command that writes to the memory: that one removes
    them for good, and so does `ldm memory compact`.

    \b
    Examples:
      ldm memory rollback 0
      ldm memory rollback 1 --yes
      ldm memory rollback --undo
    """
    from ldm.memory import generations, undo_rollback
    from ldm.memory import rollback as go_back

    if (generation is None) != undo:
        raise LdmError(
            "A rollback needs either a generation or --undo.",
            "For example `ldm memory rollback 0`; `ldm memory log` lists the generations.",
        )
    name = held.name
    if generation is None:
        restored = undo_rollback(held.memory, name)
        if not restored:
            raise LdmError(
                f"There is no rollback of {name} at {held.memory} to undo.",
                "It can be undone until something else is written to the memory.",
            )
        output.say(f"{name} is at generation {restored[-1].number} again.", error=False)
        return
    later = [g for g in generations(held.memory, name) if g.number > generation]
    if later:
        tuples = counted(later[-1].recallable, "tuple")
        confirm(f"Go back from generation {later[-1].number} ({tuples}) of {name}?", yes=yes)
    gone = go_back(held.memory, name, generation)
    if not gone:
        output.say(f"Generation {generation} of {name} is the newest already.", error=False)
        return
    numbers = ", ".join(str(g.number) for g in gone)
    output.say(
        f"{name} is back at generation {generation}; removed: {numbers}. Undo it with "
        "`ldm memory rollback --undo` before you write to the memory again.",
        error=False,
    )


@memory_app.command("types")
@expanded
def types(held: Held = HELD, generation: Number = None, as_json: AsJson = False) -> None:
    """Show the goal types of every batch and the observation types below them, with sizes.

    \b
    Examples:
      ldm memory types
      ldm memory types --env alfworld --generation 0
    """
    from ldm.memory import inspect, type_sizes
    from ldm.memory.typical import typical_goals

    contents = inspect(held.memory, held.name, generation)
    listed = [
        (batch.id, goal_type, typical, size, below)
        for batch in contents.batches
        for typical, (goal_type, size, below) in zip(
            typical_goals(batch, contents.rows), type_sizes(batch, contents.rows), strict=True
        )
    ]
    if as_json:
        keys = ("batch", "goal_type", "typical_goal", "tuples", "observation_types")
        rows = [(b, g, typical, n, dict(below)) for b, g, typical, n, below in listed]
        entries = [dict(zip(keys, row, strict=True)) for row in rows]
        output.print_json({"memory": held.memory, "types": entries})
        return
    table = []
    for batch, goal_type, typical, size, below in listed:
        table.append((batch, goal_type, typical, "", size))
        table.extend(("", "", "", name, count) for name, count in below)
    columns = ("batch", "goal type", "typical goal", "observation type", "tuples")
    output.print_table(f"Types in {held.memory}", columns, table)


@memory_app.command("search")
@expanded
def search(  # noqa: PLR0913, PLR0917 - one parameter an option
    goal: Annotated[str, typer.Argument(help="The goal.")],
    observation: Annotated[str, typer.Argument(help="The current observation.")],
    held: Held = HELD,
    k: Annotated[int, typer.Option("--k", min=1, help="Number of tuples.")] = 5,
    generation: Number = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Show the tuples that a goal and an observation recall, the most similar first.

    Scope is where a tuple was recalled from: types, where goal and observation have the same types
    as yours; else, where these hold fewer than --k, goal type (any observation) or batch (any
    type). Agents take those of narrower scopes first.

    Outcome is what the trajectory earned, how much more that is than the memory alone had earned
    (refinement), in how many other attempts the step was confirmed, and, where the action is not
    the trajectory's own but what hindsight put in its place, how many steps that saves.

    \b
    Examples:
      ldm memory search --env alfworld "put a hot egg in the fridge" "You see a egg 2."
      ldm memory search "heat an egg" "You see nothing." --k 10 --json
    """
    from ldm.embed import load_embedder
    from ldm.memory import Memory
    from ldm.records import plain

    model = load_embedder(embedder)
    opened = Memory.open(held.memory, held.name, embedder=model, generation=generation)
    recalls = sorted(opened.retrieve(goal, observation, k), key=lambda recall: -recall.similarity)
    kind = opened.kind_of(goal)
    if as_json:
        entries = [plain(recall) for recall in recalls]
        output.print_json({"memory": held.memory, "kind": kind, "recalls": entries})
        return
    columns = ["similarity", "scope", "batch", "goal type", "goal", "observation", "action"]
    rows = [
        [
            f"{recall.similarity:.3f}",
            recall.fallback or "types",
            recall.batch,
            recall.goal_type,
            recall.tuple.goal,
            recall.tuple.observation,
            recall.tuple.action,
        ]
        for recall in recalls
    ]
    if any(recall.tuple.outcome is not None for recall in recalls):
        columns.append("outcome")
        for row, recall in zip(rows, recalls, strict=True):
            row.append(_outcome(recall.tuple))
    output.print_table(f"Kind: {kind}", columns, rows)
    if any(recall.fallback for recall in recalls):
        output.say(
            "Scope: types, the same goal and observation types as yours; where these hold fewer "
            f"than {k} tuples, the whole goal type or batch.",
            error=False,
        )


@memory_app.command("export")
@expanded
def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="FILE.ldmpack, or JSONL (.gz compresses it).")
    ],
    held: Held = HELD,
    generation: Number = None,
    licence: Annotated[
        str, typer.Option("--licence", help="Licence of the data, for a pack.")
    ] = "",
    description: Annotated[
        str, typer.Option("--description", help="Description, for a pack.")
    ] = "",
) -> None:
    """Write a memory to one file; equal memories give equal bytes.

    A pack (.ldmpack) includes the vectors, so that importing it computes none. JSONL does not.

    \b
    Examples:
      ldm memory export alfworld.jsonl.gz
      ldm memory export alfworld.ldmpack --licence CC-BY-4.0
      ldm memory export before.jsonl --generation 0
    """
    from ldm.memory.exchange import export as write
    from ldm.memory.packs import SUFFIX, export_pack
    from ldm.records import is_stream

    if file.suffix == SUFFIX:
        words = {"licence": licence, "description": description}
        count = export_pack(held.memory, held.name, file, generation, **words)
    else:
        count = write(held.memory, held.name, file, generation)
    output.say(f"{count} tuples → {file}", error=is_stream(file))


@memory_app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File written by `ldm memory export`.")
    ],
    memory: MemoryAt = DEFAULT_MEMORY,
    embedder: EmbedderName = None,
    as_new: Annotated[
        bool,
        typer.Option("--as-new", help="Accept an edited JSONL file, as one generation."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Import an exported memory into a location without a memory of that environment.

    \b
    Examples:
      ldm memory import alfworld.jsonl.gz --memory /tmp/memory
      ldm memory import alfworld.ldmpack --memory /tmp/memory
      ldm memory import edited.jsonl --as-new --memory /tmp/memory
    """
    from ldm.memory.exchange import import_memory
    from ldm.memory.packs import SUFFIX, import_pack, is_pack

    if is_pack(file) or file.suffix == SUFFIX:
        newest = import_pack(memory, file)
    else:
        from ldm.embed import load_embedder, with_disk_cache

        model = with_disk_cache(load_embedder(embedder), runtime().embeddings)
        with output.stages(quiet=quiet) as on_progress:
            newest = import_memory(memory, file, model, on_progress, as_new=as_new)
    output.say(f"{newest.tuples} tuples of {newest.env} → {memory}", error=False)


def _outcome(source: StateActionTuple) -> str:
    outcome = source.outcome
    if outcome is None:
        return "unknown"
    gained = f", {outcome.advantage:+.2g}" if outcome.advantage else ""
    confirmed = f", confirmed {outcome.confirmed}" if outcome.confirmed else ""
    saved = f", saves {outcome.saved} steps" if outcome.saved else ""
    return f"{outcome.score:.2g}{gained}{confirmed}{saved}" + " (a warning)" * source.is_warning


def _settings(generation: Any) -> str:
    """Return how a generation was made, without the goals by name, which --json shows."""
    return ", ".join(
        f"{name} {value}"
        for name, value in generation.settings.items()
        if not name.endswith("_goals")
    )
