"""Clients of Chroma and the meaning of its errors; the only module that imports chromadb."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from traceback import walk_tb
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from ldm.errors import LdmError, MemoryStoreError
from ldm.memory.addresses import is_server, let_in
from ldm.memory.directory import DATABASE
from ldm.text import guard, redacted

P = ParamSpec("P")
R = TypeVar("R")
#: Attempts of a request to a server, and the seconds before the second one.
REQUESTS = 4
PAUSE = 0.1
#: Timeouts in seconds of the first request to a server, and of any other one.
ANSWER = 20.0
REPLY = 300.0
#: A disk with fewer free bytes counts as full, because one write may need more.
LITTLE_SPACE = 16 * 1024**2


@contextmanager
def store_errors(location: str) -> Iterator[None]:
    """Turn errors of Chroma, SQLite and the file system into MemoryStoreError with a remedy."""
    try:
        yield
    except Exception as error:
        ours = isinstance(error, (sqlite3.Error, OSError, ValueError))
        # By the name of its module, because Chroma is not imported to read a snapshot.
        chromas = type(error).__module__.startswith(("chromadb", "httpx"))
        # An unexpected answer of a server may make Chroma raise anything.
        foreign = is_server(location) and not isinstance(error, LdmError)
        if not (ours or chromas or foreign or _is_unreachable(error)):
            raise
        text = " ".join(str(error).split()).lower()
        if "readonly" in text or "permission" in text or "read-only" in text:
            problem, remedy = "cannot be written", "Check its permissions, or use another --memory."
        elif "full" in text or "no space" in text or _is_nearly_full(location):
            problem, remedy = "cannot be written: the disk is full", "Free space and run it again."
        elif isinstance(error, FileNotFoundError | NotADirectoryError):
            problem = f"cannot be created or read: {error.strerror}"
            remedy = "Check the path, or use another --memory."
        elif is_server(location) and ("connect" in text or _is_unreachable(error)):
            problem = "does not answer"
            remedy = "Start it with `chroma run`, or check the address."
        elif is_server(location) and any(
            word in text for word in ("401", "403", "unauthor", "forbid")
        ):
            problem = "does not let us in"
            remedy = let_in()
        else:
            problem, remedy = (
                f"cannot be used: {redacted(str(error))}",
                "Check that it is a memory made by ldm.",
            )
        problem = redacted(problem)  # a server's message may quote the request
        raise MemoryStoreError(f"The memory at {location} {problem}.", remedy) from error


def _is_nearly_full(location: str) -> bool:
    """Return whether a full disk is the likely cause of an error that Chroma does not explain."""
    place = Path(location)
    return place.is_dir() and shutil.disk_usage(place).free < LITTLE_SPACE


def _is_unreachable(error: BaseException | None) -> bool:
    """Return whether a request got no reply."""
    while error is not None:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if isinstance(error, ConnectionError) or kinds & {"TransportError", "ConnectError"}:
            return True  # by name, because only Chroma imports httpx
        error = error.__cause__ or error.__context__
    return False


def with_store_errors(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Wrap a repeatable method in `store_errors`, and retry it if a server does not answer.

    Its object has a `location`.
    """

    @wraps(method)
    def wrapper(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        attempts = REQUESTS if is_server(self.location) else 1
        for attempt in range(1, attempts):
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                if not _is_unreachable(error):
                    with store_errors(self.location):
                        raise
                time.sleep(PAUSE * 4**attempt)
        with store_errors(self.location):
            return method(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]  # mypy keeps the name of `self`


def open_client(location: str) -> Any:
    """Return a client for the directory or server at a location."""
    import chromadb
    from chromadb.config import Settings

    # Without _env_file, Chroma reads .env in the working directory, which can name classes to load.
    settings = Settings(_env_file=None, anonymized_telemetry=False)
    if credentials := settings.chroma_client_auth_credentials:
        guard([credentials, credentials.partition(":")[2]])
    if not is_server(location):
        if Path(location, DATABASE).exists() and not os.access(location, os.W_OK):
            raise PermissionError(f"permission denied: {location}")  # SQLite writes a log
        return chromadb.PersistentClient(str(Path(location).absolute()), settings=settings)
    import httpx  # a dependency of Chroma

    url = urlsplit(location)
    secure = url.scheme == "https"
    place = url.hostname or "localhost", url.port or (443 if secure else 8000)
    # Chroma waits without a timeout, so ask first whether the server answers.
    beat = f"{url.scheme}://{place[0]}:{place[1]}/api/v2/heartbeat"
    httpx.get(beat, timeout=ANSWER, verify=secure)
    if not secure and settings.chroma_server_ssl_verify is None:
        settings.chroma_server_ssl_verify = False  # saves 0.1 s of reading certificates
    try:
        client: Any = chromadb.HttpClient(*place, ssl=secure, settings=settings)
    except Exception as error:
        _close_sessions(error)
        raise
    client._server._session.timeout = httpx.Timeout(REPLY, connect=ANSWER)
    return client


def close_client(client: Any) -> None:
    """Close a client and its HTTP connections; Chroma caches open clients by path."""
    client.close()
    for api in (client._server, client._admin_client._server):
        if session := getattr(api, "_session", None):
            session.close()


def _close_sessions(error: BaseException | None) -> None:
    """Close the connections that Chroma leaves open if it fails to make a client."""
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            session = getattr(frame.f_locals.get("self"), "_session", None)
            if session is not None:
                session.close()
        error = error.__context__


def collection_of(client: Any, name: str) -> Any:
    """Return the collection of this name, or None."""
    from chromadb.errors import NotFoundError

    try:
        return client.get_collection(name, embedding_function=None)
    except (NotFoundError, ValueError):
        return None


def is_internal(error: BaseException | None) -> bool:
    """Return whether Chroma calls an error internal, as if a row is removed while it is read."""
    from chromadb.errors import InternalError

    return isinstance(error, InternalError)
