"""Merging memories: what several hold of an environment becomes one memory.

Batches stay as they were formed, so that every type, every refined tuple and its reach stay what
they were, and no reasoner is needed. A batch that two memories have in common comes once, with what
each of them learnt in its cells; one whose name is taken gets the next free number. A tuple that
several hold comes once, from the memory that was named first; types and batches of which nothing
else is left are dropped.

Generation k of the merged memory is what the generations k of all of them hold together, their
newest where they have fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ldm.errors import MemoryStoreError
from ldm.memory import snapshot
from ldm.memory.access import creating
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.comparing import Key, Tuples
from ldm.memory.contents import Contents, Whole
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.rows import Rows
from ldm.memory.sources import Source, common_environment
from ldm.types import stable_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: How many trajectories a refusal names.
NAMED = 5

#: Called with (stage, done, total) as the work goes on.
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did.

    generation: the newest. added, shared: of each source, how many tuples came from it, and how
    many were there already. renamed: old and new ids of trajectories that were taken as new ones.
    """

    generation: Generation
    added: tuple[int, ...]
    shared: tuple[int, ...]
    renamed: tuple[tuple[str, str], ...]


def merge(
    places: Sequence[str],
    location: str,
    env: str = "",
    *,
    as_new: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Merged:
    """Write what several memories hold of an environment to `location`, which must have none of it.

    places: directories, servers and packs. location: a directory or the address of a server.
    env: the environment; "" for the only one.
    as_new: take a trajectory that another memory holds with other content as a further one, under
        an id of its own.

    An interrupted merge left nothing that readers see; it can be repeated.
    Raises MemoryStoreError where a place has no memory, embedders differ, the same trajectory has
    different content, or the location has a memory already.
    """
    sources = [Source(place) for place in places]
    name = common_environment(sources, env)
    wholes = [source.read(name) for source in sources]
    _check_embedders(places, [whole.contents.generation for whole in wholes])
    union = _Union(places[0])
    for place, whole in zip(places, wholes, strict=True):
        union.add(place, whole, as_new=as_new)
    merged = union.collected(wholes)
    contents = merged.contents
    with creating(location, name) as store:
        done = 0
        for written in store.add_memory(contents, merged.generations):
            done += written
            on_progress("store", done, len(contents.rows))
        snapshot.write(location, contents)
    renamed = tuple(pair for part in union.parts for pair in part.renamed.items())
    return Merged(
        contents.generation,
        tuple(len(part.rows) for part in union.parts),
        tuple(part.shared for part in union.parts),
        renamed,
    )


def _check_embedders(places: Sequence[str], newest: Sequence[Generation]) -> None:
    """Raise MemoryStoreError where memories have vectors of different embedders."""
    first = newest[0]
    for place, one in zip(places, newest, strict=True):
        if (one.embedder, one.dimension) != (first.embedder, first.dimension):
            raise MemoryStoreError(
                f"The memory of {one.env} at {place} was built with the embedder {one.embedder!r} "
                f"({one.dimension} dimensions), that at {places[0]} with {first.embedder!r} "
                f"({first.dimension}).",
                "Build one of them again with the embedder of the other: `ldm build-memory DATA "
                "--rebuild --embedder NAME`.",
            )


@dataclass(frozen=True, slots=True)
class _Part:
    """What comes from one memory.

    rows: its tuples that no memory before has, in their new cells, with their rows in `contents`.
    renamed: new ids of trajectories; names: new ids of their tuples.
    """

    contents: Contents
    rows: list[tuple[IndexedTuple, int]]
    shared: int
    renamed: Mapping[str, str]
    names: Mapping[str, str]


@dataclass(slots=True)
class _Union:
    """The tuples and batches of the memories so far. first: the place of the first one."""

    first: str
    parts: list[_Part] = field(default_factory=list)
    batches: dict[str, BatchIndex] = field(default_factory=dict)
    #: Of each tuple the hash of its content and its cell.
    known: dict[Key, tuple[str, tuple[str, int, int]]] = field(default_factory=dict)

    def add(self, place: str, whole: Whole, *, as_new: bool) -> None:
        """Add what a memory holds; raise MemoryStoreError as `merge` does."""
        contents = whole.contents
        tuples = Tuples(contents, all=True)
        hashes = tuples.content_hashes
        changed = [
            k for k, i in tuples.rows.items() if self.known.get(k, (hashes[i],))[0] != hashes[i]
        ]
        renamed: dict[str, str] = {}
        if changed:
            if not as_new:
                raise self._conflict(place, tuples, changed)
            renamed = _renamed(tuples, {key[0] for key in changed})
        new: dict[str, list[tuple[Key, IndexedTuple, int]]] = {}
        shared: dict[str, list[tuple[Key, IndexedTuple]]] = {}
        names = {}
        for key, number in tuples.rows.items():
            row = contents.rows[number]
            if key[0] in renamed:
                old = row.tuple.id
                row = replace(row, tuple=replace(row.tuple, trajectory_id=renamed[key[0]]))
                key, names[old] = (renamed[key[0]], *key[1:]), row.tuple.id
            if key in self.known:
                shared.setdefault(row.batch, []).append((key, row))
            else:
                new.setdefault(row.batch, []).append((key, row, number))
        added = []
        for batch in contents.batches:
            members = new.get(batch.id, [])
            common = shared.get(batch.id, [])
            rows = [row for _, row, _ in members]
            if not (set(batch.trajectories) & set(renamed)) and self._has(batch, common):
                placed = rows
            else:
                placed = self._placed(_with_names(batch, renamed), rows)
            for (key, _, number), row in zip(members, placed, strict=True):
                self.known[key] = hashes[number], row.cell
                added.append((row, number))
        count = sum(map(len, shared.values()))
        self.parts.append(_Part(contents, added, count, renamed, names))

    def _has(self, batch: BatchIndex, shared: Sequence[tuple[Key, IndexedTuple]]) -> bool:
        """Return whether a batch is there already, with the tuples `shared` in the same cells."""
        same_cells = all(self.known[key][1] == row.cell for key, row in shared)
        return self.batches.get(batch.id) == batch and bool(shared) and same_cells

    def _placed(self, batch: BatchIndex, rows: Sequence[IndexedTuple]) -> list[IndexedTuple]:
        """Add a batch with the tuples that are left of it; return these in their new cells."""
        if not rows:
            return []
        reduced, places = batch.reduced(rows)
        name = self._free(reduced.id)
        self.batches[name] = replace(reduced, id=name)
        return [replace(row.moved(places), batch=name) for row in rows]

    def _free(self, name: str) -> str:
        """Return a batch's name, with the next free number where it is taken."""
        stem, _, number = name.rpartition("-")
        if not (stem and number.isdecimal()):
            stem, number = name, "1"
        free, count = name, int(number)
        while free in self.batches:
            count += 1
            free = f"{stem}-{count}"
        return free

    def _conflict(self, place: str, tuples: Tuples, changed: Sequence[Key]) -> MemoryStoreError:
        names = sorted({key[0] for key in changed})
        listed = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
        key = min(changed)
        mine = tuples.row(key).tuple
        other = next(
            row.tuple
            for part in self.parts
            for row, _ in part.rows
            if (row.tuple.trajectory_id, row.tuple.step) == key[:2]
        )
        fields = [
            name
            for name in ("goal", "history", "observation", "action", "outcome", "kind", "origin")
            if getattr(mine, name) != getattr(other, name)
        ]
        return MemoryStoreError(
            f"{place} holds {len(names)} trajectories with other content than a memory before it, "
            f"from {self.first} on: {listed}; step {key[1]} of {key[0]} (task {mine.task_id}) "
            f"differs in {', '.join(fields) or 'its task'}.",
            "Forget them in one of the memories (`ldm memory forget --trajectory ID`, --purge), or "
            "take them as further trajectories with --as-new.",
        )

    def collected(self, wholes: Sequence[Whole]) -> Whole:
        """Return the merged memory."""
        newest = wholes[0].contents.generation
        builder = ColumnsBuilder(newest.env, newest.dimension)
        for part in self.parts:
            builder.add_rows((row for row, _ in part.rows), _vectors_of(part))
        columns, vectors = builder.collected()
        batches = tuple(self.batches[name] for name in sorted(self.batches))
        contents = Contents(newest, batches, Rows(columns), vectors)
        last = max(whole.generations[-1].number for whole in wholes)
        generations = tuple(self._generation(contents, wholes, n) for n in range(last + 1))
        return Whole(contents.at(generations[-1]), generations)

    def _generation(self, contents: Contents, wholes: Sequence[Whole], number: int) -> Generation:
        """Return the record of generation `number`. contents: of the newest."""
        parts = [[one for one in whole.generations if one.number <= number][-1] for whole in wholes]
        base = replace(parts[0], number=number, origin="merged")
        at = contents.at(base)
        columns = at.rows.columns
        present = columns.ids
        hidden: set[str] = set()
        worth: dict[str, list[float]] = {}
        for one, part in zip(parts, self.parts, strict=True):
            hidden |= {part.names.get(name, name) for name in one.hidden}
            for name, utility in one.utilities.items():
                worth.setdefault(part.names.get(name, name), []).append(utility)
        tasks = {task for one in parts if one.number == number for task in one.tasks}
        generation = replace(
            base,
            digest="",
            kinds_by_count=False,
            env_class=next((one.env_class for one in parts if one.env_class), ""),
            tuples=len(columns),
            settings={"merged": " ".join(f"{one.origin} {one.digest[:8]}" for one in parts)},
            tasks=tuple(sorted(tasks)),
            hidden=tuple(sorted(name for name in hidden if name in present)),
            utilities={
                name: sum(values) / len(values)
                for name, values in sorted(worth.items())
                if name in present
            },
        )
        if not generation.recallable:
            raise MemoryStoreError(
                f"Generation {number} would be left without any tuple: each is hidden in one of "
                "the memories.",
                "Roll one of them back with `ldm memory rollback`.",
            )
        return replace(generation, digest=columns.digest(generation, at.batches))


def _vectors_of(part: _Part) -> Iterator[NDArray[np.float32]]:
    return (part.contents.vectors[number] for _, number in part.rows)


def _with_names(batch: BatchIndex, renamed: Mapping[str, str]) -> BatchIndex:
    return replace(
        batch, trajectories=tuple(renamed.get(name, name) for name in batch.trajectories)
    )


def _renamed(tuples: Tuples, trajectories: set[str]) -> dict[str, str]:
    """Return new ids of trajectories, by their content."""
    contents: dict[str, list[str]] = {name: [] for name in trajectories}
    for key, number in tuples.rows.items():
        if key[0] in contents:
            contents[key[0]].append(tuples.content_hashes[number])
    return {name: stable_hash(name, sorted(hashes)) for name, hashes in contents.items()}
