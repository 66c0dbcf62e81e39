"""The two places of a memory behind one set of functions: a directory, or a Chroma server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ldm import registry
from ldm.errors import MemoryStoreError
from ldm.memory import chroma, record
from ldm.memory.addresses import is_server
from ldm.memory.contents import Contents
from ldm.memory.index import Generation
from ldm.memory.known_vectors import OnProgress


def known_generations(location: str) -> Mapping[str, tuple[Generation, ...]]:
    """Return the complete generations at a location by environment, oldest first.

    Raises MemoryStoreError if there is no memory.
    """
    if is_server(location):
        return server().generations_at(location)  # type: ignore[no-any-return]
    names = record.environments(location)
    by_env = {env: record.generations(location, env) for env in names}
    return {env: present for env, present in by_env.items() if present}


def generations(location: str, env: str) -> tuple[Generation, ...]:
    """List the generations of an environment's memory, oldest first; () if there is none.

    location: a directory or the http(s) address of a Chroma server.

    Raises MemoryStoreError if there is no memory at `location`.
    """
    if is_server(location):
        return server().generations_at(location).get(env, ())  # type: ignore[no-any-return]
    return record.generations(location, env)


def load(location: str, env: str, generation: int | None = None) -> Contents:
    """Read everything of `env` up to `generation` (None: the newest).

    Raises MemoryStoreError if there is no such memory or generation, or it is damaged.
    """
    if is_server(location):
        return server().read_all(location, env, generation)  # type: ignore[no-any-return]
    return record.load(location, env, generation)


@contextmanager
def writing(location: str) -> Iterator[None]:
    """Hold the lock of a directory, which is created if absent.

    On a server the lock is a collection.
    """
    if is_server(location):
        with server().writing(location):
            yield
        return
    with record.writing(location):
        yield


def commit(
    location: str,
    contents: Contents,
    before: Sequence[Generation],
    on_progress: OnProgress = lambda *_: None,
    log: tuple[str, int] | None = None,
) -> None:
    """Make `contents` what readers see, after the generations `before`, and publish it in Chroma.

    log: as in `record.Manifest`.
    """
    present = (*before, contents.generation)
    if is_server(location):
        server().commit(location, contents, before, on_progress)
        return
    record.commit(location, contents, present, log)
    publish(location, contents, on_progress)


def publish(location: str, contents: Contents, on_progress: OnProgress = lambda *_: None) -> None:
    """Publish the newest generation of a directory to the Chroma directory in it.

    Raises MemoryStoreError if that fails; the memory is complete without it.
    """
    if is_server(location):
        return
    present = record.generations(location, contents.generation.env)
    try:
        chroma.publish_beside(location, contents, present, on_progress)
    except MemoryStoreError as error:
        raise MemoryStoreError(
            f"The memory is complete, but not published to Chroma: {error.message}",
            f"{error.remedy} Then repeat the command, or use `ldm memory publish`.",
        ) from error


def drop(location: str, env: str) -> None:
    """Remove everything of an environment; the caller holds the lock."""
    if is_server(location):
        server().drop(location, env)
        return
    record.drop(location, env)
    chroma.remove(location)  # it is made again with what is built


def server() -> Any:
    """Return the plug-in that keeps memories on Chroma servers (`ldm.servers`)."""
    return registry.load("chroma", {}, "ldm.servers", "memory server")


def refuse_server(location: str, what: str) -> None:
    """Raise MemoryStoreError for a server, which cannot do `what`."""
    if is_server(location):
        raise MemoryStoreError(f"{location} is a server, which {what}.", "Name a directory.")
