"""Where a memory is published to Chroma, and a server as the place of a memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ldm.memory import record
from ldm.memory.contents import Contents
from ldm.memory.index import Generation
from ldm.memory.known_vectors import OnProgress
from ldm.memory.rows import Rows


def beside(location: str) -> str:
    """Return the Chroma directory within a memory's directory."""
    return str(Path(location) / record.CHROMA)


def publish(
    contents: Contents,
    target: str,
    present: Sequence[Generation],
    on_progress: OnProgress = lambda *_: None,
    location: str = "",
) -> None:
    """Make a Chroma directory or server show a generation of a memory.

    present: all its generations. location: the memory's directory, whose other environments are
        published again where the target has to be made anew.
    """
    from ldm.memory import chroma_tuples

    def others() -> Iterator[Contents]:
        for env in record.environments(location) if location else ():
            if env != contents.generation.env and record.generations(location, env):
                yield record.load(location, env)

    chroma_tuples.publish(contents, target, on_progress, generations=present, others=others)


def publish_beside(
    location: str,
    contents: Contents,
    present: Sequence[Generation],
    on_progress: OnProgress = lambda *_: None,
) -> None:
    """Publish to the Chroma directory within a memory, which is derived from the record."""
    publish(contents, beside(location), present, on_progress, location)


def differences(location: str, contents: Contents) -> list[str]:
    """Return how the Chroma directory within a memory differs from it, in words."""
    from ldm.memory import chroma_tuples

    return chroma_tuples.differences(contents, beside(location))


def remove(location: str) -> None:
    """Remove the Chroma directory within a memory; nothing behind a link."""
    place = Path(beside(location))
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.exists():
        shutil.rmtree(place)


def generations(address: str) -> Mapping[str, tuple[Generation, ...]]:
    """Return the generations on a server by environment."""
    from ldm.memory import chroma_tuples

    return chroma_tuples.generations_at(address)


def read_all(address: str, env: str, generation: int | None = None) -> Contents:
    """Return everything of an environment on a server."""
    from ldm.memory import chroma_tuples

    return chroma_tuples.read_all(address, env, generation)


def grow(address: str, contents: Contents, before: Sequence[Generation]) -> None:
    """Add a generation to a memory on a server. contents: all of it. before: the earlier ones."""
    from ldm.memory import chroma_tuples

    columns = contents.rows.columns
    new = columns.take(columns["generation"] == contents.generation.number)
    vectors = type(contents.vectors).of(contents.vectors.distinct, new)
    additions = replace(contents, rows=Rows(new), vectors=vectors, kinds=contents.trained())
    chroma_tuples.grow(address, additions, before[-1] if before else None)


def drop(address: str, env: str) -> None:
    """Remove everything of an environment from a server."""
    from ldm.memory import chroma_tuples

    with chroma_tuples.chroma_errors(address), chroma_tuples._Store(address, env) as store:
        chroma_tuples._drop(store)
