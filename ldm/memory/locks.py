"""The lock of a memory's writer: one process at a time writes to a location.

In a directory it is a locked file, which the system releases with the process, however that ends.
On a server it is a collection: to make one that exists is refused, and that is the only step that
Chroma takes for one client alone. A writer there shows that it lives by a heartbeat; one that has
been silent is overtaken by the next, which takes the lock with the next number, and notices when
it would complete a generation.
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
#: Seconds for which a writer tries to get the lock of a directory: readers ask for it, briefly.
PATIENCE = 1.0
PAUSE = 0.01
#: Names of the collections that are locks on a server.
PREFIX = "ldm-lock"
#: Seconds between two heartbeats, and of silence after which a writer counts as gone.
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
    """Take the lock of a directory: a file, and whoever closes it gives the lock back.

    Raises MemoryStoreError where another process has it.
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
        """Take the lock; raise MemoryStoreError where a living writer has it."""
        self._client = client
        self._location = location
        self._id = uuid4().hex
        self._number = self._taken()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise MemoryStoreError where another writer has overtaken this one."""
        present = self._locks()
        if present.get(max(present, default=-1), {}).get("id") != self._id:
            raise MemoryStoreError(
                f"Another writer has taken over {self._location}: this one did not answer for"
                f" {SILENCE:.0f} seconds.",
                "Run the command again; nothing of it was added.",
            )

    def release(self) -> None:
        """Give the lock back."""
        self._stopped.set()
        self._thread.join()
        self._delete(self._number)

    def _taken(self) -> int:
        present = self._locks()
        number = max(present, default=-1)
        if present and not self._is_silent(present[number]):
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

    def _is_silent(self, owner: Mapping[str, Any]) -> bool:
        return time.time() - float(owner.get("beat", 0)) > SILENCE

    def _locks(self) -> dict[int, Mapping[str, Any]]:
        names = {c.name: c.metadata or {} for c in self._client.list_collections()}
        return {
            int(name.rpartition(".")[2]): metadata
            for name, metadata in names.items()
            if name.startswith(f"{PREFIX}.")
        }

    def _beat(self) -> None:
        while not self._stopped.wait(HEARTBEAT):
            with suppress(Exception):  # the next beat may succeed; `check` decides in the end
                lock = self._client.get_collection(_name(self._number), embedding_function=None)
                lock.modify(metadata=self._beating())

    def _beating(self) -> dict[str, str | int | float]:
        return {**_owner(), "id": self._id, "beat": time.time()}

    def _delete(self, number: int) -> None:
        with suppress(Exception):  # another writer removed it
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
