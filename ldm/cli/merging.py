"""`ldm memory merge | diff`: bring memories together, and see how they differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from ldm.cli import output
from ldm.cli.memory import HELD, Env, Held
from ldm.cli.options import AsJson, MemoryAt, Quiet, expanded
from ldm.config import DEFAULT_MEMORY
from ldm.errors import LdmError
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.memory import IndexedTuple

NEWEST = "newest"


def merge(
    places: Annotated[
        list[str],
        typer.Argument(metavar="MEMORY...", help="Directories, server addresses or packs."),
    ],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    as_new: Annotated[
        bool,
        typer.Option("--as-new", help="Add conflicting trajectories under new ids."),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Merge several memories of an environment into a new one (--memory).

    Duplicates are merged, and batches stay as they were formed. Generation k of the result is the
    union of all generations k; what one of them hides stays hidden.

    \b
    Examples:
      ldm memory merge mine theirs.ldmpack --memory both
      ldm memory merge http://localhost:8000 mine --env alfworld --memory both --as-new
    """
    from ldm.memory.merging import merge as write

    with output.stages(quiet=quiet) as on_progress:
        merged = write(places, memory, env, as_new=as_new, on_progress=on_progress)
    newest = merged.generation
    if as_json:
        counts = zip(places, merged.added, merged.shared, strict=True)
        sources = [{"memory": place, "added": n, "shared": m} for place, n, m in counts]
        head = {"generation": newest.number, "tuples": newest.tuples, "digest": newest.digest}
        output.print_json({**head, "sources": sources, "renamed": dict(merged.renamed)})
        return
    for place, added, shared in zip(places, merged.added, merged.shared, strict=True):
        there = f", {counted(shared, 'duplicate')} skipped" if shared else ""
        output.say(f"{place}: {added} tuples{there}", error=False)
    for old, new in merged.renamed:
        output.say(f"The trajectory {old} was renamed to {new}.", error=False)
    output.say(f"{newest.tuples} tuples of {newest.env} → {memory}", error=False)


@expanded
def diff(  # noqa: PLR0913, PLR0917 - one parameter an option
    first: Annotated[str, typer.Argument(metavar="A", help="A generation number, or a memory.")],
    second: Annotated[str, typer.Argument(metavar="B", help="What to compare it with.")],
    held: Held = HELD,
    generation: Annotated[
        str, typer.Option("--generation", help="Generations of the two memories, e.g. 0,newest.")
    ] = f"{NEWEST},{NEWEST}",
    listed: Annotated[bool, typer.Option("--list", help="List the differing tuples.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Maximum number of tuples to show.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """Compare two generations of --memory (numbers), or any two memories.

    A memory is a directory, the address of a server or a pack. For two memories, it counts the
    trajectories and tuples that only one of them recalls, and those that both recall with different
    content (texts, history, outcome, provenance).

    \b
    Examples:
      ldm memory diff 0 1
      ldm memory diff 0 2 --limit 100
      ldm memory diff before.ldmpack .ldm/memory
      ldm memory diff mine http://localhost:8000 --generation 0,newest --list --json
    """
    if first.isdecimal() and second.isdecimal():
        _diff_generations(held, int(first), int(second), limit, as_json=as_json)
        return
    from ldm.memory.comparing import difference_of
    from ldm.memory.sources import Source

    sides = Source(first), Source(second)
    numbers = _generations(generation)
    every = sorted({*sides[0].environments, *sides[1].environments})
    names = [held.env] if held.env else every
    differences = {name: difference_of(name, sides, numbers) for name in names}
    if as_json:
        data = {name: one.as_json(listed=listed) for name, one in differences.items()}
        output.print_json(data)
        return
    table = [(name, *row) for name, one in differences.items() for row in one.counts()]
    columns = ("environment", "kind", "of", "only A", "only B", "changed", "same")
    output.print_table(f"{first} (A) and {second} (B)", columns, table)
    if listed:
        _list_tuples([pair for one in differences.values() for pair in one.signed()], limit)


def _generations(text: str) -> tuple[int | None, ...]:
    """Return the numbers in "0,newest", None for the newest; raise LdmError for anything else."""
    names = text.split(",")
    if len(names) != 2 or not all(name == NEWEST or name.isdecimal() for name in names):
        raise LdmError(
            f"--generation {text} does not name two generations.",
            "Give two numbers, such as --generation 0,1; newest stands for the last.",
        )
    return tuple(None if name == NEWEST else int(name) for name in names)


def _diff_generations(held: Held, first: int, second: int, limit: int, *, as_json: bool) -> None:
    from ldm.memory import inspect
    from ldm.memory.comparing import changes
    from ldm.records import plain

    numbers = sorted((first, second))
    added, gone = changes(*(inspect(held.memory, held.name, number) for number in numbers))
    if as_json:
        entries = (
            {"added": added, "removed": gone}
            if first <= second
            else {"added": gone, "removed": added}
        )
        output.print_json({name: [plain(row) for row in rows] for name, rows in entries.items()})
        return
    signs = ("+", "-") if first <= second else ("-", "+")
    differing = [(signs[0], row) for row in added] + [(signs[1], row) for row in gone]
    counts = Counter((row.batch, row.tuple.origin, sign) for sign, row in differing)
    table = [(b, origin, f"{sign}{n}") for (b, origin, sign), n in sorted(counts.items())]
    output.print_table(f"{first} to {second}", ("batch", "origin", "tuples"), table)
    _list_tuples(differing, limit)


def _list_tuples(differing: list[tuple[str, IndexedTuple]], limit: int) -> None:
    for sign, row in differing[:limit]:
        one = row.tuple
        output.say(f"{sign} {one.goal} | {one.observation} -> {one.action}", error=False)
    if len(differing) > limit:
        output.say(f"… and {len(differing) - limit} more (--limit).", error=False)
