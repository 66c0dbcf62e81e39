"""The JSONL codec: one record per line, validated when read.

Pydantic parses the dataclasses of `ldm.types` strictly: a wrong type, a missing or a misspelt field
is reported as file:line:field. The same definitions give the published JSON Schemas.
"""

from __future__ import annotations

import fcntl
import glob
import gzip
import io
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from ldm import text as texts
from ldm.errors import LdmError, RecordError
from ldm.text import Problem as Problem  # noqa: PLC0414 - other packages import it here
from ldm.types import EpisodeResult, StateActionTuple, Task, Trajectory

T = TypeVar("T")

#: The records that users work with, by the name under which their schema is published.
SCHEMAS: dict[str, type[Any]] = {
    "trajectory": Trajectory,
    "tuple": StateActionTuple,
    "episode": EpisodeResult,
    "task": Task,
}


#: Maximum problems reported per line, and the number of faults above which they are only counted:
#: formatting each one costs 1-2 kB.
MOST_LISTED = 20
MOST_TOLD = 1000


#: Type → its adapter, made once.
adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


@cache
def validator(record_type: Any, foreign: bool = False) -> SchemaValidator:
    """Return a validator that reports only the first bad item of a list.

    It would otherwise take gigabytes to report a line of a million bad items. A misspelt field is
    an error, unless the records are foreign ones, which may have more fields.
    """
    return SchemaValidator(_strict(adapter(record_type).core_schema, foreign))


def _strict(schema: Any, foreign: bool) -> Any:
    if isinstance(schema, list):
        return [_strict(part, foreign) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {name: _strict(part, foreign) for name, part in schema.items()}
    if copied.get("type") in ("tuple", "list", "set", "frozenset"):
        return {**copied, "fail_fast": True}
    if copied.get("type") == "dataclass-args" and not foreign:
        return {**copied, "extra_behavior": "forbid"}
    return copied


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a record named in SCHEMAS."""
    content = adapter(SCHEMAS[name]).json_schema()
    for one in (content, *content.get("$defs", {}).values()):
        one["additionalProperties"] = False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **content}


def dumps(record: object) -> str:
    """Return one line of JSON without a newline and without secrets (`ldm.text`).

    Equal records give the same bytes.
    """
    return texts.redacted_json(adapter(type(record)).dump_json(record).decode())


def plain(record: object) -> Any:
    """Return a record as JSON values."""
    return json.loads(dumps(record))


def loads(text: str | bytes, record_type: type[T], *, file: str = "<text>", line: int = 1) -> T:
    """Return the record in `text`. Raises RecordError that names file, line and field."""
    parsed = parse(text, record_type, file, line)
    if isinstance(parsed, Problem):
        raise RecordError(str(parsed), "Correct that line; `ldm validate` lists all such lines.")
    return parsed


def scan(path: Path, record_type: type[T], *, torn_tail: bool = False) -> Iterator[T | Problem]:
    """Yield every line of a JSONL file (gzip if it ends in .gz) as a record or a Problem.

    Blank lines are skipped. torn_tail: drop a last line without a newline, which a killed process
    leaves behind. Raises LdmError if the file itself is unreadable.
    """
    for number, line in _lines(path, torn_tail):
        yield parse(line, record_type, str(path), number)


def read(path: Path, record_type: type[T], *, torn_tail: bool = False) -> list[T]:
    """Return all records of a file, as `scan`. Raises RecordError at the first bad line."""
    lines = _lines(path, torn_tail)
    return [loads(line, record_type, file=str(path), line=number) for number, line in lines]


def _lines(path: Path, torn_tail: bool) -> Iterator[tuple[int, bytes]]:
    for number, line in texts.read_lines(path):
        if torn_tail and not line.endswith(b"\n") and len(line) <= texts.MAX_LENGTH:
            break  # a longer line was cut when it was read, and others may follow
        yield number, line


class CheckedFile(NamedTuple):
    """The result of a check. type: a name in SCHEMAS. sound: the number of valid records."""

    type: str
    sound: int
    problems: tuple[Problem, ...]


def check(path: Path, name: str = "") -> CheckedFile:
    """Check all lines of a JSONL file, which is read once because it may be a pipe.

    name: in SCHEMAS; "" to detect it by the fields of the first JSON object.
    Raises LdmError if the file is unreadable or its records look like none of these.
    """
    rest = texts.read_lines(path)
    first: list[tuple[int, bytes]] = []
    name = name or _detected(path, rest, first)
    sound, problems = 0, list[Problem]()
    for number, text in chain(first, rest):
        wrong = check_line(text, SCHEMAS[name], str(path), number)
        problems += wrong
        sound += not wrong
    return CheckedFile(name, sound, tuple(problems))


def check_line(
    text: str | bytes, record_type: type[Any], file: str = "<text>", line: int = 1
) -> list[Problem]:
    """Return the problems with a line: of each list those of one item, at most MOST_LISTED."""
    record = _parsed(text, record_type, file, line)
    return record if isinstance(record, list) else []


def _detected(
    path: Path, lines: Iterator[tuple[int, bytes]], first: list[tuple[int, bytes]]
) -> str:
    """Return the name in SCHEMAS of the records in `lines`; append the lines read to `first`."""
    damaged = ""
    for number, text in lines:
        first.append((number, text))
        value = texts.parse_json(text, str(path), number)
        if isinstance(value, Problem):
            damaged = damaged or f" Line {number}: {value.message}."
        if isinstance(value, dict):
            fields = {name: set(schema(name)["properties"]) for name in SCHEMAS}
            overlap = {n: len(f & set(value)) / len(f | set(value)) for n, f in fields.items()}
            best = max(overlap, key=overlap.__getitem__)
            if overlap[best] >= 0.5:
                return best
            break
    raise LdmError(
        f"{path} does not look like {', '.join(SCHEMAS)} records.{damaged}",
        "Name the record with --schema, or convert a file of another format with `ldm import`.",
    )


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
    """Open a text file (gzip for .gz) that replaces `path` once it is complete."""
    with replaced(path) as temporary, temporary.open("wb") as raw:
        # A fixed time in the gzip header keeps equal content equal bytes.
        packed = gzip.GzipFile("", "wb", 9, raw, mtime=0) if path.suffix == ".gz" else raw
        with io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as file:
            yield file


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that becomes `path` once it is complete.

    The target of a link is replaced. A device or a pipe gets the content at the end. Raises
    LdmError if `path` is something else, such as a folder.
    """
    if (stream := _stream(path)) is not None:
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
    """Return whether `path` is a device or a pipe, such as /dev/stdout."""
    return path.is_char_device() or path.is_fifo() or texts.own_descriptor(path) is not None


def _stream(path: Path) -> str | int | None:
    """Return the device or pipe to open for writing to `path`, or None for a file.

    Raises LdmError if something else is there: a folder, a disk, a socket.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LdmError(f"{path} cannot be written: {error.strerror}.", "Check the path.") from error
    if (descriptor := texts.own_descriptor(path)) is not None:
        return os.dup(descriptor)  # opened again, a file behind it would be written from its start
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return str(path)
    raise LdmError(
        f"{path} is {texts.kind_of(mode)}: it cannot be written as a file.",
        "Name a file, which may be a new one.",
    )


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files of killed processes for `path`, which no process locks."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError), temporary.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write `path` into an LdmError: read-only, full disk, a file in the way."""
    try:
        yield
    except OSError as error:
        raise LdmError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Check permissions and free space, or name another place.",
        ) from error


def append(file: IO[str], record: object) -> None:
    """Write one line and flush it, so that a killed process loses at most that line."""
    file.write(dumps(record) + "\n")
    file.flush()


def parse(
    text: str | bytes, record_type: type[T], file: str, line: int, *, foreign: bool = False
) -> T | Problem:
    """Return the record in `text`, or the first problem with it.

    foreign: fields that the record does not have are ignored.
    """
    record = _parsed(text, record_type, file, line, foreign)
    return record[0] if isinstance(record, list) else record


def _parsed(
    text: str | bytes, record_type: type[T], file: str, line: int, foreign: bool = False
) -> T | list[Problem]:
    """Return the record in `text`, or the problems with it."""
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if excess := texts.too_long(content):
        return [Problem(file, line, "", excess)]
    kind: Any = record_type  # hashable, which mypy does not know
    try:
        record: T = validator(kind, foreign).validate_json(content, strict=True)
    except ValidationError as error:
        return _problems(error, file, line)
    return record


def _problems(error: ValidationError, file: str, line: int) -> list[Problem]:
    """Return at most MOST_LISTED problems, and one for all others."""
    count = error.error_count()
    if count > MOST_TOLD:
        return [Problem(file, line, "", f"{count:,} fields are unknown or do not fit")]
    listed = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        field, message = ".".join(str(part) for part in detail["loc"]), detail["msg"]
        if detail["type"] == "json_invalid":
            message = f"not JSON: {texts.json_fault(message.removeprefix('Invalid JSON: '))}"
        listed.append(Problem(file, line, field, message))
    if (rest := count - MOST_LISTED) > 0:
        listed[MOST_LISTED:] = [Problem(file, line, "", f"{rest:,} more fields do not fit")]
    return listed
