"""Published data: download, resume, verify and unpack them, and compile them into a cache.

A cache holds arrays, one text and metadata, made once from files. They are written atomically and
memory-mapped, so that they open instantly and worker processes share their memory.
"""

from __future__ import annotations

import fcntl
import hashlib
import http
import io
import json
import mmap
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np

from ldm.envs._base import facts
from ldm.errors import LdmError
from ldm.records import replaced
from ldm.text import MAX_RATIO, MAX_UNPACKED, check_file
from ldm.text import read_array as array_in
from ldm.types import stable_hash

_META, _TEXT = "meta.json", "text.jsonl"
#: Bytes of a file that are read for its checksum: all of it, unless opening would take long.
_SUMMED = 64 * 2**20

#: Write the text to a binary file; return the arrays by name, and metadata as JSON values.
Compile = Callable[[IO[bytes]], tuple[dict[str, np.ndarray], dict[str, Any]]]


class Compiled(NamedTuple):
    """Arrays by name, a text (mapped memory if it comes from a cache), and metadata.

    The array `text_ends` says where each line of the text with a JSON value ends.
    """

    arrays: Mapping[str, np.ndarray]
    text: bytes | mmap.mmap
    meta: Mapping[str, Any]

    def value(self, place: int) -> Any:
        """Return the JSON value of a line; raise LdmError if it is damaged."""
        ends = self.arrays["text_ends"]
        try:
            return json.loads(self.text[int(ends[place - 1]) if place else 0 : int(ends[place])])
        except (ValueError, RecursionError) as error:
            raise LdmError(
                f"The compiled data are damaged: {error}.",
                "Remove the folder of the cache; they are then compiled again.",
            ) from error


def open_compiled(
    compile_files: Compile, files: Iterable[Path], settings: object, cache: Path | None
) -> Compiled:
    """Return the result of `compile_files` for `files`, from the cache if it is there.

    settings: JSON values that the result depends on in addition to the files, the version of its
    format among them. cache: None compiles without storing.
    Raise LdmError if the cache cannot be used, and any exception of `compile_files`.
    """
    if cache is None:
        text = io.BytesIO()
        arrays, meta = compile_files(text)
        return Compiled(arrays, text.getvalue(), meta)
    try:
        key = stable_hash([_identity(path) for path in files], settings)
        folder = cache / key
        if not folder.is_dir():
            with _lock(cache / f"{key}.lock"):
                if not folder.is_dir():
                    _write(folder, compile_files)
        return _open(folder)
    except OSError as error:
        raise LdmError(
            f"The cache of compiled data {cache} cannot be used: {error}.",
            "Use another folder with --env.cache PATH.",
        ) from error


def _identity(path: Path) -> list[str | int]:
    """Return what tells a file's content from an earlier one: its place, size and time."""
    check_file(path)
    state = path.stat()
    return [str(path.resolve()), state.st_size, state.st_mtime_ns]


def _write(folder: Path, compile_files: Compile) -> None:
    """Compile into a folder beside `folder`, and rename it once it is complete."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir(parents=True)
    try:
        with (temporary / _TEXT).open("wb") as text:
            arrays, meta = compile_files(text)
        for name, values in arrays.items():
            np.save(temporary / f"{name}.npy", values)
        sums = {path.name: _sum(path) for path in temporary.iterdir()}
        (temporary / _META).write_text(
            json.dumps({**meta, "arrays": sorted(arrays), "sums": sums}), encoding="utf-8"
        )
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _open(folder: Path) -> Compiled:
    try:
        check_file(folder / _META)
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        for name, known in meta["sums"].items():
            check_file(folder / name)
            if _sum(folder / name) != known:
                raise ValueError(f"{name} is not as it was written")
        # Plain arrays on mapped memory: numpy.memmap would cost microseconds for every slice.
        files = {name: folder / f"{name}.npy" for name in meta["arrays"]}
        arrays = {name: np.asarray(array_in(one, mapped=True)) for name, one in files.items()}
        with (folder / _TEXT).open("rb") as file:
            text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except Exception as error:  # a damaged file makes its readers raise many kinds
        raise LdmError(
            f"The compiled data in {folder} are damaged: {error}.",
            "Remove that folder; it is then compiled again.",
        ) from error
    return Compiled(arrays, text, meta)


def _sum(path: Path) -> list[int]:
    """Return the size of a file and the CRC-32 of its beginning."""
    with path.open("rb") as file:
        return [path.stat().st_size, zlib.crc32(file.read(_SUMMED))]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Admit one process at a time; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


#: Called with the activity, the amount done, and the total amount (0 if unknown).
Progress = Callable[[str, int, int], None]

_ATTEMPTS = 3
_TIMEOUT = 60.0
_AGAIN = "Run the same command again: it continues where it stopped."


class RemoteFile(NamedTuple):
    """A published file.

    name: its name in the data folder; "" for the last part of the URL. sha256: "" if none is
    published. archive: whether it is unpacked into the folder, and then removed.
    """

    url: str
    name: str = ""
    sha256: str = ""
    archive: bool = False

    @property
    def filename(self) -> str:
        return self.name or self.url.rpartition("/")[2]


def published(module: str) -> dict[str, tuple[RemoteFile, ...]]:
    """Return size → the files that environment.toml, beside the file of a module, names for it."""
    sizes = facts(module, "environment.toml")["files"]
    return {size: tuple(RemoteFile(**file) for file in files) for size, files in sizes.items()}


def fetch_all(
    files: Sequence[RemoteFile], destination: Path, progress: Progress | None = None
) -> list[tuple[RemoteFile, str]]:
    """Download files into a folder, and unpack archives; return each file with its SHA-256.

    An interrupted download is resumed, and an existing file is only checked. Raise LdmError if a
    download, a checksum or an archive is bad, or if the server sends a web page instead of a file.
    """
    downloads = []
    for one in files:
        target = destination / one.filename
        digest = fetch(one.url, target, sha256=one.sha256, progress=progress)
        try:
            _refuse_page(target, one.url)
            if one.archive:
                unpack(target, destination, progress=progress)
        finally:
            if one.archive:  # also a bad one, or it would be taken for the download the next time
                target.unlink(missing_ok=True)
        downloads.append((one, digest))
    return downloads


def _refuse_page(file: Path, url: str) -> None:
    """Remove the file and raise LdmError if it starts like HTML."""
    with file.open("rb") as stream:
        start = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        file.unlink()
        raise LdmError(
            f"{url} sent a web page instead of {file.name}.",
            "The server may limit downloads: try again later, or download the file with a browser "
            f"into {file.parent}.",
        )


def fetch(url: str, file: Path, *, sha256: str = "", progress: Progress | None = None) -> str:
    """Download `url` to `file` and return its SHA-256, in hexadecimal.

    The bytes received stay in `<file>.part`, and a later call requests only the rest, unless the
    server's copy has changed. Content with another SHA-256 than `sha256` is rejected. An existing
    `file` is only checked. Raise LdmError on failure; `file` is then complete or absent.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            return _check(file, sha256, url)
        part = file.with_name(file.name + ".part")
        _fetch_part(url, part, progress)
        digest = _check(part, sha256, url)
        part.replace(file)
        _tag_file(part).unlink(missing_ok=True)
        return digest
    except OSError as error:
        raise LdmError(
            f"The download cannot be written to {file.parent}: {error}.",
            "Free space there or choose another folder with --to.",
        ) from error


def unpack(archive: Path, destination: Path, *, progress: Progress | None = None) -> int:
    """Extract a zip archive below `destination` and return the number of files.

    Each file is written under a temporary name and renamed, so that none is ever incomplete.
    Raise LdmError if the archive is damaged or a member would be written outside `destination`.
    """
    check_file(archive)
    try:
        with zipfile.ZipFile(archive) as zip_file:
            members = [member for member in zip_file.infolist() if not member.is_dir()]
            _check_sizes(members, archive)
            targets = [_target(member, destination, archive) for member in members]
            for count, (member, target) in enumerate(zip(members, targets, strict=True), start=1):
                _extract(zip_file, member, target)
                if progress:
                    progress("unpacking", count, len(members))
            return len(members)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        # A RuntimeError is an encrypted member, or one packed in a way that is not known.
        raise LdmError(
            f"{archive} is damaged: {error}.", "Get it again, or from another place."
        ) from error
    except OSError as error:
        raise LdmError(
            f"{archive} cannot be unpacked below {destination}: {error}.",
            "Free space there or choose another folder with --to.",
        ) from error


def _check_sizes(members: Sequence[zipfile.ZipInfo], archive: Path) -> None:
    """Raise LdmError if the archive would unpack to far more than its size allows."""
    unpacked = sum(member.file_size for member in members)
    if unpacked > max(MAX_UNPACKED, MAX_RATIO * archive.stat().st_size):
        raise LdmError(
            f"{archive} unpacks to {unpacked // 2**20} MB, far more than such an archive holds.",
            "Nothing was unpacked. Use an archive that you trust.",
        )


def _fetch_part(url: str, part: Path, progress: Progress | None) -> None:
    import httpx2

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _request(url, part, progress)
            return
        except httpx2.HTTPStatusError as error:
            answer = error.response
            raise LdmError(
                f"The server answers {answer.status_code} ({answer.reason_phrase}) for {url}.",
                "Check the address.",
            ) from error
        except httpx2.HTTPError as error:
            if attempt == _ATTEMPTS:
                received = part.stat().st_size if part.exists() else 0
                raise LdmError(
                    f"The download of {url} stopped after {received} bytes: {error}.", _AGAIN
                ) from error


def _request(url: str, part: Path, progress: Progress | None) -> None:
    """Append the rest of the response to `part`; start over if the server cannot resume."""
    import httpx2

    received = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "ldm", "Accept-Encoding": "identity"}
    if received:
        headers["Range"] = f"bytes={received}-"
        if _tag_file(part).exists():
            headers["If-Range"] = _tag_file(part).read_text(encoding="latin-1")
    with httpx2.stream(
        "GET", url, headers=headers, timeout=_TIMEOUT, follow_redirects=True
    ) as response:
        if received and response.status_code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            if response.headers.get("Content-Range", "").rpartition("/")[2] == str(received):
                return
            part.unlink()
            raise httpx2.ReadError("the server's file is shorter than the part received")
        response.raise_for_status()
        resumed = response.status_code == http.HTTPStatus.PARTIAL_CONTENT
        received = received if resumed else 0
        _remember_tag(part, response.headers.get("ETag") or response.headers.get("Last-Modified"))
        rest = response.headers.get("Content-Length")
        total = received + int(rest) if rest else 0  # without it, the file ends with the connection
        with part.open("ab" if resumed else "wb") as file:
            for chunk in response.iter_raw():
                received += file.write(chunk)
                if progress:
                    progress("downloading", received, total)


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _remember_tag(part: Path, tag: str | None) -> None:
    if tag and not tag.startswith("W/"):  # a weak tag must not be used to resume
        _tag_file(part).write_text(tag, encoding="latin-1")
    else:
        _tag_file(part).unlink(missing_ok=True)


def _check(file: Path, sha256: str, url: str) -> str:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 and digest != sha256.strip().lower():
        file.unlink()
        _tag_file(file).unlink(missing_ok=True)
        raise LdmError(
            f"The file from {url} has the SHA-256 {digest}, not {sha256}; it was removed.",
            "Check the expected checksum, or download again.",
        )
    return digest


def _target(member: zipfile.ZipInfo, destination: Path, archive: Path) -> Path:
    """Return the path of a member; raise LdmError for a link or a path outside `destination`."""
    name = PurePosixPath(member.filename.replace("\\", "/"))
    inside = name.parts and not name.is_absolute() and not {"..", ":"} & {*name.parts, *str(name)}
    if not inside or not str(name).isprintable() or stat.S_ISLNK(member.external_attr >> 16):
        raise LdmError(
            f"{archive} has the member {member.filename!r}, which has no proper place below "
            f"{destination}.",
            "Nothing was unpacked. Use an archive that you trust.",
        )
    return destination.joinpath(*name.parts)


def _extract(zip_file: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    with (
        zip_file.open(member) as source,
        replaced(target) as temporary,
        temporary.open("wb") as file,
    ):
        shutil.copyfileobj(source, file)
