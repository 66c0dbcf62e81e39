"""A memory of one environment as one file: a pack to move it, or JSONL to read it.

A pack is a zip archive of an environment's folder as in `ldm.memory.record`: the file of tuples,
and the log of episodes if there is one. Memories with equal generations and logs give equal bytes.
Members are checked before anything is written to a memory, and importing embeds nothing.

What a memory teaches is written as skills: a folder with a SKILL.md for each kind of task. The
format (agentskills.io) is Markdown below YAML with a name of at most 64 lower-case letters, digits
and single hyphens, that of the folder, and a description of at most 1,024 characters.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import not_
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ldm import records
from ldm.errors import LdmError, MemoryStoreError
from ldm.files import open_own
from ldm.memory import places, record
from ldm.memory.index import NOWHERE, BatchIndex, Generation, IndexedTuple
from ldm.memory.lessons import Contents, rules_of
from ldm.memory.log import EPISODES, Add, Begin, EpisodeLog
from ldm.memory.verifying import problems_of
from ldm.reason.rules import Habit, Rules
from ldm.records import replaced, writing
from ldm.text import check_file, printable
from ldm.types import StateActionTuple, Task, Trajectory, stable_hash

SUFFIX = ".ldmpack"
#: What a pack may hold.
MEMBERS = (record.FILE, EPISODES)
#: Maximum bytes of a member, and of all: a million tuples take some gigabytes.
MAX_BYTES = 1 << 35
#: Texts compress by a factor of about 20, a bomb by 1,000.
MAX_RATIO = 200
#: The timestamp of every member, so that equal memories give equal bytes.
TIME = (1980, 1, 1, 0, 0, 0)
CHUNK = 1 << 20
#: What a damaged archive, or damaged content of it, raises.
DAMAGES = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError, LookupError)


def export_pack(location: str, env: str, path: Path, generation: int | None = None) -> int:
    """Write the memory of `env` up to `generation` (None: the newest) to a pack.

    The log of a growing memory goes with the newest generation, and alone if there is none yet.

    Returns the number of tuples.
    Raises MemoryStoreError if there is no such memory or generation.
    """
    present = places.generations(location, env)
    whole = generation is None or not present or generation == present[-1].number
    log = EpisodeLog(record.folder_of(location, env))
    logged = whole and log.status()
    if not present and not logged:
        places.load(location, env, generation)  # raises the error that fits
    with records.replaced(path) as part, zipfile.ZipFile(part, "w") as pack:
        count = 0
        if present:
            contents = places.load(location, env, generation).rebuilt()
            count = len(contents.rows)
            contents = contents if logged else replace(contents, log=NOWHERE)
            _write(pack, record.FILE, record.content_of(contents))
        if logged:
            with open_own(log.path) as events:
                _write(pack, EPISODES, events)
    return count


def import_pack(location: str, path: Path) -> tuple[str, int]:
    """Import a pack into `location`, which must have no memory of its environment.

    Returns the environment and the number of tuples in its newest generation.
    Raises MemoryStoreError, before writing anything, if the pack is damaged, hostile or of another
    format, or the location already has a memory of its environment.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        contents = read_pack(path, folder)
        env = contents.generation.env if contents else _env_of(folder)
        log = EpisodeLog(record.folder_of(location, env))  # refuses what no folder can be called
        with places.writing(location):
            if places.generations(location, env) or log.status():
                raise MemoryStoreError(
                    f"{location} has a memory of {env} already.", "Name another with --memory."
                )
            if (folder / EPISODES).exists():
                places.refuse_server(location, "keeps no log of episodes")
                log.path.parent.mkdir(parents=True, exist_ok=True)
                with open_own(folder / EPISODES) as source, open_own(log.path, "xb") as copy:
                    shutil.copyfileobj(source, copy, CHUNK)
            if contents is None:
                return env, 0
            places.commit(location, contents)
    return env, len(contents.rows)


def read_pack(path: Path, folder: Path) -> Contents | None:
    """Unpack a pack into an empty folder; return its generations, None for a log alone.

    Raises MemoryStoreError if it is damaged, hostile or of another format.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as pack:
            _unpack(pack, folder)
        return _checked(folder)
    except LdmError as error:
        problem = error.message
    except DAMAGES as error:
        problem = f"it is damaged ({str(error) or type(error).__name__})"
    problem = " ".join(problem.replace(f"{folder}/", "").split())[:300].rstrip(".")
    raise MemoryStoreError(
        f"{path} cannot be read as a pack: {problem}.", "Get it again, or export it again."
    )


def _checked(folder: Path) -> Contents | None:
    """Return what an unpacked pack holds; raise ValueError or LdmError if it is not sound."""
    EpisodeLog(folder).read()
    known = record.read(folder)
    if known is None:
        if not (folder / EPISODES).exists():
            raise ValueError("it holds neither a generation nor a log")
        return None
    listed, contents = known
    if listed.visible != listed.generations:
        raise ValueError("it shows an earlier generation")
    if problems := problems_of(contents):
        raise ValueError(problems[0])
    return contents


def _env_of(folder: Path) -> str:
    for _, event in EpisodeLog(folder).read()[0]:
        match event:
            case Begin(task=Task(env=env)) | Add(trajectory=Trajectory(task=Task(env=env))):
                return env
    raise MemoryStoreError("The pack holds no episode.", "Export it again.")


def _write(pack: zipfile.ZipFile, name: str, content: Iterable[bytes | memoryview]) -> None:
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    with pack.open(info, "w", force_zip64=True) as target:
        target.writelines(content)


def _unpack(pack: zipfile.ZipFile, folder: Path) -> None:
    """Unpack the members that a pack may have; raise ValueError for anything else."""
    infos = pack.infolist()
    names = [info.filename for info in infos]
    if len(names) != len({*names}) or not {*names} <= {*MEMBERS}:
        raise ValueError("it holds other files than a memory's")
    for info in infos:
        if info.file_size > min(MAX_BYTES, MAX_RATIO * max(info.compress_size, 1_000)):
            raise ValueError(f"{info.filename} is compressed more than {MAX_RATIO} times")
        with pack.open(info) as source, (folder / info.filename).open("xb") as file:
            shutil.copyfileobj(source, file, CHUNK)  # no more than it says


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an exported memory: a generation, the index of a batch, or a tuple in its cell.

    id: of the tuple; recorded recalls name it.
    """

    generation: Generation | None = None
    batch: BatchIndex | None = None
    tuple: IndexedTuple | None = None
    id: Annotated[str, Field(exclude_if=not_)] = ""


def export(location: str, env: str, path: Path, generation: int | None = None) -> int:
    """Write the memory of `env` up to `generation` to a file; equal memories give equal bytes.

    location: a directory or the http(s) address of a Chroma server.
    path: the JSONL file; .gz compresses it.
    generation: the last exported one; None for the newest.

    Returns the number of tuples.
    Raises MemoryStoreError if there is no such memory or generation.
    """
    contents = places.load(location, env, generation)

    def lines() -> Iterator[Line]:
        yield from (Line(generation=g) for g in contents.generations)
        yield from (Line(batch=b) for b in contents.batches)
        yield from (Line(tuple=r, id=r.tuple.id) for r in contents.rows)

    records.write(path, lines())
    return len(contents.rows)


FILE, NAME, DESCRIPTION = "SKILL.md", 64, 1_024
#: The line by which files that may be replaced are known.
OURS = "  generator: ldm memory export"
#: The share of the episodes of a kind in which a usual step was taken; goals that are shown.
USUAL, GOALS, GOAL = 0.3, 3, 200


def export_skills(
    tuples: Sequence[StateActionTuple], env: str, folder: Path, *, replace: bool = False
) -> list[Path]:
    """Write a skill for each kind of task; return the files.

    replace: whether to replace files that this did not write. Raises LdmError for one otherwise.
    """
    rules, files = rules_of(tuples), dict[Path, str]()
    for kind in sorted({one.kind for one in tuples}):
        name = _named(f"{env} {kind}", {path.parent.name for path in files})
        goals = sorted({one.goal for one in tuples if one.kind == kind}, key=lambda x: (len(x), x))
        examples = [_line(x)[:GOAL] for x in goals[len(goals) // 2 :][:GOALS]]
        files[folder / name / FILE] = skill(name, env, kind, rules.of_kind(kind), examples)
    for path in files:
        if any(part.is_symlink() for part in (path, path.parent)):
            raise LdmError(f"{path} is a link.", "Remove it, or name another folder.")
        if path.exists() and not replace and OURS not in path.read_text("utf-8", "replace"):
            raise LdmError(
                f"{path} was not written by this command.", "Name another folder, or give --yes."
            )
    for path, text in files.items():
        with writing(path), replaced(path) as temporary:
            temporary.write_text(text, "utf-8")
    return [*files]


def skill(name: str, env: str, kind: str, rules: Rules, goals: Sequence[str]) -> str:
    """Return the text of a SKILL.md. kind: "" if the memory tells no kinds apart."""
    first = rules.habits[0] if rules.habits else Habit(kind, "", 0, 0, 0, 0, 0)
    task = _line(f"{kind} tasks of {env}" if kind else f"tasks of {env}")
    count = f"{first.of_worked} episodes that worked and {first.of_failed} that failed"
    about = f"How to do {task}, learnt from {count}. Use it for goals such as: {'; '.join(goals)}"
    described = json.dumps(about[:DESCRIPTION], ensure_ascii=False)
    head = ["---", f"name: {name}", f"description: {described}", "metadata:", OURS, "---"]
    head += ["", f"# {task[:1].upper()}{task[1:]}"]
    return "\n".join([*head, *_parts(rules)]) + "\n"


def _parts(rules: Rules) -> Iterator[str]:
    """Yield the lines of the parts of a skill that are not empty."""
    usual = [x for x in rules.habits if x.worked and x.worked >= USUAL * x.of_worked]
    steps = [f"{x.action} (in {x.worked} of {x.of_worked} episodes)" for x in usual]
    failed = [
        f"{x.action}: in {x.failed} of {x.of_failed} episodes that failed, in {x.worked} of"
        f" {x.of_worked} that worked"
        for x in rules.habits
        if x.failed > 2 and x.failed * x.of_worked > 2 * x.worked * x.of_failed
    ]
    yield from _part("Steps in their usual order", steps, "1.")
    yield from _part("What calls for which action (how often it held)", rules.lines())
    yield from _part("What failed", failed)
    yield from _part("What the record does not settle", rules.contradictions)


def _part(title: str, texts: Iterable[str], mark: str = "-") -> list[str]:
    lines = [f"{mark} {_line(text)}" for text in texts]
    return ["", f"## {title}", "", *lines] if lines else []


def _line(text: str) -> str:
    """Return a recorded text on one line."""
    return printable(" ".join(text.split()))


def _named(text: str, taken: set[str]) -> str:
    """Return a safe name that is not taken."""
    name = "-".join(re.findall("[a-z0-9]+", text.lower()))
    if len(name) > NAME or name in taken or not text.isascii():
        name = f"{name[: NAME - 9].rstrip('-') or 'skill'}-{stable_hash(text, length=8)}"
    return name
