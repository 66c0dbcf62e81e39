"""The two places of a memory behind one set of functions: a directory, or a Chroma server."""

from __future__ import annotations

import sys
from subprocess import PIPE, STDOUT
from typing import Any

from ldm import registry
from ldm.embed import Embedder
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory import record
from ldm.memory.index import Generation, OnProgress
from ldm.memory.lessons import Contents, nothing
from ldm.memory.record import is_server
from ldm.parallel import process_of

#: The fewest tuples for which the start of a process is worth its second.
LARGE = 5_000


def environments(location: str) -> tuple[str, ...]:
    """List the environments that have a memory at `location`, sorted.

    Raises MemoryStoreError if `location` is not a memory.
    """
    return tuple(sorted(_keeper(location).known_generations(location)))


def generations(location: str, env: str) -> tuple[Generation, ...]:
    """List the generations of an environment's memory, oldest first; () if there is none.

    location: a directory or the http(s) address of a Chroma server.

    Raises MemoryStoreError if there is no memory at `location`.
    """
    return _keeper(location).generations(location, env)  # type: ignore[no-any-return]


def load(location: str, env: str, generation: int | None = None) -> Contents:
    """Read everything of `env` up to `generation` (None: the newest).

    Raises MemoryStoreError if there is no such memory or generation, or it is damaged.
    """
    return _keeper(location).load(location, env, generation)  # type: ignore[no-any-return]


def newest(location: str, env: str, embedder: Embedder) -> Contents:
    """Return the newest generation of `env`, or what there is before the first one.

    Raises MemoryStoreError if it was built with another embedder.
    """
    known = generations(location, env)
    contents = load(location, env) if known else nothing(env, embedder)
    contents.generation.check_embedder(embedder.name)
    return contents


def writing(location: str) -> Any:
    """Return the context that holds the lock of a directory, which is created if absent.

    On a server the lock is a collection.
    """
    return _keeper(location).writing(location)


def commit(location: str, contents: Contents, on_progress: OnProgress = lambda *_: None) -> None:
    """Make `contents` what readers see, and publish it in Chroma."""
    if is_server(location):
        server().commit(location, contents, on_progress)
        return
    record.commit(location, contents)
    publish(location, contents, on_progress)


def publish(location: str, contents: Contents, on_progress: OnProgress = lambda *_: None) -> None:
    """Publish the newest generation of a directory to the Chroma directory in it.

    Chroma keeps much memory of what it has written, which only a process that ends gives back.

    Raises MemoryStoreError if that fails; the memory is complete without it.
    """
    if is_server(location):
        return
    from ldm.memory import chroma  # which those who only read do not load

    try:
        if len(contents.rows) >= LARGE:
            _publish_apart(location, contents.generation.env, on_progress)
        else:
            chroma.publish_beside(location, contents, on_progress)
    except MemoryStoreError as error:
        raise MemoryStoreError(
            f"The memory is complete, but not published to Chroma: {error.message}",
            f"{error.remedy} Then repeat the command, or use `ldm memory publish`.".lstrip(),
        ) from error


def _publish_apart(location: str, env: str, on_progress: OnProgress) -> None:
    """Publish in a process of its own, which has the lock, too, if this one is killed."""
    line, held = "", tuple(record.held)
    with process_of(__name__, location, env, stdout=PIPE, stderr=STDOUT, pass_fds=held) as process:
        for line in process.stdout or ():
            if line.startswith("publish "):
                on_progress("publish", *map(int, line.split()[1:]))
    if process.returncode:
        raise MemoryStoreError(line.strip() or f"Its process ended with {process.returncode}.")


def main() -> None:
    """Publish a memory; print how far it is, and an error as its last line."""
    from ldm.memory import chroma

    location, env = sys.argv[1:]
    try:
        chroma.publish_beside(
            *(location, record.load(location, env)),
            lambda *done: print(*done, flush=True),  # noqa: T201
        )
    except LdmError as error:
        sys.exit(str(error))


def drop(location: str, env: str) -> None:
    """Remove everything of an environment; the caller holds the lock."""
    _keeper(location).drop(location, env)
    if not is_server(location):
        record.remove_chroma(location)  # it is made again with what is built


def _keeper(location: str) -> Any:
    """Return what keeps memories at a location: `record`, or the plug-in for servers."""
    return server() if is_server(location) else record


def server() -> Any:
    """Return the plug-in that keeps memories on Chroma servers (`ldm.servers`)."""
    return registry.load("chroma", {}, "ldm.servers", "memory server")


def refuse_server(location: str, what: str) -> None:
    """Raise MemoryStoreError for a server, which cannot do `what`."""
    if is_server(location):
        raise MemoryStoreError(f"{location} is a server, which {what}.", "Name a directory.")


if __name__ == "__main__":
    main()
