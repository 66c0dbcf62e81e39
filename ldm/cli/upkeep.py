"""`ldm memory verify | compact | migrate | forget`: keep a memory sound, small and lawful."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ldm.cli import output
from ldm.cli.environment import EMBEDDINGS, cache_folder
from ldm.cli.memory import HELD, Held
from ldm.cli.options import AsJson, EmbedderName, MemoryAt, Quiet, expanded
from ldm.config import DEFAULT_MEMORY
from ldm.errors import LdmError
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.memory import Selection
    from ldm.memory.columns import Columns
    from ldm.memory.rewriting import Rewritten


@expanded
def verify(
    held: Held = HELD,
    texts: Annotated[
        int, typer.Option("--texts", min=0, help="Texts to re-embed and compare; 0: none.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", help="Random seed for choosing the texts.")] = 0,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Check a memory: counts, hashes, vectors, cells, and the snapshot against Chroma.

    The exit status is 1 if anything is wrong.

    \b
    Examples:
      ldm memory verify
      ldm memory verify --texts 0 --json
    """
    from ldm.embed import load_embedder
    from ldm.memory import environments
    from ldm.memory.verifying import verify as problems_of

    loaded = load_embedder(embedder) if texts else None
    names = [held.env] if held.env else environments(held.memory)
    problems = {name: problems_of(held.memory, name, loaded, texts, seed) for name in names}
    failed = any(problems.values())
    if as_json:
        output.print_json({"ok": not failed, "problems": problems})
    else:
        for name, listed in problems.items():
            output.say_all(f"{name}: {problem}" for problem in listed or ("sound",))
    if failed:
        output.say(
            "`ldm memory compact` removes leftovers and rewrites damaged snapshots; for anything "
            "else rebuild the memory with `ldm build-memory DATA --rebuild`."
        )
        raise typer.Exit(1)


def compact(
    memory: MemoryAt = DEFAULT_MEMORY,
    vectors: Annotated[
        Literal["float32", "float16"] | None,
        typer.Option("--vectors", help="Precision of vectors for reading; default: unchanged."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rewrite a memory's directory without the leftovers of deletions.

    Until it is done, it needs as much disk space again; if it is interrupted, nothing has changed.
    With --vectors float16, readers map rounded vectors of half the size; the database and packs
    keep the exact ones.

    \b
    Examples:
      ldm memory compact
      ldm memory compact --vectors float16
      ldm memory compact --memory .ldm/memory --json
    """
    from ldm.memory.rewriting import compact as rewrite

    with output.stages(quiet=quiet) as on_progress:
        done = rewrite(memory, on_progress, vectors)
    _report(done, as_json=as_json)


def migrate(
    memory: MemoryAt = DEFAULT_MEMORY, quiet: Quiet = False, as_json: AsJson = False
) -> None:
    """Convert a memory of version 0.2 or earlier to the compact format; recalls stay the same.

    One of version 0.1 gets a digest that covers every field: runs that recorded the old one can
    then be neither resumed with it nor credited.

    Until it is done, it needs as much disk space again; if it is interrupted, nothing has changed.

    \b
    Examples:
      ldm memory migrate
    """
    from ldm.memory.rewriting import compact as rewrite
    from ldm.memory.rewriting import is_outdated

    if not is_outdated(memory):
        if as_json:
            output.print_json({"migrated": False})
        else:
            output.say(f"{memory} is compact already.", error=False)
        return
    with output.stages(quiet=quiet) as on_progress:
        done = rewrite(memory, on_progress)
    _report(done, as_json=as_json)


@dataclass(frozen=True)
class Forgotten:
    """Which tuples are to be forgotten: those that fit all of what is given."""

    trajectory: Annotated[list[str] | None, typer.Option(help="Trajectory id; repeatable.")] = None
    task: Annotated[list[str] | None, typer.Option(help="Task id; repeatable.")] = None
    source: Annotated[
        list[str] | None,
        typer.Option(help="A file of trajectories, or a source (game, product)."),
    ] = None
    origin: Annotated[str, typer.Option(help="Origin: human, expert, agent or explored.")] = ""
    before: Annotated[int | None, typer.Option(help="Tuples added before this generation.")] = None

    def selection(self, columns: Columns) -> Selection:
        """Return what is selected from a memory; raise LdmError where nothing is given."""
        from ldm.memory import Selection

        if self == Forgotten():
            raise LdmError(
                "No tuples are selected to be forgotten.",
                "Give --trajectory, --task, --source, --origin or --before.",
            )
        known = columns.distinct("trajectory_id").values()
        from_files, named = _sources(self.source or (), known)
        trajectories = (*(self.trajectory or ()), *from_files)
        return Selection(trajectories, tuple(self.task or ()), named, self.origin, self.before)


@expanded
def forget(
    forgotten: Forgotten,
    purge: Annotated[
        bool, typer.Option("--purge", help="Erase them from the disk and all generations.")
    ] = False,
    held: Held = HELD,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Forget tuples: those that match all given options are no longer recalled.

    This adds a generation without them, and `ldm memory rollback` brings them back. With --purge
    they are removed from all generations and from the disk for good, and so is the cache of vectors
    of all texts; records of runs (runs/) and exported files are yours to remove.

    \b
    Examples:
      ldm memory forget --trajectory 0f3a9c5e77d1b204
      ldm memory forget --source sessions.jsonl --purge
      ldm memory forget --origin agent --before 2
    """
    from ldm.embed.disk import remove as remove_vectors
    from ldm.memory import hide, inspect
    from ldm.memory.rewriting import purge as remove

    memory, name = held.memory, held.name
    contents = inspect(memory, name)
    columns, recalled = contents.rows.columns, contents.recallable()
    selection = forgotten.selection(columns)
    ids = selection.of(columns)
    if purge:
        # First: what is killed in between can be repeated as long as the tuples are there.
        if remove_vectors(cache_folder() / EMBEDDINGS) and not as_json:
            output.say("The cache of vectors was removed; vectors are recomputed when needed.")
        with output.stages(quiet=quiet) as on_progress:
            done = remove(memory, name, ids, on_progress)
        if not as_json:
            output.say(f"{counted(len(ids), 'tuple')} removed for good.", error=False)
        _report(done, as_json=as_json)
        return
    newest = contents.generation
    new = [one for one in ids if one in recalled]
    if new:
        settings = selection.described()
        newest = hide(memory, newest, new, settings=settings, origin="forgotten")
    if as_json:
        output.print_json({"generation": newest.number, "forgotten": new})
    elif not new:
        output.say("No recallable tuple matches; nothing was changed.", error=False)
    else:
        number = newest.number
        output.say(
            f"{counted(len(new), 'tuple')} forgotten: generation {number} recalls "
            f"{newest.recallable}. Go back with `ldm memory rollback {number - 1}`.",
            error=False,
        )


def _sources(
    names: Sequence[str], known: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the `known` trajectories in files, and the names that are no files."""
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


def _report(done: Rewritten, *, as_json: bool) -> None:
    if as_json:
        sizes = {"bytes_before": done.before, "bytes_after": done.after}
        output.print_json({**sizes, "tuples": dict(done.tuples), "new_digest": done.raised})
        return
    held = ", ".join(f"{count} tuples of {env}" for env, count in done.tuples.items())
    before, after = (f"{size / 1e6:.1f} MB" for size in (done.before, done.after))
    output.say(f"{held}: {before} before, {after} now.", error=False)
    if done.raised:
        output.say(
            "The memory has a new digest, which covers every field of its tuples. Runs that "
            "recorded the old one stay readable, but cannot be resumed with it, nor credited.",
            error=False,
        )
