"""The writer's lock of a memory: one process at a time writes to a location.

In a directory it is a locked file, which the system releases when the process ends. On a server it
is a collection, because creating a collection is the only atomic operation of Chroma. The writer
updates a heartbeat; after a silence another writer takes the lock with the next number, and the
silent one notices before it completes a generation.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from ldm.errors import MemoryLocked, MemoryStoreError
from ldm.text import parse_json

LOCK = ".lock"
#: Seconds for which a writer tries to lock a directory, because readers test the lock briefly.
PATIENCE = 1.0
PAUSE = 0.01
#: Prefix of the collections that are locks on a server.
PREFIX = "ldm-lock"
#: Seconds between two heartbeats, and of silence after which a writer counts as dead.
HEARTBEAT = 10.0
SILENCE = 60.0


def is_held(location: str) -> bool:
    """Return whether a process is writing to a directory."""
    try:
        number = os.open(Path(location) / LOCK, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(number)
    return False


def of_directory(place: Path) -> TextIO:
    """Take the lock of a directory; closing the returned file releases it.

    Raises MemoryStoreError if another process holds it.
    """
    file = (place / LOCK).open("a+", encoding="utf-8")
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > until:
                with file:
                    file.seek(0)
                    raise _held(str(place), _parsed(file.read())) from error
            time.sleep(PAUSE)
    file.seek(0)
    file.truncate()
    file.write(json.dumps(_owner()))
    file.flush()
    return file


class ServerLock:
    """The lock of a memory on a Chroma server, held until `release`."""

    def __init__(self, client: Any, location: str) -> None:
        """Take the lock; raise MemoryStoreError if another writer holds it."""
        self._client = client
        self._location = location
        self._id = uuid4().hex
        self._number = self._taken()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise MemoryStoreError if another writer has taken over."""
        present = self._locks()
        if present.get(max(present, default=-1), {}).get("id") != self._id:
            raise MemoryStoreError(
                f"Another writer has taken over {self._location}, because this one was silent for"
                f" {SILENCE:.0f} seconds.",
                "Run the command again; it has added nothing.",
            )

    def release(self) -> None:
        """Release the lock."""
        self._stopped.set()
        self._thread.join()
        self._delete(self._number)

    def _taken(self) -> int:
        present = self._locks()
        number = max(present, default=-1)
        if present and time.time() - float(present[number].get("beat", 0)) <= SILENCE:
            raise _held(self._location, present[number])
        try:
            self._client.create_collection(
                _name(number + 1), metadata=self._beating(), embedding_function=None
            )
        except Exception as error:
            if number + 1 in self._locks():
                raise _held(self._location, {}) from error
            raise
        for old in present:
            self._delete(old)
        return number + 1

    def _locks(self) -> dict[int, Mapping[str, Any]]:
        names = {c.name: c.metadata or {} for c in self._client.list_collections()}
        return {
            int(name.rpartition(".")[2]): metadata
            for name, metadata in names.items()
            if name.startswith(f"{PREFIX}.")
        }

    def _beat(self) -> None:
        while not self._stopped.wait(HEARTBEAT):
            with suppress(Exception):  # the next beat may succeed, and `check` decides
                lock = self._client.get_collection(_name(self._number), embedding_function=None)
                lock.modify(metadata=self._beating())

    def _beating(self) -> dict[str, str | int | float]:
        return {**_owner(), "id": self._id, "beat": time.time()}

    def _delete(self, number: int) -> None:
        with suppress(Exception):  # another writer may have removed it
            self._client.delete_collection(_name(number))


def _name(number: int) -> str:
    return f"{PREFIX}.{number:06d}"


def _owner() -> dict[str, str | int]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time())}


def _parsed(text: str) -> Mapping[str, Any]:
    owner = parse_json(text, "")
    return owner if isinstance(owner, dict) and isinstance(owner.get("since"), int) else {}


def _held(location: str, owner: Mapping[str, Any]) -> MemoryLocked:
    who = "another process"
    if {"pid", "host", "since"} <= owner.keys():
        seconds = max(0, int(time.time()) - int(owner["since"]))
        who = f"process {owner['pid']} on {owner['host']}, for {seconds} s"
    return MemoryLocked(
        f"{location} is locked by {who}, which is writing to it.", "Wait until it has finished."
    )
