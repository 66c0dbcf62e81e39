"""Packs: a memory of one environment as one file, so that importing embeds nothing.

A pack is a zip archive of the environment's folder as in `ldm.memory.record`: the pointer, one
generation, and the logs of episodes and feedback if there are any. Memories with equal generations
and logs give equal bytes. Members are checked before anything is written to a memory.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO

from ldm import records
from ldm.errors import LdmError, MemoryStoreError
from ldm.files import open_own
from ldm.memory import places, record
from ldm.memory.addresses import is_server
from ldm.memory.contents import Contents
from ldm.memory.index import Generation
from ldm.memory.log import EPISODES, FEEDBACK, EpisodeLog
from ldm.memory.verifying import problems_of
from ldm.text import check_file

SUFFIX = ".ldmpack"
#: What a pack may hold, as names within it.
_MEMBERS = (record.MANIFEST, record.KINDS, record.RELEVANCE, *record.ARRAYS)
_FILES = "|".join(map(re.escape, _MEMBERS))
MEMBER = re.compile(
    rf"current\.json|episodes\.log|feedback\.log|gen-\d{{6}}-[0-9a-f]{{8}}/({_FILES})"
)
#: Maximum bytes of a member, and of all: a million tuples take some gigabytes.
MAX_BYTES = 1 << 35
#: Texts compress by a factor of about 20, a bomb by 1,000.
MAX_RATIO = 200
#: The timestamp of every member, so that equal memories give equal bytes.
TIME = (1980, 1, 1, 0, 0, 0)
CHUNK = 1 << 20


def export_pack(location: str, env: str, path: Path, generation: int | None = None) -> int:
    """Write the memory of `env` up to `generation` (None: the newest) to a pack.

    The logs of a growing memory go with the newest generation, and alone if there is none yet.

    Returns the number of tuples.
    Raises MemoryStoreError if there is no such memory or generation.
    """
    present = places.generations(location, env)
    whole = generation is None or not present or generation == present[-1].number
    logs = _logs(location, env) if whole else []
    if not present and not logs:
        places.load(location, env, generation)  # raises the error that fits
    count = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = record.folder_of(scratch, env)
        if present:
            contents = places.load(location, env, generation).rebuilt()
            count = len(contents.rows)
            with record.writing(scratch):
                number = contents.generation.number
                known = [one for one in present if one.number <= number]
                log = _log_place(record.folder_of(location, env)) if logs else None
                record.commit(scratch, contents, known, log)
        with records.replaced(path) as part, zipfile.ZipFile(part, "w") as pack:
            files = sorted(p for p in folder.rglob("*") if p.is_file()) if present else []
            for file in files:
                _write(pack, str(file.relative_to(folder)), file)
            for file in logs:
                _write(pack, file.name, file)
    return count


def import_pack(location: str, path: Path) -> tuple[str, int]:
    """Import a pack into `location`, which must have no memory of its environment.

    Returns the environment and the number of tuples in its newest generation.
    Raises MemoryStoreError, before writing anything, if the pack is damaged, hostile or of another
    format, or the location already has a memory of its environment.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        contents, generations = read_pack(path, folder)
        env = contents.generation.env if contents else _env_of(folder)
        record.folder_of(location, env)  # raises for a name that no folder can have
        with places.writing(location):
            if places.known_generations(location).get(env) or _logs(location, env):
                raise MemoryStoreError(
                    f"{location} has a memory of {env} already.", "Name another with --memory."
                )
            logs = [folder / name for name in (EPISODES, FEEDBACK) if (folder / name).exists()]
            if logs:
                places.refuse_server(location, "keeps no log of episodes")
            for file in logs:
                target = record.folder_of(location, env)
                target.mkdir(parents=True, exist_ok=True)
                with open_own(file) as source, open_own(target / file.name, "xb") as copy:
                    shutil.copyfileobj(source, copy, CHUNK)
            if contents is None:
                return env, 0
            places.commit(location, contents, generations[:-1], log=_log_place(folder))
    return env, len(contents.rows)


def read_pack(path: Path, folder: Path) -> tuple[Contents | None, tuple[Generation, ...]]:
    """Unpack a pack into an empty folder; return its newest generation, and all of them.

    Raises MemoryStoreError if it is damaged, hostile or of another format.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as pack:
            _unpack(pack, folder)
        return _checked(folder)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        problem = f"it is damaged ({' '.join(str(error).replace(f'{folder}/', '').split())[:200]})"
    except (RecursionError, LookupError, NotImplementedError) as error:
        problem = f"it is damaged ({type(error).__name__})"
    except LdmError as error:
        problem = error.message.replace(f"{folder}/", "").rstrip(".")
    raise MemoryStoreError(
        f"{path} cannot be read as a pack: {problem}.", "Get it again, or export it again."
    )


def _checked(folder: Path) -> tuple[Contents | None, tuple[Generation, ...]]:
    """Return what an unpacked pack holds; raise ValueError or LdmError if it is not sound."""
    for name in (EPISODES, FEEDBACK):
        EpisodeLog(folder, name=name).read()
    known = record.manifest(folder)
    if known is None:
        if not (folder / EPISODES).exists():
            raise ValueError("it holds neither a generation nor a log")
        return None, ()
    pointer, listed = known
    if pointer.generation != listed.generations[-1].number:
        raise ValueError("its pointer names an earlier generation")
    contents = record.read(folder / pointer.folder, listed)
    if problems := problems_of(contents, listed.generations):
        raise ValueError(problems[0])
    # Mapped files are gone with the folder.
    return contents.rebuilt(), listed.generations


def _env_of(folder: Path) -> str:
    for _, event in EpisodeLog(folder).read()[0]:
        if env := getattr(event, "env", "") or getattr(
            getattr(getattr(event, "trajectory", None), "task", None), "env", ""
        ):
            return str(env)
    raise MemoryStoreError("The pack holds no episode.", "Export it again.")


def _logs(location: str, env: str) -> list[Path]:
    if is_server(location):
        return []
    folder = record.folder_of(location, env)
    logs = [folder / name for name in (EPISODES, FEEDBACK)]
    return [file for file in logs if os.path.lexists(file)]


def _log_place(folder: Path) -> tuple[str, int]:
    known = record.manifest(folder)
    return known[1].log if known else ("", 0)


def _write(pack: zipfile.ZipFile, name: str, file: Path) -> None:
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    with open_own(file) as source, pack.open(info, "w", force_zip64=True) as target:
        shutil.copyfileobj(source, target, CHUNK)


def _unpack(pack: zipfile.ZipFile, folder: Path) -> None:
    """Unpack the members that a pack may have; raise ValueError for anything else."""
    infos = pack.infolist()
    names = [info.filename for info in infos]
    if len(names) != len({*names}) or not all(MEMBER.fullmatch(name) for name in names):
        raise ValueError("it holds other files than a memory's")
    if len({name.partition("/")[0] for name in names if "/" in name}) > 1:
        raise ValueError("it holds more than one generation")
    for info in infos:
        if info.file_size > min(MAX_BYTES, MAX_RATIO * max(info.compress_size, 1_000)):
            raise ValueError(f"{info.filename} is compressed more than {MAX_RATIO} times")
        target = folder / info.filename
        target.parent.mkdir(exist_ok=True)
        with pack.open(info) as source, target.open("xb") as file:
            _copy(source, file, info.file_size)


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy at most `size` bytes; raise ValueError if there are more."""
    while part := source.read(CHUNK):
        size -= len(part)
        if size < 0:
            raise ValueError("a member is longer than it says")
        target.write(part)
