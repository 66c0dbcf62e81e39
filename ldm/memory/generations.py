"""The generations of a memory: list them, add what refinement learnt, go back to an earlier one.

Generation 0 is the formed memory; each later one adds trajectories (`ldm.memory.build`) or the
tuples of a refinement (LDM² §3.3, Memory Enhancement), or hides tuples that did harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ldm.embed import Embedder
from ldm.errors import MemoryStoreError
from ldm.memory import snapshot
from ldm.memory.access import writing
from ldm.memory.building import OnProgress, StagedEmbedder
from ldm.memory.columns import Columns
from ldm.memory.contents import Contents, empty
from ldm.memory.directory import unknown_environment
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.opening import known_generations
from ldm.memory.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray


def generations(location: str, env: str) -> tuple[Generation, ...]:
    """List the generations of an environment's memory, oldest first.

    location: a directory or the http(s) address of a Chroma server.

    Returns an empty tuple where `location` is a memory, but has none of `env`.
    Raises MemoryStoreError where there is no memory at `location`.
    """
    return known_generations(location).get(env, ())


def extend(  # noqa: PLR0913 - one parameter a decision of the caller
    location: str,
    base: Generation,
    rows: Sequence[IndexedTuple],
    embedder: Embedder,
    *,
    tasks: Iterable[str],
    settings: Mapping[str, str],
    batches: Sequence[BatchIndex] = (),
    on_progress: OnProgress = lambda *_: None,
) -> Generation:
    """Add `rows` to the memory as the generation after `base`, which must be the newest one.

    This is LDM²'s Memory Enhancement (§3.3). Tuples that the memory holds already are left out.
    Readers see the new generation once it is complete; a call repeated after an interruption adds
    nothing twice.

    location: a directory or the http(s) address of a Chroma server.
    base: the newest generation; it may name the environment's class where the store does not yet.
    rows: tuples of generation `base.number + 1` in cells of batches that exist (`Memory.place`), or
        of `batches`.
    embedder: the one that the memory was built with.
    tasks: ids of the tasks that were explored, whether or not they yielded a tuple.
    settings: how the tuples came about, for `Generation.settings`.
    batches: new batch memories, whose tuples are all among `rows`.
    on_progress: called with (stage, done, total) as texts are embedded.

    Returns the new generation.
    Raises MemoryStoreError where the memory has changed since `base` or has another embedder.
    """
    env, number = base.env, base.number + 1
    base.check_embedder(embedder.name)
    with writing(location) as store:
        present = store.generations(env)
        env_class = base.env_class
        base = next((one for one in present if replace(one, env_class=env_class) == base), base)
        before = _before(store, base, present)
        known = before.rows.columns.ids
        new = tuple({row.tuple.id: row for row in rows if row.tuple.id not in known}.values())
        if number not in {one.number for one in present}:
            _check_newest(location, base, present, "explored", "explore again")
        vectors = _embedded(new, embedder, on_progress)
        contents = before.extended(new, vectors, batches)
        changes = {"settings": dict(settings), "tasks": tuple(sorted(tasks))}
        generation = _refined(base, contents, env_class=env_class, **changes)
        if generation in present:
            return generation
        _check_newest(location, base, present, "explored", "explore again")
        store.drop_after(env, base.number)  # what an interrupted call left behind
        store.add_tuples(new, vectors, embedder.name)
        for batch in batches:
            store.add_batch(env, batch)
        store.commit(generation)
        snapshot.write(location, replace(contents, generation=generation, kinds=None))
        return generation


def _refined(base: Generation, contents: Contents, **changes: Any) -> Generation:
    """Return the record of the generation after `base` that holds `contents`."""
    columns = contents.rows.columns
    numbered = replace(base, number=base.number + 1, origin="refined", tuples=len(columns))
    generation = replace(numbered, **changes)
    return replace(generation, digest=columns.digest(generation, contents.batches))


def hide(
    location: str,
    base: Generation,
    tuples: Collection[str],
    *,
    settings: Mapping[str, str],
    origin: str = "pruned",
) -> Generation:
    """Add a generation that no longer recalls some tuples; `base` must be the newest one.

    Nothing is removed from the store: earlier generations recall the tuples as before, and
    `rollback` brings them back. Later generations inherit what is hidden. A call repeated after an
    interruption changes nothing.

    location: a directory or the http(s) address of a Chroma server.
    tuples: ids of tuples of the memory.
    settings: how they were chosen, for `Generation.settings`. origin: the generation's.

    Returns the new generation.
    Raises MemoryStoreError where the memory has changed since `base`, lacks one of the tuples, or
    would be left without any.
    """
    hidden = tuple(sorted({*base.hidden, *tuples}))
    changed = replace(base, origin=origin, settings=dict(settings), tasks=(), hidden=hidden)
    return _over_the_same_tuples(location, base, changed)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tuples are to be forgotten: those that fit all of what is given.

    trajectories, tasks: ids. sources: what `Task.leak_key` names, such as a game or a product.
    origin: that of the tuples ("human", "agent", …). before: a generation; tuples of earlier ones.
    """

    trajectories: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    origin: str = ""
    before: int | None = None

    def of(self, columns: Columns) -> tuple[str, ...]:
        """Return the ids of the tuples; raise MemoryStoreError where a named one is unknown."""
        chosen = np.ones(len(columns), np.bool_)
        named = (
            ("trajectory_id", "trajectory", self.trajectories),
            ("task_id", "task", self.tasks),
            ("source", "source", self.sources),
            ("origin", "origin", (self.origin,) if self.origin else ()),
        )
        for column, noun, names in named:
            if not names:
                continue
            numbers = {text: number for number, text in columns.distinct(column).items()}
            if unknown := [name for name in names if name not in numbers]:
                raise MemoryStoreError(
                    f"The memory of {columns.env} holds no tuple of the {noun} {unknown[0]!r}.",
                    "`ldm memory search --json` shows them with each tuple.",
                )
            chosen &= np.isin(columns[column], [numbers[name] for name in names])
        if self.before is not None:
            chosen &= columns["generation"] < self.before
        return tuple(sorted(columns.take(chosen).ids))

    def described(self) -> dict[str, str]:
        """Return what is given, for `Generation.settings`."""
        given = {
            "trajectories": " ".join(self.trajectories),
            "tasks": " ".join(self.tasks),
            "sources": " ".join(self.sources),
            "origin": self.origin,
            "before": "" if self.before is None else str(self.before),
        }
        return {name: text for name, text in given.items() if text}


def value(
    location: str, base: Generation, utilities: Mapping[str, float], *, settings: Mapping[str, str]
) -> Generation:
    """Add a generation that knows what its tuples are worth; `base` must be the newest one.

    Later generations inherit the utilities, and `rollback` forgets them. A call repeated after an
    interruption changes nothing.

    location, settings: as for `hide`.
    utilities: see `Generation.utilities`; they replace those of `base`.

    Returns the new generation.
    Raises MemoryStoreError where the memory has changed since `base`, or lacks one of the tuples.
    """
    changed = replace(
        base,
        origin="credited",
        settings=dict(settings),
        tasks=(),
        utilities=dict(sorted(utilities.items())),
    )
    return _over_the_same_tuples(location, base, changed)


def _over_the_same_tuples(location: str, base: Generation, changed: Generation) -> Generation:
    """Add the generation after `base` with the same tuples, otherwise as `changed` is."""
    with writing(location) as store:
        present = store.generations(base.env)
        if base not in present:
            _check_newest(location, base, present, changed.origin, "evaluate again")
        contents = _before(store, base, present)
        known = contents.rows.columns.ids
        if not all(name in known for name in (*changed.hidden, *changed.utilities)):
            raise MemoryStoreError(
                f"The memory of {base.env} at {location} does not hold all of the named tuples.",
                "Name tuples that it holds.",
            )
        if not changed.recallable:
            raise MemoryStoreError(
                f"The memory of {base.env} at {location} would be left without any tuple.",
                "Keep some.",
            )
        digest = contents.rows.columns.digest(changed, contents.batches)
        generation = replace(changed, number=base.number + 1, digest=digest)
        if generation in present:
            return generation
        _check_newest(location, base, present, changed.origin, "evaluate again")
        store.drop_after(base.env, base.number)  # what an interrupted call left behind
        store.commit(generation)
        snapshot.write(location, replace(contents, generation=generation, kinds=None))
        return generation


def _check_newest(
    location: str, base: Generation, present: Sequence[Generation], done: str, remedy: str
) -> None:
    """Raise MemoryStoreError where `base` is no longer the newest of the `present` generations."""
    if not present or present[-1] != base:
        newest = present[-1].number if present else "none"
        raise MemoryStoreError(
            f"The memory of {base.env} at {location} has changed: generation {base.number} was "
            f"{done}, and the newest is {newest} now.",
            f"Go back with `ldm memory rollback {base.number}`, or {remedy}.",
        )


def _before(store: Store, base: Generation, present: Sequence[Generation]) -> Contents:
    """Return what the memory holds up to `base`; nothing where it is not present."""
    if base not in present:
        return empty(base)
    mapped = snapshot.read(store.location, present, base.number)
    return mapped or store.load(base.env, base.number)


def _embedded(
    rows: Sequence[IndexedTuple], embedder: Embedder, on_progress: OnProgress
) -> NDArray[np.float32]:
    """Return the vectors of rows, (n, 2 · dimension)."""
    staged = StagedEmbedder(embedder, None)
    texts = {text for row in rows for text in (row.tuple.goal, row.tuple.observation)}
    staged.prepare(sorted(texts), on_progress)
    return staged.embed_rows(rows)


def rollback(location: str, env: str, number: int) -> tuple[Generation, ...]:
    """Make generation `number` the newest again; readers no longer see the later ones.

    `undo_rollback` brings them back until something else is written to the memory, which removes
    them for good.

    location: a directory or the http(s) address of a Chroma server.

    Returns the generations that are gone, oldest first.
    Raises MemoryStoreError where there is no memory or no such generation.
    """
    with writing(location) as store:
        present = store.generations(env)
        if number not in {generation.number for generation in present}:
            raise MemoryStoreError(
                f"The memory of {env} at {location} has no generation {number}.",
                f"It has {', '.join(str(g.number) for g in present) or 'none'}.",
            )
        base = next(g for g in present if g.number == number)
        contents = _before(store, base, present)
        store.withdraw_after(env, number)
        snapshot.write(location, contents)
        return tuple(g for g in present if g.number > number)


def undo_rollback(location: str, env: str) -> tuple[Generation, ...]:
    """Bring back the generations that rollbacks took away since the memory was last written.

    location: a directory or the http(s) address of a Chroma server.

    Returns them, oldest first; nothing where there are none.
    Raises MemoryStoreError where there is no memory of `env`, or what was taken away is damaged.
    """
    with writing(location) as store:
        present = store.generations(env)
        if not present:
            raise unknown_environment(location, env, store.environments())
        restored = store.restore(env)
        if restored:
            try:
                contents = store.load(env)
            except MemoryStoreError:
                store.withdraw_after(env, present[-1].number)
                raise
            snapshot.write(location, contents)
        return restored
