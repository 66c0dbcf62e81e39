"""The generations of a memory: list them, add tuples or hide some, go back to an earlier one.

Generation 0 is the formed memory. Each later one adds trajectories (`ldm.memory.build`) or the
tuples of a refinement (LDM² §3.3, Memory Enhancement), or hides tuples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ldm.embed import Embedder
from ldm.errors import MemoryStoreError
from ldm.memory import places, record
from ldm.memory.contents import Contents
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.known_vectors import KnownVectors, OnProgress


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
    """Add `rows` to the memory as the generation after `base`, the newest one.

    This is LDM²'s Memory Enhancement (§3.3). Tuples that the memory already holds are skipped, and
    a call repeated after an interruption adds nothing twice.

    location: a directory or the http(s) address of a Chroma server.
    base: the newest generation; its `env_class` may be set even if the stored one's is not.
    rows: tuples of generation `base.number + 1` in cells of existing batches (`Memory.place`) or of
        `batches`.
    embedder: the one that the memory was built with.
    tasks: ids of the explored tasks, successful or not.
    settings: how the tuples were made, for `Generation.settings`.
    batches: new batch memories, whose tuples are all among `rows`.
    on_progress: called with (stage, done, total) as texts are embedded.

    Returns the new generation.
    Raises MemoryStoreError if the memory has changed since `base` or has another embedder.
    """
    base.check_embedder(embedder.name)
    with places.writing(location):
        env_class, present = base.env_class, places.generations(location, base.env)
        base = next((one for one in present if replace(one, env_class=env_class) == base), base)
        before = _contents_of(location, base)
        known = before.rows.columns.ids
        new = tuple({row.tuple.id: row for row in rows if row.tuple.id not in known}.values())
        vectors = KnownVectors(embedder).embed_rows(new, on_progress)
        generation = replace(
            base,
            origin="refined",
            settings=dict(settings),
            tasks=tuple(sorted(tasks)),
            env_class=env_class,
        )
        return _commit(location, before.extended(new, vectors, batches), generation, base)


def hide(
    location: str,
    base: Generation,
    tuples: Collection[str],
    *,
    settings: Mapping[str, str],
    origin: str = "pruned",
    everything: bool = False,
) -> Generation:
    """Add a generation that does not recall some tuples after `base`, the newest one.

    Nothing is removed: earlier generations recall the tuples, and `rollback` brings them back.
    Later generations inherit what is hidden. A call repeated after an interruption changes nothing.

    location: a directory or the http(s) address of a Chroma server.
    tuples: ids of tuples of the memory.
    settings: how they were chosen, for `Generation.settings`. origin: the generation's.
    everything: whether it may recall none.

    Returns the new generation.
    Raises MemoryStoreError if the memory has changed since `base`, lacks one of the tuples, or
    would be left without any.
    """
    hidden = tuple(sorted({*base.hidden, *tuples}))
    changed = replace(base, origin=origin, settings=dict(settings), tasks=(), hidden=hidden)
    with places.writing(location):
        contents = _contents_of(location, base)
        known = contents.rows.columns.ids
        if not all(name in known for name in hidden):
            raise MemoryStoreError(
                f"The memory of {base.env} at {location} does not hold all of the named tuples.",
                "Name tuples that it holds.",
            )
        if not changed.recallable and not everything:
            raise MemoryStoreError(
                f"The memory of {base.env} at {location} would be left without any tuple.",
                "Keep some.",
            )
        return _commit(location, contents, changed, base)


def show(location: str, env: str, tuples: Collection[str]) -> Generation:
    """Add a generation that recalls hidden tuples again.

    Returns the newest generation. Raises MemoryStoreError if there is none.
    """
    with places.writing(location):
        contents = places.load(location, env)
        base = contents.generation
        hidden = tuple(name for name in base.hidden if name not in tuples)
        changed = replace(base, origin="added", settings={}, tasks=(), hidden=hidden)
        return _commit(location, contents, changed, base)


def _contents_of(location: str, base: Generation) -> Contents:
    """Return the contents of `base`; raise MemoryStoreError if it was replaced."""
    if base not in places.generations(location, base.env):
        raise _changed(location, base)
    return places.load(location, base.env, base.number)


def _commit(location: str, contents: Contents, stated: Generation, base: Generation) -> Generation:
    """Write a generation that is `stated` but for its number after `base`, unless it is there."""
    made = contents.made(replace(stated, number=base.number + 1))
    present = places.generations(location, base.env)
    if made.generation not in present:
        if present[-1] != base:
            raise _changed(location, base)
        places.commit(location, made, present)
    return made.generation


def _changed(location: str, base: Generation) -> MemoryStoreError:
    newest = [one.number for one in places.generations(location, base.env)][-1:]
    return MemoryStoreError(
        f"The memory of {base.env} at {location} has changed: its newest generation is "
        f"{newest[0] if newest else 'gone'}, not {base.number}.",
        f"Use the newest, or go back with `ldm memory rollback {base.number}`.",
    )


def rollback(location: str, env: str, number: int) -> tuple[Generation, ...]:
    """Make generation `number` the newest one; readers do not see later ones.

    The same call with a higher number brings these back, until something else is written to the
    memory.

    location: a directory.

    Returns the generations that were there before, oldest first.
    Raises MemoryStoreError if there is no memory or no such generation, or it is damaged.
    """
    places.refuse_server(location, "keeps only the newest generation of a tuple")
    with record.writing(location):
        folder = record.folder_of(location, env)
        known = record.read(folder)
        if known is None:
            raise record.missing(location, env)
        listed, whole = known
        chosen = record.chosen_of(listed.generations, env, number)
        record.show(folder, number)
        places.publish(location, whole.at(chosen))
        return listed.visible
