"""`ldm memory`: look into a memory, search it, move it, go back to an earlier generation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ldm.cli import output
from ldm.cli.options import AsJson, EmbedderName, MemoryAt
from ldm.experiments.lifecycle import plain
from ldm.experiments.refinement import only_environment
from ldm.experiments.specs import DEFAULT_MEMORY

memory_app = typer.Typer(help="Look into a memory, search it, export and import it, go back.")

Env = Annotated[str, typer.Option("--env", help="The environment; the only one if left out.")]
Number = Annotated[int | None, typer.Option("--generation", help="Default: the newest.")]


@memory_app.command("show")
def show(memory: MemoryAt = DEFAULT_MEMORY, as_json: AsJson = False) -> None:
    """List the environments and generations that a memory holds.

    \b
    Examples:
      ldm memory show
      ldm memory show --memory http://localhost:8000 --json
    """
    from ldm.memory import environments, generations

    listed = [g for env in environments(memory) for g in generations(memory, env)]
    if as_json:
        output.print_json([plain(g) for g in listed])
        return
    rows = [
        (g.env, str(g.number), g.origin, str(g.tuples), g.embedder, _settings(g)) for g in listed
    ]
    columns = ("environment", "generation", "origin", "tuples", "embedder", "settings")
    output.print_table(f"Memory at {memory}", columns, rows)


@memory_app.command("log")
def log(memory: MemoryAt = DEFAULT_MEMORY, env: Env = "", as_json: AsJson = False) -> None:
    """List the generations of a memory: what each added, and how it was made.

    \b
    Examples:
      ldm memory log
      ldm memory log --env alfworld --json
    """
    from ldm.memory import generations

    history = generations(memory, env or only_environment(memory))
    if as_json:
        output.print_json([plain(g) for g in history])
        return
    before = 0
    rows = []
    for g in history:
        goals = str(len(g.tasks)) if g.origin == "refined" else ""
        rows.append((str(g.number), g.origin, goals, f"+{g.tuples - before}", str(g.tuples)))
        before = g.tuples
    columns = ("generation", "origin", "goals explored", "added", "tuples")
    output.print_table(f"Memory at {memory}", columns, rows)
    for g in history:
        output.say(f"{g.number}: {_settings(g)}", error=False)


@memory_app.command("diff")
def diff(
    first: Annotated[int, typer.Argument(metavar="G1", help="A generation.")],
    second: Annotated[int, typer.Argument(metavar="G2", help="Another one.")],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="Tuples to show at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the tuples by which two generations differ.

    \b
    Examples:
      ldm memory diff 0 1
      ldm memory diff 0 2 --limit 100
    """
    from collections import Counter

    from ldm.memory import inspect

    name = env or only_environment(memory)
    low, high = sorted((first, second))
    inspect(memory, name, low)  # that it exists
    contents = inspect(memory, name, high)
    added = contents.rows.after(low)
    if as_json:
        output.print_json([plain(row) for row in added])
        return
    counts = Counter((row.batch, row.tuple.origin) for row in added)
    sign = "+" if first <= second else "-"
    rows = [(b, origin, f"{sign}{n}") for (b, origin), n in sorted(counts.items())]
    output.print_table(f"{first} to {second}", ("batch", "origin", "tuples"), rows)
    for row in added[:limit]:
        one = row.tuple
        output.say(f"{sign} {one.goal} | {one.observation} -> {one.action}", error=False)
    if len(added) > limit:
        output.say(f"… and {len(added) - limit} more (--limit).", error=False)


@memory_app.command("rollback")
def rollback(
    generation: Annotated[int, typer.Argument(metavar="G", help="The one to go back to.")],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
) -> None:
    """Go back to an earlier generation; what later ones added is removed for good.

    \b
    Examples:
      ldm memory rollback 0
      ldm memory export before.jsonl.gz && ldm memory rollback 1
    """
    from ldm.memory import rollback as go_back

    name = env or only_environment(memory)
    gone = go_back(memory, name, generation)
    if not gone:
        output.say(f"Generation {generation} of {name} is the newest already.", error=False)
        return
    numbers = ", ".join(str(g.number) for g in gone)
    output.say(f"{name} is at generation {generation} again; removed: {numbers}.", error=False)


@memory_app.command("types")
def types(
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    generation: Number = None,
    as_json: AsJson = False,
) -> None:
    """Show the goal types of every batch and the observation types below them, with sizes.

    \b
    Examples:
      ldm memory types
      ldm memory types --env alfworld --generation 0
    """
    from ldm.memory import inspect, type_sizes

    contents = inspect(memory, env or only_environment(memory), generation)
    listed = [
        (batch.id, goal_type, size, below)
        for batch in contents.batches
        for goal_type, size, below in type_sizes(batch, contents.rows)
    ]
    if as_json:
        keys = ("batch", "goal_type", "tuples", "observation_types")
        rows = [(b, g, n, dict(below)) for b, g, n, below in listed]
        output.print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    table = []
    for batch, goal_type, size, below in listed:
        table.append((batch, goal_type, "", str(size)))
        table.extend(("", "", name, str(count)) for name, count in below)
    columns = ("batch", "goal type", "observation type", "tuples")
    output.print_table(f"Types in {memory}", columns, table)


@memory_app.command("search")
def search(  # noqa: PLR0913, PLR0917 - one parameter an option
    goal: Annotated[str, typer.Argument(help="A goal, in words.")],
    observation: Annotated[str, typer.Argument(help="What is seen.")],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    k: Annotated[int, typer.Option("--k", min=1, help="How many tuples.")] = 5,
    generation: Number = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Show the tuples that a goal and an observation recall, best first.

    \b
    Examples:
      ldm memory search --env alfworld "put a hot egg in the fridge" "You see a egg 2."
      ldm memory search "heat an egg" "You see nothing." --k 10 --json
    """
    from ldm.embed import load_embedder
    from ldm.memory import Memory

    model = load_embedder(embedder)
    opened = Memory.open(
        memory, env or only_environment(memory), embedder=model, generation=generation
    )
    recalls = opened.retrieve(goal, observation, k)
    if as_json:
        output.print_json([plain(recall) for recall in recalls])
        return
    rows = [
        (
            f"{recall.similarity:.3f}",
            recall.batch,
            recall.goal_type + (f" [{recall.fallback}]" if recall.fallback else ""),
            recall.tuple.goal,
            recall.tuple.observation,
            recall.tuple.action,
        )
        for recall in recalls
    ]
    columns = ("similarity", "batch", "goal type", "goal", "observation", "action")
    output.print_table(f"Kind: {opened.kind_of(goal)}", columns, rows)


@memory_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The JSONL file (.gz packs it).")],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    generation: Number = None,
) -> None:
    """Write a memory to one file, without vectors; equal memories give equal bytes.

    \b
    Examples:
      ldm memory export alfworld.jsonl.gz
      ldm memory export before.jsonl --generation 0
    """
    from ldm.memory.exchange import export as write

    count = write(memory, env or only_environment(memory), file, generation)
    output.say(f"{count} tuples → {file}", error=False)


@memory_app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `ldm memory export` wrote.")],
    memory: MemoryAt = DEFAULT_MEMORY,
    embedder: EmbedderName = None,
) -> None:
    """Read an exported memory into a location that has none of its environment.

    \b
    Examples:
      ldm memory import alfworld.jsonl.gz --memory /tmp/memory
    """
    from ldm.embed import load_embedder
    from ldm.memory.exchange import import_memory

    with output.stages() as on_progress:
        newest = import_memory(memory, file, load_embedder(embedder), on_progress)
    output.say(f"{newest.tuples} tuples of {newest.env} → {memory}", error=False)


@memory_app.command("migrate")
def migrate(memory: MemoryAt = DEFAULT_MEMORY) -> None:
    """Make a memory of an earlier version compact; it is read as before if that is interrupted.

    \b
    Examples:
      ldm memory migrate
    """
    from ldm.memory.migration import migrate as make_compact

    for env, count in make_compact(memory).items():
        done = f"{count} tuples of {env} are compact now" if count else f"{env} is compact already"
        output.say(f"{done}.", error=False)


def _settings(generation: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in generation.settings.items())
