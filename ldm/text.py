"""Untrusted text: bounded reading, JSON, terminal-safe printing, and secrets kept out of records.

Every file, reply and record that may come from outside is read here. A fault is a `Problem` with
file, line and field, or an LdmError, never an exception of a library.
"""

from __future__ import annotations

import base64
import codecs
import gzip
import io
import json
import os
import re
import stat
import threading
import unicodedata
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote, urlsplit

from ldm.errors import LdmError

#: Maximum bytes of a line, and of a JSON document unless its reader allows more.
MAX_LENGTH = 64 * 2**20
#: A packed file is refused if it unpacks to more than MAX_UNPACKED bytes and MAX_RATIO times its
#: size.
MAX_UNPACKED = 100 * 2**20
MAX_RATIO = 200
#: Maximum links followed from one to the next, as in the system.
MAX_LINKS = 40

_CHUNK = 2**20
_LINE = re.compile(r" at line (\d+) column (\d+)$")
#: Message of the parser → plain words.
_MEANINGS = {
    "recursion limit exceeded": "nested too deeply",
    "number out of range": "a number of too many digits",
    "unexpected end of hex escape": "half a surrogate pair, or an incomplete escape",
    "lone leading surrogate in hex escape": "half a surrogate pair",
    "invalid unicode code point": "not UTF-8 text",
    "expected value": "a value is missing or not valid JSON",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a line of a file is not a record."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where}:{self.field}: {self.message}" if self.field else f"{where}: {self.message}"


# JSON


def parse_json(
    content: str | bytes, file: str, line: int = 1, *, most: int = MAX_LENGTH
) -> Any | Problem:
    """Return the JSON value in `content`, or the problem with it.

    Refused are texts of more than `most` bytes or not in UTF-8, half surrogate pairs, NaN and
    infinity, more than 200 levels, and integers of more than 4,300 digits.
    """
    import pydantic_core

    if isinstance(content, str):  # bytes that were not UTF-8 are surrogates in it
        content = content.encode("utf-8", "surrogatepass")
    if excess := too_long(content, most):
        return Problem(file, line, "", excess)
    try:
        return pydantic_core.from_json(content.rstrip(), allow_inf_nan=False)
    except ValueError as error:
        message = str(error)
    place = _LINE.search(message)
    number = int(place[1]) if place else 1
    return Problem(file, line + max(number, 1) - 1, "", f"not JSON: {json_fault(message)}")


def read_json(path: Path, *, most: int = MAX_LENGTH) -> Any:
    """Return the JSON value in a file, unpacked if its name ends in .gz.

    Raises LdmError that names file and line if the file is unreadable or `parse_json` refuses it.
    """
    value = parse_json(read_bytes(path, most=most), str(path), most=most)
    if isinstance(value, Problem):
        raise LdmError(f"{value}.", "The file is damaged, or ldm did not write it.")
    return value


def value_in(text: str, start: int = 0) -> tuple[Any, int] | None:
    """Return the JSON value that begins at `start` and its end, or None if there is none.

    Any text may follow. Line breaks within strings are accepted because models write them.
    """
    try:
        value, end = _LOOSE.raw_decode(text, start)
        # Half surrogate pairs, NaN and infinity are ValueErrors here.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return value, end


_LOOSE = json.JSONDecoder(strict=False)


def too_long(content: bytes, most: int = MAX_LENGTH) -> str:
    """Return a message if the content exceeds `most` bytes, else ""."""
    return f"longer than {most // 2**20} MB" if len(content) > most else ""


def json_fault(message: str) -> str:
    """Return the parser's message in plain words, with the column."""
    place = _LINE.search(message)
    fault = message[: place.start()] if place else message
    fault = "it ends too early" if fault.startswith("EOF") else _MEANINGS.get(fault, fault)
    return fault + (f" (column {place[2]})" if place else "")


# Files


def read_bytes(path: Path, *, most: int = MAX_LENGTH) -> bytes:
    """Return the first `most` + 1 bytes of a file, without a byte order mark.

    Raises LdmError if the file is unreadable.
    """
    with opened(path) as file:
        return file.read(most + 1).removeprefix(codecs.BOM_UTF8)


def decoded(content: bytes, path: Path) -> str:
    """Return the text of a file. Raises LdmError if its content is not in UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise LdmError(f"{path} is not UTF-8 text: {error.reason}.", "Save it as UTF-8.") from error


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes) of each line that is not blank, without a byte order mark.

    Lines are bytes because one that was torn within a character must not raise. A line that is too
    long is cut to a length that every reader refuses. Raises LdmError if the file is unreadable.
    """
    with opened(path) as file:
        yield from lines_of(file)


def lines_of(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of an open file as `read_lines` does."""
    number = 0
    while line := file.readline(MAX_LENGTH + 1):
        number += 1
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if text.strip():
            yield number, text
        while len(line) > MAX_LENGTH and not line.endswith(b"\n"):
            line = file.readline(MAX_LENGTH + 1)


def read_array(source: Path | IO[bytes], *, mapped: bool = False) -> Any:
    """Return the array in an .npy file, without unpickling anything.

    Raises ValueError or OSError if the file is damaged.
    """
    import tokenize

    import numpy as np

    try:
        return np.load(source, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (EOFError, tokenize.TokenError, SyntaxError, TypeError, AttributeError) as error:
        raise ValueError(f"not an array: {error}") from error
    except (MemoryError, OverflowError, RecursionError) as error:
        raise ValueError("an array larger than any memory") from error


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, unpacked if its name ends in .gz.

    Raises LdmError if it is not a file, unreadable, damaged, or a decompression bomb.
    """
    check_file(path)
    try:
        with path.open("rb") as raw:
            if path.suffix != ".gz":
                yield raw
                return
            with gzip.GzipFile(fileobj=raw) as packed:
                yield io.BufferedReader(_Bounded(packed, path), _CHUNK)
    except (OSError, EOFError, zlib.error) as error:  # a torn gzip stream is an EOFError
        raise _unreadable(path, error) from error


class _Bounded(io.RawIOBase):
    """The content of a packed file, refused if it grows out of proportion."""

    def __init__(self, packed: gzip.GzipFile, path: Path) -> None:
        self._packed = packed
        self._path = path
        self._most = max(MAX_UNPACKED, MAX_RATIO * path.stat().st_size)
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._packed.read(len(buffer))
        self._read += len(content)
        if self._read > self._most:
            raise LdmError(
                f"{self._path} unpacks to more than {self._most // 2**20} MB.",
                "It may be made to exhaust your memory (a decompression bomb): unpack it yourself "
                "if you trust it.",
            )
        buffer[: len(content)] = content
        return len(content)


_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFBLK: "a disk",
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a named pipe, which may never end",
    stat.S_IFCHR: "a device, which may never end",
}
#: The device that ends at once.
_NULL = Path(os.devnull).stat().st_rdev


def check_file(path: Path) -> None:
    """Raise LdmError if `path` is missing, or is something other than a file that ends.

    A pipe or a terminal is accepted if this process was started with it (/dev/stdin, /dev/fd/3).
    """
    try:
        status = path.stat()
        given = own_descriptor(path)
        terminal = given is not None and os.isatty(given)
    except OSError as error:
        raise _unreadable(path, error) from error
    kind = stat.S_IFMT(status.st_mode)
    ends = (
        kind == stat.S_IFREG
        or (kind == stat.S_IFIFO and given is not None)
        or (kind == stat.S_IFCHR and (terminal or status.st_rdev == _NULL))
    )
    if not ends:
        raise LdmError(f"{path} is {kind_of(status.st_mode)}.", "Name a file.")


def kind_of(mode: int) -> str:
    """Return the kind of something that is not a file, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "not a file")


def own_descriptor(path: Path) -> int | None:
    """Return the number of this process's open file that `path` leads to: 1 for /dev/stdout."""
    for _ in range(MAX_LINKS):
        parent = path.parent.resolve()
        if parent == Path(f"/proc/{os.getpid()}/fd") and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = parent / path.readlink()
    return None


def _unreadable(path: Path, error: Exception) -> LdmError:
    return LdmError(f"{path} cannot be read: {error}.", "Check the path and its permissions.")


# Printing

#: Marks that change the direction or the look of the text around them.
_UNSEEN = {
    *map(chr, range(0x202A, 0x202F)),  # embeddings and overrides of the direction
    *map(chr, range(0x2066, 0x206A)),  # isolates
    *"\u061c\u200e\u200f\u2028\u2029\ufeff\ufffe\uffff",
}


def printable(text: str) -> str:
    r"""Return `text` with everything that acts on a terminal made visible: \x1b for escape.

    Line breaks and tabs stay. Replaced are other control characters, marks that change the
    direction of text, and lone surrogates, which cannot be written.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if _harmless(one) else _visible(one) for one in text)


def printable_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON in which everything that acts on a terminal is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(one if _harmless(one) else f"\\u{ord(one):04x}" for one in text)


def _harmless(character: str) -> bool:
    acts = unicodedata.category(character) in ("Cc", "Cs") or character in _UNSEEN
    return character in "\n\t" or not acts


def _visible(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def short(name: str) -> str:
    """Return a name without its module: "ToyEnv" for "tests.toy:ToyEnv"."""
    return name.rpartition(":")[2]


def last_line(text: str) -> str:
    """Return the last line of a text: what a traceback comes to."""
    return text.strip().rpartition("\n")[2]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 goal", "2 goals", "1,200 replies"."""
    if number == 1:
        return f"1 {noun}"
    ends_in_y = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    return f"{number:,} {noun[:-1] + 'ies' if ends_in_y else noun + 's'}"


# Secrets: servers echo keys in unforeseen places, so that everything written is redacted.

MARK = "[key]"
#: Characters of a secret's parts that are looked for, and the shortest part that is hidden.
WINDOW, PART = 6, 12
_lock = threading.Lock()
#: All spellings of all secrets, the longest first.
_spellings: tuple[str, ...] = ()


def guard(secrets: Iterable[str]) -> None:
    """Keep these texts, in all their spellings, out of every record and message from now on."""
    global _spellings  # noqa: PLW0603 - secrets are the process's, whoever writes
    new = {spelling for secret in secrets for spelling in spellings(secret)}
    with _lock:
        _spellings = tuple(sorted({*_spellings, *new}, key=lambda one: (-len(one), one)))


def spellings(secret: str) -> frozenset[str]:
    """Return the spellings of a secret: plain, quoted, escaped and in base64.

    Words such as "ollama" or "EMPTY", which keyless servers are given, are not secrets.
    """
    if len(secret) < 16 and not (len(secret) >= 6 and any(map(str.isdigit, secret))):
        return frozenset()
    plain = {secret, unquote(secret), quote(secret, safe="")}
    coded = {base64.b64encode(one.encode("utf-8", "replace")).decode() for one in plain}
    escaped = {repr(one)[1:-1] for one in plain} | {json.dumps(one)[1:-1] for one in plain}
    return frozenset(plain | coded | escaped | {one.rstrip("=") for one in coded})


def url_secrets(url: str) -> tuple[str, ...]:
    """Return the secrets of a URL: its password and the values of its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url,)
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    own = [parts.password or ""]
    if parts.password:  # together, as in the header
        name, password = unquote(parts.username or ""), unquote(parts.password)
        own += [f"{parts.username}:{parts.password}", f"{name}:{password}"]
    return (*own, *(value for name, _, value in pairs if "version" not in name))


def bare_url(url: str) -> str:
    """Return a URL without user, password and query."""
    with suppress(ValueError):
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        if parts.hostname:
            return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
    return "set, but not a URL"


def redacted(text: str) -> str:
    """Return `text` without any secret or longer part of one."""
    for spelling in _spellings:
        text = text.replace(spelling, MARK)
        for start in range(0, len(spelling) - WINDOW + 1, WINDOW):
            text = _without_part(text, spelling, start)
    return text


def _without_part(text: str, secret: str, start: int) -> str:
    """Return a text without the parts of a secret around the characters from `start`."""
    window = secret[start : start + WINDOW]
    place = text.find(window)
    while place >= 0:
        earlier, later = text[max(0, place - start) : place], text[place : place + len(secret)]
        begin = place - shared(earlier[::-1], secret[:start][::-1])
        end = place + shared(later, secret[start:])
        if end - begin >= PART:
            text, end = text[:begin] + MARK + text[end:], begin + len(MARK)
        place = text.find(window, end)
    return text


def shared(one: str, other: str) -> int:
    """Return how many characters two texts share at their beginning."""
    lengths = range(1, min(len(one), len(other)) + 1)
    return bisect_left(lengths, True, key=lambda length: one[:length] != other[:length])


def redacted_json(text: str) -> str:
    """Return JSON text without any secret in its strings; unchanged if it holds none."""
    if redacted(text) == text:
        return text
    return json.dumps(_without(json.loads(text)), ensure_ascii=False, separators=(",", ":"))


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {redacted(key): _without(item) for key, item in value.items()}
    return [_without(item) for item in value] if isinstance(value, list) else value


#: The variable with the servers that only a run's file names; child processes inherit it.
RECORDED = "LDM_RECORDED_SERVERS"


def distrust(location: str) -> None:
    """Send no credentials to a server that only a run's file names, in child processes as well."""
    if location.lower().startswith(("http://", "https://")):
        os.environ[RECORDED] = f"{os.environ.get(RECORDED, '')}\n{location}"


def trust(location: str) -> None:
    """Send credentials to a server that the user named after all."""
    named = os.environ.get(RECORDED, "").splitlines()
    os.environ[RECORDED] = "\n".join(one for one in named if one != location)


def is_trusted(location: str) -> bool:
    """Return whether a server may get credentials."""
    return location not in os.environ.get(RECORDED, "").splitlines()
