"""The JSONL codec: one record per line, validated when read.

Dataclasses of `ldm.types` are parsed strictly by pydantic, so a wrong type, a missing or a
misspelt field is reported as file:line:field. The same definitions give the published JSON Schemas.
"""

from __future__ import annotations

import fcntl
import glob
import gzip
import io
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from ldm import secrecy, untrusted
from ldm.errors import LdmError, RecordError
from ldm.types import EpisodeResult, StateActionTuple, Task, Trajectory
from ldm.untrusted import Problem as Problem  # noqa: PLC0414 - other packages import it here

T = TypeVar("T")

#: The records that users work with, by the name under which their schema is published.
SCHEMAS: dict[str, type[Any]] = {
    "trajectory": Trajectory,
    "tuple": StateActionTuple,
    "episode": EpisodeResult,
    "task": Task,
}


#: How many links from one to the next are followed, as the system does.
MAX_LINKS = 40


def _adapter(record_type: Any) -> TypeAdapter[Any]:
    return _cached_adapter(record_type)


@cache
def _cached_adapter(record_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(record_type)


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a record named in SCHEMAS."""
    content = _adapter(SCHEMAS[name]).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **content}


def dumps(record: object) -> str:
    """Return one line of JSON without a newline and without secrets (`ldm.secrecy`).

    Equal records give the same bytes.
    """
    return secrecy.redacted_json(_adapter(type(record)).dump_json(record).decode())


def loads(text: str | bytes, record_type: type[T], *, file: str = "<text>", line: int = 1) -> T:
    """Return the record in `text`. Raises RecordError that names file, line and field."""
    parsed = parse(text, record_type, file, line)
    if isinstance(parsed, Problem):
        raise RecordError(str(parsed), "Correct that line; `ldm validate` lists all such lines.")
    return parsed


def scan(path: Path, record_type: type[T]) -> Iterator[T | Problem]:
    """Yield every line of a JSONL file (gzip where it ends in .gz) as a record or a Problem.

    Blank lines are skipped. Raises LdmError where the file itself cannot be read.
    """
    for number, line in untrusted.lines(path):
        yield parse(line, record_type, str(path), number)


def problems(path: Path, record_type: type[Any]) -> Iterator[Problem]:
    """Yield everything that is wrong in a JSONL file: all fields of a line, not only the first."""
    for number, text in untrusted.lines(path):
        record = _parsed(text, record_type, str(path), number)
        if isinstance(record, list):
            yield from record


def detect(path: Path) -> str:
    """Return the name in SCHEMAS of a file's records, judging by its first JSON object's fields.

    Raises LdmError where the file cannot be read or holds nothing that looks like a record.
    """
    damaged = ""
    for number, text in untrusted.lines(path):
        value = untrusted.json_value(text, str(path), number)
        if isinstance(value, Problem):
            damaged = damaged or f" Line {number} is {value.message}."
        if isinstance(value, dict):
            fields = {name: set(schema(name)["properties"]) for name in SCHEMAS}
            overlap = {n: len(f & set(value)) / len(f | set(value)) for n, f in fields.items()}
            best = max(overlap, key=overlap.__getitem__)
            if overlap[best] >= 0.5:
                return best
            break
    raise LdmError(
        f"{path} does not look like {', '.join(SCHEMAS)} records.{damaged}",
        "Name the record with --type, or convert a file of another format with `ldm import`.",
    )


def read(path: Path, record_type: type[T], *, torn_tail: bool = False) -> list[T]:
    """Return all records of a file. Raises RecordError at the first bad line.

    torn_tail: drop a last line without a newline, which a killed process leaves behind.
    """
    parsed = []
    for number, line in untrusted.lines(path):
        if torn_tail and not line.endswith(b"\n"):
            break
        parsed.append(loads(line, record_type, file=str(path), line=number))
    return parsed


def write(path: Path, records: Iterable[object]) -> int:
    """Replace `path` atomically by these records; return their number."""
    count = 0
    with replacing(path) as file:
        for record in records:
            file.write(dumps(record) + "\n")
            count += 1
    return count


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """Open a text file (gzip for .gz) that replaces `path` only once it is complete."""
    with replaced(path) as temporary, temporary.open("wb") as raw:
        # A fixed time in the gzip header keeps equal content equal bytes.
        packed = gzip.GzipFile("", "wb", 9, raw, mtime=0) if path.suffix == ".gz" else raw
        with io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as file:
            yield file


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that becomes `path` once it is complete.

    A link is followed: what it leads to is replaced. A device or a pipe gets the content at the
    end. Raises LdmError where something else stands there.
    """
    stream = _stream(path)
    if stream is not None:
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder) / path.name
            yield temporary
            with temporary.open("rb") as content, open(stream, "wb") as target:
                shutil.copyfileobj(content, target)
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(2)}.tmp")
    with temporary.open("xb") as claim:
        try:
            fcntl.flock(claim, fcntl.LOCK_EX)
            yield temporary
            if path.exists():
                shutil.copymode(path, temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Return whether what is written to `path` goes to a device or a pipe, such as /dev/stdout."""
    return path.is_char_device() or path.is_fifo() or _own_descriptor(path) is not None


def _stream(path: Path) -> str | int | None:
    """Return what to open to write to the device or pipe at `path`; None where a file is to be.

    Raises LdmError where something else is there: a folder, a disk, a socket.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LdmError(f"{path} cannot be written: {error.strerror}.", "Check the path.") from error
    if (descriptor := _own_descriptor(path)) is not None:
        return os.dup(descriptor)  # opened anew, a file behind it would be written from its start
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return str(path)
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFBLK: "a disk", stat.S_IFSOCK: "a socket"}
    raise LdmError(
        f"{path} is {kinds.get(stat.S_IFMT(mode), 'no file')}: it cannot be written as a file.",
        "Name a file, which may be a new one.",
    )


def _own_descriptor(path: Path) -> int | None:
    """Return the number of this process's open file that `path` leads to: 1 for /dev/stdout."""
    for _ in range(MAX_LINKS):
        parent = path.parent.resolve()
        if parent == Path(f"/proc/{os.getpid()}/fd") and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = parent / path.readlink()
    return None


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files for `path` that killed processes left: nobody holds their lock."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError), temporary.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink()


def append(file: IO[str], record: object) -> None:
    """Write one line and flush it, so that a killed process loses at most this line."""
    file.write(dumps(record) + "\n")
    file.flush()


def parse(text: str | bytes, record_type: type[T], file: str, line: int) -> T | Problem:
    """Return the record in `text`, or the first problem with it."""
    record = _parsed(text, record_type, file, line)
    return record[0] if isinstance(record, list) else record


def _parsed(text: str | bytes, record_type: type[T], file: str, line: int) -> T | list[Problem]:
    """Return the record in `text`, or all problems with it."""
    if len(text) > untrusted.MAX_LENGTH:
        most = untrusted.MAX_LENGTH // 2**20
        return [Problem(file, line, "", f"longer than {most} MB")]
    try:
        record: T = _adapter(record_type).validate_json(text, strict=True)
    except ValidationError as error:
        return [_problem(one, file, line) for one in _details(error)]
    return record


def _details(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _problem(detail: ErrorDetails, file: str, line: int) -> Problem:
    field, message = ".".join(str(part) for part in detail["loc"]), detail["msg"]
    if detail["type"] == "json_invalid":
        message = f"not JSON: {untrusted.json_fault(message.removeprefix('Invalid JSON: '))}"
    return Problem(file, line, field, message)
