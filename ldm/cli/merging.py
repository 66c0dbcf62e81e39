"""`ldm memory merge | diff`: bring memories together, and see how they differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldm.cli import output
from ldm.cli.memory import Env
from ldm.cli.options import AsJson, MemoryAt
from ldm.errors import LdmError
from ldm.experiments.lifecycle import plain
from ldm.experiments.refinement import only_environment
from ldm.experiments.specs import DEFAULT_MEMORY

if TYPE_CHECKING:
    from ldm.memory import IndexedTuple
    from ldm.memory.comparing import Difference
    from ldm.memory.sources import Source

NEWEST = "newest"


def merge(
    places: Annotated[
        list[str],
        typer.Argument(metavar="MEMORY...", help="Directories, addresses of servers, packs."),
    ],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    as_new: Annotated[
        bool,
        typer.Option("--as-new", help="Take trajectories with other content as further ones."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Merge what several memories hold of an environment into a new one (--memory).

    What several hold comes once, and batches stay as they were formed. Generation k is what the
    generations k of all of them hold together; what one of them hides stays hidden.

    \b
    Examples:
      ldm memory merge mine theirs.ldmpack --memory both
      ldm memory merge http://localhost:8000 mine --env alfworld --memory both --as-new
    """
    from ldm.memory.merging import merge as write

    with output.stages() as on_progress:
        merged = write(places, memory, env, as_new=as_new, on_progress=on_progress)
    newest = merged.generation
    if as_json:
        counts = zip(places, merged.added, merged.shared, strict=True)
        sources = [{"memory": place, "added": n, "shared": m} for place, n, m in counts]
        head = {"generation": newest.number, "tuples": newest.tuples, "digest": newest.digest}
        output.print_json({**head, "sources": sources, "renamed": dict(merged.renamed)})
        return
    for place, added, shared in zip(places, merged.added, merged.shared, strict=True):
        there = f", {shared} were there already" if shared else ""
        output.say(f"{place}: {added} tuples{there}", error=False)
    for old, new in merged.renamed:
        output.say(f"The trajectory {old} came in as {new}.", error=False)
    output.say(f"{newest.tuples} tuples of {newest.env} → {memory}", error=False)


def diff(  # noqa: PLR0913, PLR0917 - one parameter an option
    first: Annotated[str, typer.Argument(metavar="A", help="A generation, or a memory.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Env = "",
    generation: Annotated[
        str, typer.Option("--generation", help="Of two memories, such as 0,newest.")
    ] = f"{NEWEST},{NEWEST}",
    listed: Annotated[bool, typer.Option("--list", help="List the tuples of memories.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Tuples to show at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show how two generations of --memory differ (numbers), or two memories anywhere.

    A memory is a directory, the address of a server or a pack. Of two memories the trajectories and
    tuples are counted that only one of them recalls, and those that both recall with other content
    (texts, history, outcome, provenance).

    \b
    Examples:
      ldm memory diff 0 1
      ldm memory diff 0 2 --limit 100
      ldm memory diff before.ldmpack .ldm/memory
      ldm memory diff mine http://localhost:8000 --generation 0,newest --list --json
    """
    if first.isdecimal() and second.isdecimal():
        name = env or only_environment(memory)
        _diff_generations(memory, name, int(first), int(second), limit, as_json=as_json)
        return
    from ldm.memory.sources import Source

    sides = Source(first), Source(second)
    numbers = _generations(generation)
    names = [env] if env else sorted({*sides[0].environments, *sides[1].environments})
    differences = {name: _difference(name, sides, numbers) for name in names}
    if as_json:
        output.print_json({n: _as_data(one, listed=listed) for n, one in differences.items()})
        return
    table = [row for name, one in differences.items() for row in _counted(name, one)]
    columns = ("environment", "kind", "of", "only A", "only B", "changed", "same")
    output.print_table(f"{first} (A) and {second} (B)", columns, table)
    if listed:
        signs = [pair for one in differences.values() for pair in _signed(one)]
        _list_tuples(signs, limit)


def _generations(text: str) -> tuple[int | None, ...]:
    """Return the numbers in "0,newest", None for the newest; raise LdmError for anything else."""
    names = text.split(",")
    if len(names) != 2 or not all(name == NEWEST or name.isdecimal() for name in names):
        raise LdmError(
            f"--generation {text} does not name two generations.",
            "Give two numbers, such as --generation 0,1; newest stands for the last.",
        )
    return tuple(None if name == NEWEST else int(name) for name in names)


def _difference(
    env: str, sides: tuple[Source, Source], numbers: tuple[int | None, ...]
) -> Difference:
    from ldm.memory.comparing import difference

    if not any(env in side.environments for side in sides):
        places = " nor ".join(side.place for side in sides)
        raise LdmError(
            f"Neither {places} holds a memory of {env}.", "`ldm memory show` lists them."
        )
    contents = [
        side.read(env, number).contents if env in side.environments else None
        for side, number in zip(sides, numbers, strict=True)
    ]
    return difference(contents[0], contents[1])


def _counted(env: str, one: Difference) -> list[tuple[str, ...]]:
    return [
        (env, kind or "mixed", noun, *(str(number) for number in asdict(counts).values()))
        for kind in one.tuples
        for noun, counts in (("trajectories", one.trajectories[kind]), ("tuples", one.tuples[kind]))
    ]


def _signed(one: Difference) -> list[tuple[str, IndexedTuple]]:
    changed = [("~", later) for _, later in one.changed]
    return [
        *(("-", row) for row in one.only_first),
        *(("+", row) for row in one.only_second),
        *changed,
    ]


def _as_data(one: Difference, *, listed: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        side: None if record is None else {"generation": record.number, "digest": record.digest}
        for side, record in (("first", one.first), ("second", one.second))
    }
    for noun, counts in (("trajectories", one.trajectories), ("tuples", one.tuples)):
        data[noun] = {kind: asdict(of_kind) for kind, of_kind in counts.items()}
    if listed:
        data["only_first"] = [plain(row) for row in one.only_first]
        data["only_second"] = [plain(row) for row in one.only_second]
        data["changed"] = [[plain(row) for row in pair] for pair in one.changed]
    return data


def _diff_generations(
    memory: str, env: str, first: int, second: int, limit: int, *, as_json: bool
) -> None:
    from ldm.memory import inspect

    low, high = sorted((first, second))
    earlier, later = (inspect(memory, env, number) for number in (low, high))
    before, after = earlier.recallable(), later.recallable()
    added = later.rows.with_ids(after - before)
    gone = earlier.rows.with_ids(before - after)
    if as_json:
        output.print_json([plain(row) for row in (*added, *gone)])
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
