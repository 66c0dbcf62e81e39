"""Opening the store of a memory to read, or to write (one process at a time)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ldm.errors import MemoryStoreError
from ldm.memory import index_files, locks, snapshot
from ldm.memory.addresses import is_server
from ldm.memory.chroma import close_client, open_client, store_errors
from ldm.memory.directory import DATABASE, check_directory, check_free
from ldm.memory.store import Store


@contextmanager
def reading(location: str) -> Iterator[Store]:
    """Open the store at a directory or http(s) address to read.

    Raises MemoryStoreError if there is none.
    """
    if not is_server(location):
        check_directory(location)
    with open_store(location) as store:
        yield store


@contextmanager
def writing(location: str) -> Iterator[Store]:
    """Open the store at `location` to write, creating an absent directory.

    Raises MemoryStoreError if another process is writing to it, or the directory holds something
    other than a memory or cannot be written.
    """
    if is_server(location):
        with open_store(location) as store:
            with store_errors(location):
                store.lock = locks.ServerLock(store.client, location)
            try:
                yield store
            finally:
                store.lock.release()
        return
    with locked(location) as place:
        with open_store(location) as store:
            yield store
            complete = store.complete()
        snapshot.publish(location, complete, snapshot.stamp(place / DATABASE))


@contextmanager
def creating(location: str, env: str) -> Iterator[Store]:
    """Open the store at `location` to write a new memory of `env`, removing unfinished data.

    Raises MemoryStoreError as `writing` does, and if there is a memory of `env`.
    """
    with writing(location) as store:
        if store.generations(env):
            raise MemoryStoreError(
                f"{location} has a memory of {env} already.", "Name another with --memory."
            )
        store.drop(env)
        yield store


@contextmanager
def locked(location: str) -> Iterator[Path]:
    """Hold the lock of a memory's directory, creating an absent directory.

    Raises MemoryStoreError if another process holds it, or the directory is not a memory.
    """
    place = Path(location)
    with store_errors(location):
        place.mkdir(parents=True, exist_ok=True)
        check_free(location)
        lock = locks.of_directory(place)
    with lock:  # the system releases it when the process ends
        _publish_anew(location, place / DATABASE)
        yield place


@contextmanager
def open_store(location: str) -> Iterator[Store]:
    """Open the store without a lock, creating an absent directory."""
    with ExitStack() as stack:
        with store_errors(location):
            if not is_server(location):
                users = index_files.joined(Path(location))
                stack.callback(_leave, location, users)
            try:
                client = open_client(location)
            except AttributeError as error:
                # Chroma raises it if an earlier attempt of this process to open it has failed.
                raise OSError("it could not be opened before") from error
        stack.callback(close_client, client)
        yield Store(location, client)


def _leave(location: str, users: BinaryIO) -> None:
    users.close()
    with store_errors(location):
        index_files.clear_if_last(Path(location))


def _publish_anew(location: str, database: Path) -> None:
    """Publish the complete generations, which readers use until the writer has finished."""
    if not database.is_file():
        return
    known = snapshot.catalog(location)
    if known is None or known.stamp != snapshot.stamp(database):
        with suppress(MemoryStoreError):  # a damaged memory can still be rebuilt
            with open_store(location) as store:
                complete = store.complete()
            snapshot.publish(location, complete, snapshot.stamp(database))
