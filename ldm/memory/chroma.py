"""Clients of Chroma, and what its errors mean. Only here is chromadb imported."""

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
#: How often a request to a server is made before the network counts as failing, and the seconds
#: before the second time.
REQUESTS = 4
PAUSE = 0.1
#: Seconds that a server has for its first sign of life, and for any reply.
ANSWER = 20.0
REPLY = 300.0
#: A disk with fewer free bytes counts as full: one write may need more.
LITTLE_SPACE = 16 * 1024**2


@contextmanager
def store_errors(location: str) -> Iterator[None]:
    """Turn errors of Chroma, SQLite and the file system into MemoryStoreError with a remedy."""
    try:
        yield
    except Exception as error:
        # Known by its module: Chroma is not loaded where a snapshot answers.
        ours = isinstance(error, (sqlite3.Error, OSError, ValueError))
        chromas = type(error).__module__.startswith(("chromadb", "httpx"))
        # Of a server's answers Chroma makes whatever comes: a KeyError, an Exception.
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
        problem = redacted(problem)  # a server may say what it was sent
        raise MemoryStoreError(f"The memory at {location} {problem}.", remedy) from error


def _is_nearly_full(location: str) -> bool:
    """Return whether the disk is the likely cause of a failure: Chroma does not always say so."""
    place = Path(location)
    return place.is_dir() and shutil.disk_usage(place).free < LITTLE_SPACE


def _is_unreachable(error: BaseException | None) -> bool:
    """Return whether a request got no reply: the network's fault, or a server that restarts."""
    while error is not None:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if isinstance(error, ConnectionError) or kinds & {"TransportError", "ConnectError"}:
            return True  # httpx is imported by Chroma alone
        error = error.__cause__ or error.__context__
    return False


def with_store_errors(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Let a method raise as `store_errors` does, and try again where a server does not answer.

    It is one of what has a `location`, and may be repeated.
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
    """Return a client of the directory or server at a location."""
    import chromadb
    from chromadb.config import Settings

    # Chroma would read a file .env in the working directory, which can name classes to load.
    settings = Settings(_env_file=None, anonymized_telemetry=False)
    if credentials := settings.chroma_client_auth_credentials:
        guard([credentials, credentials.partition(":")[2]])
    if not is_server(location):
        if Path(location, DATABASE).exists() and not os.access(location, os.W_OK):
            raise PermissionError(f"permission denied: {location}")  # SQLite needs to write its log
        return chromadb.PersistentClient(str(Path(location).absolute()), settings=settings)
    import httpx  # which Chroma uses

    url = urlsplit(location)
    secure = url.scheme == "https"
    place = url.hostname or "localhost", url.port or (443 if secure else 8000)
    # Chroma waits without any limit: whether somebody answers at all is asked beforehand.
    beat = f"{url.scheme}://{place[0]}:{place[1]}/api/v2/heartbeat"
    httpx.get(beat, timeout=ANSWER, verify=secure)
    if not secure and settings.chroma_server_ssl_verify is None:
        settings.chroma_server_ssl_verify = False  # reading certificates takes a tenth of a second
    try:
        client: Any = chromadb.HttpClient(*place, ssl=secure, settings=settings)
    except Exception as error:
        _close_sessions(error)
        raise
    client._server._session.timeout = httpx.Timeout(REPLY, connect=ANSWER)
    return client


def close_client(client: Any) -> None:
    """Close a client: Chroma caches them by path, and one left open answers for what comes later.

    Its HTTP client leaves connections open.
    """
    client.close()
    for api in (client._server, client._admin_client._server):
        if session := getattr(api, "_session", None):
            session.close()


def _close_sessions(error: BaseException | None) -> None:
    """Close the connections of a client that could not be made; Chroma leaves them open."""
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            session = getattr(frame.f_locals.get("self"), "_session", None)
            if session is not None:
                session.close()
        error = error.__context__


def collection_of(client: Any, name: str) -> Any:
    """Return a collection; None where there is none of that name."""
    from chromadb.errors import NotFoundError

    try:
        return client.get_collection(name, embedding_function=None)
    except (NotFoundError, ValueError):
        return None


def is_internal(error: BaseException | None) -> bool:
    """Return whether Chroma calls an error internal, as where a row goes while it is read."""
    from chromadb.errors import InternalError

    return isinstance(error, InternalError)
