"""Fetching published data: downloads that resume and are checked, archives unpacked safely."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import stat
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from ldm.errors import LdmError

#: Called with what is being done, how much of it is done, and how much there is (0: unknown).
Progress = Callable[[str, int, int], None]

_CHUNK = 1 << 18
_ATTEMPTS = 3
_TIMEOUT = 60.0
_AGAIN = "Run the same command again: it goes on where it stopped."


class _Interrupted(Exception):
    """The connection broke off before the end."""


def fetch(url: str, file: Path, *, sha256: str = "", progress: Progress | None = None) -> str:
    """Download `url` to `file`; return the SHA-256 of what came, in hexadecimal.

    What has arrived is kept in `<file>.part`, and a later call asks only for the rest, unless the
    server's copy has changed since. With `sha256` a different content is refused. A `file` that is
    there already is not fetched again, only checked. Raises LdmError; `file` is whole or absent.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise LdmError(
            f"{url!r} is not an http or https address.", "Give the archive's full address."
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            part = file.with_name(file.name + ".part")
            _fetch_part(url, part, progress)
            _check(part, sha256, url)
            part.replace(file)
            _tag_file(part).unlink(missing_ok=True)
        return _check(file, sha256, url)
    except OSError as error:
        raise LdmError(
            f"The download cannot be written to {file.parent}: {error}.",
            "Free space there or choose another folder with --to.",
        ) from error


def unpack(archive: Path, destination: Path, *, progress: Progress | None = None) -> int:
    """Extract a zip archive below `destination`; return the number of files.

    Every file is written beside its place and renamed, so none is ever half-written. Raises
    LdmError where the archive is damaged or a member would land outside of `destination`.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [member for member in opened.infolist() if not member.is_dir()]
            targets = [_target(member, destination, archive) for member in members]
            for count, (member, target) in enumerate(zip(members, targets, strict=True), start=1):
                _extract(opened, member, target)
                if progress:
                    progress("unpacking", count, len(members))
            return len(members)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise LdmError(
            f"{archive} is damaged: {error}.", "Remove it and download it again."
        ) from error
    except OSError as error:
        raise LdmError(
            f"{archive} cannot be unpacked below {destination}: {error}.",
            "Free space there or choose another folder with --to.",
        ) from error


def _fetch_part(url: str, part: Path, progress: Progress | None) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _request(url, part, progress)
            return
        except urllib.error.HTTPError as error:
            raise LdmError(
                f"The server answers {error.code} ({error.reason}) for {url}.", "Check the address."
            ) from error
        except (_Interrupted, http.client.HTTPException, urllib.error.URLError, TimeoutError,
                ConnectionError) as error:  # fmt: skip
            if attempt == _ATTEMPTS:
                reason = getattr(error, "reason", error)
                have = part.stat().st_size if part.exists() else 0
                raise LdmError(
                    f"The download of {url} broke off after {have} bytes: {reason}.", _AGAIN
                ) from error


def _request(url: str, part: Path, progress: Progress | None) -> None:
    """Append the rest of the answer to `part`, or start over where the server does not resume."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "ldm"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if _tag_file(part).exists():
            headers["If-Range"] = _tag_file(part).read_text(encoding="latin-1")
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - scheme checked by fetch
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        whole = (error.headers.get("Content-Range") or "").rpartition("/")[2]
        if whole != str(have):
            part.unlink()
            raise _Interrupted("the server's file is shorter than what had arrived") from error
        return
    with answer:
        resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if not resumed:
            have = 0
        tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        _remember_tag(part, tag)
        with part.open("ab" if resumed else "wb") as file:
            _copy(answer, file, have, progress)


def _copy(
    answer: http.client.HTTPResponse, file: IO[bytes], have: int, progress: Progress | None
) -> None:
    length = answer.headers.get("Content-Length")
    total = have + int(length) if length else 0
    while chunk := answer.read1(_CHUNK):
        file.write(chunk)
        have += len(chunk)
        if progress:
            progress("downloading", have, total)
    if total and have < total:
        raise _Interrupted(f"{total - have} bytes are missing")


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _remember_tag(part: Path, tag: str) -> None:
    if tag and not tag.startswith("W/"):  # a weak tag must not be used to resume
        _tag_file(part).write_text(tag, encoding="latin-1")
    else:
        _tag_file(part).unlink(missing_ok=True)


def _check(file: Path, sha256: str, url: str) -> str:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if sha256 and digest != sha256.strip().lower():
        file.unlink()
        _tag_file(file).unlink(missing_ok=True)
        raise LdmError(
            f"What came from {url} has the SHA-256 {digest}, not {sha256}; it was removed.",
            "Check the expected checksum, or download again.",
        )
    return digest


def _target(member: zipfile.ZipInfo, destination: Path, archive: Path) -> Path:
    """Return where a member goes. Raises LdmError for a link or a place outside."""
    name = PurePosixPath(member.filename.replace("\\", "/"))
    outside = name.is_absolute() or ".." in name.parts or ":" in (name.parts or ("",))[0]
    if outside or stat.S_ISLNK(member.external_attr >> 16):
        raise LdmError(
            f"{archive} has the member {member.filename!r}, which lands outside of {destination}.",
            "Nothing was unpacked. Use an archive that you trust.",
        )
    return destination.joinpath(*name.parts)


def _extract(opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with opened.open(member) as source, temporary.open("wb") as file:
            shutil.copyfileobj(source, file)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
