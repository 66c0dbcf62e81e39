"""Read trajectory files in our own schema and in other formats, detected from what they hold.

Formats that other tools share (`ldm.interchange`) are also written. Each environment declares
those of its own recordings (`ldm.envs.metadata.Metadata.formats`), which are only read.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from ldm import records
from ldm.envs.field_errors import line_object
from ldm.envs.metadata import metadata_of, registered
from ldm.errors import LdmError, RecordError
from ldm.interchange import atif, chat, otel, parquet, sharegpt
from ldm.interchange.documents import is_bare
from ldm.interchange.foreign import NOTHING, Assumed
from ldm.interchange.remainder import without_defaults
from ldm.records import Problem
from ldm.text import counted, parse_json, read_bytes, read_lines
from ldm.types import Step, Task, Trajectory

#: Our own schema.
OWN = "ldm"
LINES = (".jsonl", ".jsonl.gz")
SUFFIXES = (*LINES, atif.SUFFIX, parquet.SUFFIX)
#: Invalid records that are reported one by one; the rest are only counted.
MAX_REPORTED = 20

#: (line number from 1, its text)
Line = tuple[int, str]


class Format(Protocol):
    """The functions of an environment's format: `detect`, and `scan` for a whole file.

    A module with one trajectory per line has `parse` instead of `scan`.
    """

    def detect(self, line: Mapping[str, Any]) -> bool:
        """Return whether a JSON object has this format."""
        ...

    def scan(
        self, lines: Iterable[Line], file: str, data: str | None
    ) -> Iterator[Trajectory | Problem]:
        """Yield the trajectories in a file's lines, and a problem for each invalid record.

        data: a folder with the environment's data, from which observations can be rebuilt.
        """
        ...


class LineFormat(Protocol):
    """A format with one trajectory per line."""

    def detect(self, line: Mapping[str, Any]) -> bool: ...

    def parse(self, line: Mapping[str, Any], file: str, number: int) -> Trajectory | Problem:
        """Return the trajectory in a line, or the problem with the line."""
        ...


class Shared(Protocol):
    """A format that other tools share; it reads whole files."""

    def detect(self, line: Mapping[str, Any]) -> bool:
        """Return whether a JSON object has this format."""
        ...

    def read(self, path: Path, assumed: Assumed) -> Iterator[Trajectory | Problem]:
        """Yield the trajectories in a file, and a problem for each invalid record."""
        ...


class Interchange(Shared, Protocol):
    """One that is written, too."""

    def write(self, path: Path, trajectories: Sequence[Trajectory]) -> None:
        """Replace a file by these trajectories."""
        ...


#: name → module
INTERCHANGE: dict[str, Interchange] = {"atif": atif, "chat": chat, "parquet": parquet}
SHARED: dict[str, Shared] = {**INTERCHANGE, "sharegpt": sharegpt, "otel": otel}
#: What a file is known by, beside the formats of environments.
SIGNS = {
    OWN: '"task", "opening" and "steps" in each line',
    "atif": '"schema_version": "ATIF-…"',
    "chat": '"messages" with "role" and "content", also with calls of tools',
    "sharegpt": '"conversations" with "from" and "value"',
    "otel": '"resourceSpans", or "context" and "attributes", with gen_ai.input.messages',
    "parquet": "the columns that ldm writes",
}
#: Format → how the names of files may end that hold it. "" stands for a folder.
WRITTEN = {
    OWN: LINES,
    "atif": (atif.SUFFIX, *LINES, ""),
    "chat": LINES,
    "parquet": (parquet.SUFFIX,),
}


def files_below(paths: Iterable[Path]) -> list[Path]:
    """Return the trajectory files among `paths` and below them, sorted, without hidden ones.

    Folders often hold other JSON files: of those below them, only ATIF documents, conversations of
    ShareGPT and spans are returned.
    Raise LdmError for a path that does not exist, and for a file of another kind.
    """
    files: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise LdmError(f"{path} does not exist.", "Check the path.")
        if path.is_dir():
            below = (p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
            visible = (
                p for p in below if not any(q.startswith(".") for q in p.relative_to(path).parts)
            )
            files.update(p for p in visible if p.suffix != atif.SUFFIX or _is_recording(p))
        elif path.name.endswith(SUFFIXES):
            if not path.is_file():  # a named pipe would be waited for
                raise LdmError(f"{path} is neither a file nor a folder.", "Name a file.")
            files.add(path)
        else:
            raise LdmError(
                f"{path} is not a JSONL file, nor JSON or Parquet.",
                f"Trajectory files end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.",
            )
    return sorted(files)


def format_of(path: Path) -> str | None:
    """Return the format of a file, detected from its first readable line; None if unknown.

    Parquet files have one format: None if a file has another.
    """
    if path.suffix == parquet.SUFFIX:
        return "parquet" if parquet.detect_file(path) else None
    if path.suffix == atif.SUFFIX:
        return "atif" if atif.detect_file(path) else _json_format(path)
    for number, text in read_lines(path):
        line = parse_json(text, str(path), number)
        if not isinstance(line, Problem):
            return _format_of(line)
    return None


#: How a JSON file in a folder begins that holds recordings, and not only chat messages.
_RECORDING = re.compile(rb'"(?:conversations|resourceSpans)"\s*:\s*\[')


def _is_recording(path: Path) -> bool:
    head = read_bytes(path, most=2**16)
    return atif.detect_file(path) or bool(_RECORDING.search(head))


def _json_format(path: Path) -> str | None:
    """Return the format of a JSON file that is no document of ATIF."""
    value = parse_json(read_bytes(path), str(path))
    name = None if isinstance(value, Problem) else _format_of(value)
    if name is None and isinstance(value, list) and value:
        name = _format_of(value[0])
    return name if name in ("chat", "sharegpt", "otel") else None


def read(
    path: Path, name: str, data: str | None = None, assumed: Assumed = NOTHING
) -> Iterator[Trajectory | Problem]:
    """Yield the trajectories of a file in the format `name`, and a problem for each invalid record.

    data: see `Format.scan`. assumed: of recordings of others that do not say it.
    """
    if name == OWN:
        yield from records.scan(path, Trajectory)
        return
    if name in SHARED:
        yield from SHARED[name].read(path, assumed)
        return
    reader = _load(name)
    lines = ((n, line.decode("utf-8", "surrogateescape")) for n, line in read_lines(path))
    if hasattr(reader, "scan"):
        yield from reader.scan(lines, str(path), data)
        return
    for number, text in lines:
        line = line_object(text, str(path), number)
        yield line if isinstance(line, Problem) else reader.parse(line, str(path), number)


def written_as(path: Path, name: str = "") -> str:
    """Return the format in which a file is written.

    name: "" for the one that the file's suffix stands for.
    Raise LdmError if there is no such format, or if a file of that name could not be read again.
    """
    by_suffix = {parquet.SUFFIX: "parquet", atif.SUFFIX: "atif"}
    if not name:
        return by_suffix.get(path.suffix, OWN)
    if name not in WRITTEN:
        raise LdmError(f"There is no output format {name!r}.", f"Known: {', '.join(WRITTEN)}.")
    if not any(
        path.name.endswith(suffix) if suffix else not path.suffix for suffix in WRITTEN[name]
    ):
        endings = ", ".join(suffix or "nothing, for a folder" for suffix in WRITTEN[name])
        raise LdmError(
            f"{path} has the wrong extension for the format {name}.", f"They end in: {endings}."
        )
    return name


def write(path: Path, trajectories: Sequence[Trajectory], name: str = "") -> None:
    """Write trajectories so that reading them again gives equal ones. name: see `written_as`."""
    name = written_as(path, name)
    if name == OWN:
        records.write(path, trajectories)
    else:
        INTERCHANGE[name].write(path, trajectories)


def read_all(
    paths: Iterable[Path],
    message: Callable[[str], None],
    *,
    name: str = "",
    strict: bool = False,
    data: Callable[[str], str | None] = lambda name: None,
    assumed: Assumed = NOTHING,
) -> list[Trajectory]:
    """Return the trajectories of all files below `paths`; invalid records are reported and skipped.

    message: called with each line for the user. name: the files' format, "" to detect it. data:
    format → the data from which observations can be rebuilt. assumed: see `read`.
    Raise RecordError at the first invalid record if `strict`.
    """
    trajectories: list[Trajectory] = []
    problems: list[Problem] = []
    unknown = 0
    for path in files_below(paths):
        file_format = name or format_of(path)
        if file_format is None:
            message(f"{path}: no trajectories; skipped{_first_fault(path)}")
            unknown += 1
            continue
        for record in read(path, file_format, data(file_format), assumed):
            if not isinstance(record, Problem):
                trajectories.append(record)
            elif strict:
                raise RecordError(str(record), "Correct it, or leave --strict out to skip it.")
            else:
                problems.append(record)
    for problem in problems[:MAX_REPORTED]:
        message(str(problem))
    if problems:
        message(f"{counted(len(problems), 'invalid record')} skipped; {len(trajectories)} read.")
    if unknown and not (trajectories or problems):
        for line in looked_for():
            message(line)
    return trajectories


def looked_for() -> Iterator[str]:
    """Yield, line by line, by what files are known, and the smallest example of our format."""
    yield "Looked for:"
    for name, sign in SIGNS.items():
        yield f"  {name}: {sign}"
    if own := ", ".join(_modules()):
        yield f"  and the recordings of environments: {own}"
    yield "One line of our own format, as short as can be (`ldm schema trajectory` has the rest):"
    task = Task("1", "shop", "train", "find a red lamp", "find")
    steps = (Step("ask for red lamps", "Here is one.", 1.0),)
    example = Trajectory(task, "You are in a shop.", steps, 1.0, True, "human")
    shortest = {**without_defaults(example), "steps": [without_defaults(s) for s in steps]}
    yield f"  {json.dumps(shortest, ensure_ascii=False)}"


def _first_fault(path: Path) -> str:
    """Return what is wrong with the first line of a file of lines, "" if nothing is."""
    if path.name.endswith(LINES):
        for number, text in read_lines(path):
            value = parse_json(text, str(path), number)
            return f" (line {number}: {value.message})" if isinstance(value, Problem) else ""
    return ""


def data_variable(name: str) -> str:
    """Return the environment variable for the data from which a format's pages can be rebuilt.

    "" if the format, or the environment that it belongs to, has none.
    """
    environments, _ = registered()
    owners = (metadata_of(env) for env in environments.values())
    sources = (owner.data for owner in owners if name in owner.formats)
    return next((source.variable for source in sources if source is not None), "")


def _format_of(line: Any) -> str | None:
    if is_bare(line):
        return "chat"
    if not isinstance(line, dict):
        return None
    if {"task", "opening", "steps"} <= line.keys():
        return OWN
    # An environment's own formats first: they say more of it than those that all share.
    own = ((name, _load(name)) for name in _modules())
    readers = itertools.chain(own, SHARED.items())
    return next((name for name, reader in readers if reader.detect(line)), None)


def _load(name: str) -> Format | LineFormat:
    modules = _modules()
    if name not in modules:
        known = ", ".join([OWN, *modules, *SHARED])
        raise LdmError(f"There is no format {name!r}.", f"Known: {known}.")
    return cast("Format | LineFormat", importlib.import_module(modules[name]))


@cache
def _modules() -> dict[str, str]:
    """Return format → module for all registered environments, which are looked up once."""
    environments, _ = registered()
    return {
        name: module
        for env in environments.values()
        for name, module in metadata_of(env).formats.items()
    }
