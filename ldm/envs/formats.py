"""Read trajectory files in our own schema and in other formats, detected from their content.

Formats are plug-ins (entry points `ldm.formats`): those of the recordings of one environment, and
those that tools share, which may also write. They read lines as dataclasses (`read_as`), so that
problems name the field.

A format is a module with
- SUFFIXES, the endings of its files, which are found in a folder if they are LINES; SIGN, what
  identifies them, for messages;
- detect(value), whether the JSON value of a line or a document has this format;
- read(path, assumed), which yields the trajectories in a file and a Problem for each invalid
  record, or parse(line, file, number), for one trajectory per line;
- perhaps write(path, trajectories), of JSONL files, and ENV, the environment that all its
  recordings are of, whose data they may need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from ldm import records, registry
from ldm.config import TRAJECTORIES, Option
from ldm.envs.metadata import metadata
from ldm.errors import LdmError, RecordError
from ldm.records import Problem
from ldm.text import counted, parse_json, read_bytes, read_lines
from ldm.types import Origin, Trajectory

A = TypeVar("A")
R = TypeVar("R")


class FieldError(Exception):
    """A field of the wrong type or value. field: its path, such as "goal" or "steps.3.action"."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "is empty")
    return text


#: A text with more than white space.
Text = Annotated[str, AfterValidator(_not_blank)]


def located(read: Callable[[], R], file: str, number: int) -> R | Problem:
    """Return the result of `read`, or the problem with the field that it raises."""
    try:
        return read()
    except FieldError as error:
        return Problem(file, number, error.field, str(error))


def parsed(
    text: str | bytes, line_type: type[A], make: Callable[[A], R], file: str, number: int
) -> R | Problem:
    """Return `make` of a line that was read as a dataclass, or the problem with the line."""
    line = records.parse(text, line_type, file, number, foreign=True)
    return line if isinstance(line, Problem) else located(lambda: make(line), file, number)


def read_as(path: Path, line_type: type[A], make: Callable[[A], R]) -> Iterator[R | Problem]:
    """Yield `parsed` for each line of a file."""
    for number, text in read_lines(path):
        yield parsed(text, line_type, make, str(path), number)


#: Entry points of formats.
GROUP = "ldm.formats"
#: Our own schema.
OWN = "ldm"
LINES = (".jsonl", ".jsonl.gz")
#: Invalid records that are reported one by one; the rest are only counted.
MAX_REPORTED = 20
_EXAMPLE = (
    '{"task": {"id": "1", "env": "shop", "split": "train", "goal": "find a red lamp", '
    '"kind": "find"}, '
    '"opening": "You are in a shop.", "steps": [{"action": "ask for red lamps", '
    '"observation": "Here is one.", "reward": 1.0}], "score": 1.0, "success": true, '
    '"origin": "human"}'
)


@dataclass(frozen=True, slots=True)
class Assumed:
    """Values for recordings of other tools that do not state them.

    env, split, kind: of the task, see `ldm.types.Task`; recordings without an environment are
    refused. score: of each episode, in [0, 1]; None if unknown. data: a folder with the
    environment's data, from which observations can be rebuilt.
    """

    env: Annotated[str, Option("Environment of recordings that name none.", TRAJECTORIES)] = ""
    split: Annotated[str, Option("Split of these recordings.", TRAJECTORIES)] = "recorded"
    kind: Annotated[str, Option("Task kind of these recordings.", TRAJECTORIES)] = ""
    origin: Annotated[Origin, Option("Who acted in these recordings.", TRAJECTORIES)] = "agent"
    score: Annotated[
        float | None, Option("Score of these recordings; default: unknown.", TRAJECTORIES)
    ] = None
    data: str | None = None


NOTHING = Assumed()


def files_below(paths: Iterable[Path]) -> list[Path]:
    """Return the trajectory files among `paths` and below them, sorted, without hidden ones.

    Of a folder those of JSONL are returned. Raise LdmError for a path that does not exist, and for
    a file of another kind.
    """
    files: set[Path] = set()
    known = tuple(dict.fromkeys([*LINES, *(s for f in _formats().values() for s in f.SUFFIXES)]))
    for path in paths:
        if not path.exists():
            raise LdmError(f"{path} does not exist.", "Check the path.")
        if path.is_dir():
            below = (p for p in path.rglob("*") if p.is_file() and p.name.endswith(LINES))
            files.update(
                p for p in below if not any(q.startswith(".") for q in p.relative_to(path).parts)
            )
        elif not path.name.endswith(known):
            raise LdmError(f"{path} is not a trajectory file.", f"They end in {', '.join(known)}.")
        elif not path.is_file():  # a named pipe would block
            raise LdmError(f"{path} is neither a file nor a folder.", "Name a file.")
        else:
            files.add(path)
    return sorted(files)


def format_of(path: Path) -> str | None:
    """Return the format of a file, detected from its first readable line or its document.

    Return None if it is unknown.
    """
    if path.name.endswith(LINES):
        readable = (one for one in _values(path) if not isinstance(one, Problem))
        return next(map(_format_of, readable), None)
    value = parse_json(read_bytes(path), str(path))
    if isinstance(value, Problem):
        return None
    detected = _format_of(value)
    if detected is None and isinstance(value, list) and value:
        detected = _format_of(value[0])
    module = _formats().get(detected or "")
    return detected if module and path.suffix in module.SUFFIXES else None


def read(path: Path, name: str, assumed: Assumed = NOTHING) -> Iterator[Trajectory | Problem]:
    """Yield the trajectories of a file in the format `name`, and a problem for each bad record."""
    if name == OWN:
        yield from records.scan(path, Trajectory)
        return
    reader = _load(name)
    if hasattr(reader, "read"):
        yield from reader.read(path, assumed)
        return
    for number, text in read_lines(path):
        line = parse_json(text, str(path), number)
        if not isinstance(line, dict | Problem):
            line = Problem(str(path), number, "", "not a JSON object")
        yield line if isinstance(line, Problem) else reader.parse(line, str(path), number)


def written_as(path: Path, name: str = "") -> str:
    """Return the format in which a file is written, our own if `name` is "".

    Raise LdmError if there is no such format, or if a file of that name could not be read again.
    """
    writers = [OWN, *(name for name, one in _formats().items() if hasattr(one, "write"))]
    if (name or OWN) not in writers:
        raise LdmError(f"There is no output format {name!r}.", f"Known: {', '.join(writers)}.")
    if name and not path.name.endswith(LINES):
        raise LdmError(f"{path} has the wrong extension.", f"Let it end in {' or '.join(LINES)}.")
    return name or OWN


def write(path: Path, trajectories: Sequence[Trajectory], name: str = "") -> None:
    """Write trajectories so that reading them again gives equal ones. name: see `written_as`."""
    name = written_as(path, name)
    if name == OWN:
        records.write(path, trajectories)
    else:
        _load(name).write(path, trajectories)


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
    format → the folder for `Assumed.data`.
    Raise RecordError at the first invalid record if `strict`.
    """
    trajectories: list[Trajectory] = []
    problems: list[Problem] = []
    unknown = 0
    for path in files_below(paths):
        detected = name or format_of(path)
        if detected is None:
            message(f"{path}: no trajectories; skipped{_first_fault(path)}")
            unknown += 1
            continue
        for record in read(path, detected, replace(assumed, data=data(detected) or assumed.data)):
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
    """Yield, line by line, what identifies each format, and a short example of our own."""
    yield "Looked for:"
    yield f'  {OWN}: "task", "opening" and "steps" in each line'
    yield from (f"  {name}: {one.SIGN}" for name, one in _formats().items())
    yield "One line of our own format (`ldm validate --schema trajectory` has the rest):"
    yield f"  {_EXAMPLE}"


def data_variable(name: str) -> str:
    """Return the environment variable for the data of a format's environment, "" if none."""
    env = getattr(_formats().get(name), "ENV", "")
    source = metadata(env).data if env else None
    return "" if source is None else source.variable


def _first_fault(path: Path) -> str:
    """Return the problem with the first line of a JSONL file, "" if there is none."""
    first = next(_values(path), None) if path.name.endswith(LINES) else None
    return f" (line {first.line}: {first.message})" if isinstance(first, Problem) else ""


def _values(path: Path) -> Iterator[Any]:
    """Yield the value in each line of a JSONL file, or the problem with it."""
    return (parse_json(text, str(path), number) for number, text in read_lines(path))


def _format_of(value: Any) -> str | None:
    if isinstance(value, dict) and {"task", "opening", "steps"} <= value.keys():
        return OWN
    return next((name for name, one in _formats().items() if one.detect(value)), None)


def _load(name: str) -> Any:
    known = _formats()
    if name not in known:
        raise LdmError(f"There is no format {name!r}.", f"Known: {', '.join([OWN, *known])}.")
    return known[name]


@cache
def _formats() -> dict[str, Any]:
    """Return name → module of all formats that can be loaded.

    Those of environments come first: their signs say more than those that tools share.
    """
    modules = {}
    for name in registry.names({}, GROUP):
        try:
            modules[name] = registry.load(name, {}, GROUP, "format")
        except LdmError:
            continue
    return dict(sorted(modules.items(), key=lambda one: not hasattr(one[1], "ENV")))
