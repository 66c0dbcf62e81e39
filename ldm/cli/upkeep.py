"""`ldm memory verify | forget | fold`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.environment import EMBEDDINGS, cache_folder
from ldm.cli.memory import Env, chosen, embedder_of, memory_app
from ldm.cli.options import AsJson, MemoryAt, listed_ids, listed_names
from ldm.config import DEFAULT_MEMORY
from ldm.errors import LdmError
from ldm.text import counted


@memory_app.command("verify")
def verify(
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    seed: Annotated[
        int, typer.Option("--seed", help="Random seed for choosing the texts to re-embed.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Check a memory: counts, hashes, cells, vectors, and the snapshot against Chroma.

    It re-embeds 200 texts. The exit status is 1 if anything is wrong.

    \b
    Examples:
      ldm memory verify
      ldm memory verify --env alfworld --json
    """
    from ldm.memory import environments
    from ldm.memory.verifying import verify as problems_of

    problems = {}
    for name in [env] if env else environments(memory):
        problems[name] = problems_of(memory, name, embedder_of(memory, name), seed=seed)
    failed = any(problems.values())
    if as_json:
        output.print_json({"ok": not failed, "problems": problems})
    else:
        for name, listed in problems.items():
            output.say_all(f"{name}: {problem}" for problem in listed or ("sound",))
    if failed:
        output.say(
            "Files that are left over can be deleted. To repair anything else, build the memory "
            "again with `ldm build-memory DATA --rebuild`."
        )
        raise typer.Exit(1)


@memory_app.command("forget")
def forget(
    trajectories: Annotated[str, typer.Option(metavar="A,B", help="Ids of trajectories.")] = "",
    tasks: Annotated[str, typer.Option(metavar="A,B", help="Ids of tasks.")] = "",
    sources: Annotated[
        str,
        typer.Option(metavar="A,B", help="Files of trajectories, or sources (games, products)."),
    ] = "",
    origin: Annotated[str, typer.Option(help="Origin: human, expert, agent or explored.")] = "",
    purge: Annotated[
        bool, typer.Option("--purge", help="Erase them from the disk and all generations.")
    ] = False,
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    as_json: AsJson = False,
) -> None:
    """Forget the tuples that match all given options: they are not recalled.

    This adds a generation without them, and `ldm memory rollback` brings them back. --purge erases
    them from all generations and from the disk, together with the cache of vectors. It needs as
    much disk space again, and an interruption changes nothing. Runs and exported files stay.

    \b
    Examples:
      ldm memory forget --trajectories 0f3a9c5e77d1b204
      ldm memory forget --sources sessions.jsonl --purge
      ldm memory forget --origin agent --env alfworld
    """
    from ldm.embed.disk import remove as remove_vectors
    from ldm.memory import Selection, generations, hide, inspect
    from ldm.memory.purging import purge as remove

    if not (trajectories or tasks or sources or origin):
        raise LdmError(
            "No tuples are selected to be forgotten.",
            "Give --trajectories, --tasks, --sources or --origin.",
        )
    name = chosen(memory, env)
    contents = inspect(memory, name)
    columns, recalled = contents.rows.columns, contents.recallable()
    known = columns.distinct("trajectory_id").values()
    from_files, named = _sources(listed_names(sources), known)
    ids_given = (*listed_names(trajectories), *from_files)
    selection = Selection(ids_given, listed_ids(tasks), named, origin)
    ids = list(selection.of(columns))
    if purge:
        # The cache first: an interrupted command can be repeated while the tuples are there.
        if remove_vectors(cache_folder() / EMBEDDINGS) and not as_json:
            output.say("The cache of vectors was removed; vectors are recomputed when needed.")
        with output.stages(quiet=as_json) as on_progress:
            remove(memory, name, ids, on_progress)
        newest = generations(memory, name)[-1]
        done = f"{counted(len(ids), 'tuple')} erased: generation {newest.number} recalls "
        done += f"{newest.recallable}."
    elif ids := [one for one in ids if one in recalled]:
        settings = selection.described()
        newest = hide(memory, contents.generation, ids, settings=settings, origin="forgotten")
        done = f"{counted(len(ids), 'tuple')} forgotten: generation {newest.number} recalls "
        done += f"{newest.recallable}. Go back with `ldm memory rollback {newest.number - 1}`."
    else:
        newest = contents.generation
        done = "No recallable tuple matches; nothing was changed."
    if as_json:
        output.print_json({"generation": newest.number, "forgotten": ids})
    else:
        output.say(done, error=False)


def _sources(
    names: Sequence[str], known: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the `known` trajectories in files, and the names that are not files."""
    from ldm import records
    from ldm.types import Trajectory

    files = [name for name in names if Path(name).is_file()]
    ids = [one.id for name in files for one in records.read(Path(name), Trajectory)]
    held = tuple(name for name in ids if name in known)
    if files and not held:
        raise LdmError(
            f"The memory holds none of the {len(ids)} trajectories in {', '.join(files)}.",
            "Name the files that it was built from.",
        )
    return held, tuple(name for name in names if name not in files)


@memory_app.command("fold")
def fold(memory: MemoryAt = DEFAULT_MEMORY, as_json: AsJson = False) -> None:
    """Form pending additions (in Python: `add`, `record`) into the next generation.

    Commands see generations only. A full batch becomes one by itself; the rest waits for more
    additions or for this command.

    \b
    Examples:
      ldm memory fold --memory support-memory
    """
    from ldm.memory import additions
    from ldm.memory.addresses import is_server
    from ldm.memory.directory import check_directory
    from ldm.memory.growing import GrowingMemory

    if is_server(memory):
        raise LdmError(
            f"{memory} is a server, which has no pending additions.",
            "Name a directory with --memory.",
        )
    names = additions.environments(memory)
    if not names:
        check_directory(memory)
    folded = {}
    for env in names:
        growing = GrowingMemory.open(memory, env)
        count, made = growing.pending, growing.fold()
        folded[env] = {"trajectories": count, "generation": made.number if made else None}
    if as_json:
        output.print_json(folded)
        return
    for env, one in folded.items():
        number = counted(one["trajectories"] or 0, "trajectory")
        output.say(f"{env}: {number} → generation {one['generation']}.", error=False)
    if not folded:
        output.say(f"{memory} has no pending additions.", error=False)
