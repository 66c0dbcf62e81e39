"""What comes from outside: JSON is read within bounds, and foreign text is made safe to print.

Every file, reply and record that somebody else may have written goes through here. What is wrong
with it is a `Problem` with file, line and field, never an exception of a library.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import re
import stat
import unicodedata
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ldm.errors import LdmError

#: The longest line, and the largest JSON document unless its reader allows more, in bytes.
MAX_LENGTH = 64 * 2**20
#: One value (an object, a list or what they hold) for so many bytes that may be read: parsers take
#: up to a kilobyte for each, so that a short text of many values would fill the memory.
BYTES_A_VALUE = 128
#: A packed file is refused where more than MAX_UNPACKED bytes are MAX_RATIO times its size or more.
MAX_UNPACKED = 100 * 2**20
MAX_RATIO = 200

_LINE = re.compile(r" at line (\d+) column (\d+)$")
#: How many links from one to the next are followed, as the system does.
MAX_LINKS = 40
_CHUNK = 2**20
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
#: Bytes by which a control character grows when it is escaped.
_ESCAPED_BY = 5
_ESCAPES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
#: What the parser says → what that means.
_MEANINGS = {
    "recursion limit exceeded": "nested too deeply",
    "number out of range": "a number of too many digits",
    "unexpected end of hex escape": "half a surrogate pair, or an escape that is cut off",
    "lone leading surrogate in hex escape": "half a surrogate pair",
    "invalid unicode code point": "not UTF-8 text",
    "expected value": "a value is missing, or is none that JSON has",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why one line of a file is not a record."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where}:{self.field}: {self.message}" if self.field else f"{where}: {self.message}"


def json_value(
    content: str | bytes, file: str, line: int = 1, *, most: int = MAX_LENGTH
) -> Any | Problem:
    """Return the JSON value in `content`, or the problem with it.

    Refused are, beside what is no JSON: text that is not UTF-8, half surrogate pairs, NaN and
    infinity, deep nesting (more than 200 levels), integers of more than 4,300 digits, more than
    `most` bytes, and more than a value for BYTES_A_VALUE of these.
    """
    import pydantic_core

    if isinstance(content, str):  # bytes that were no UTF-8 are surrogates in it
        content = content.encode("utf-8", "surrogatepass")
    if excess := beyond(content, most=most):
        return Problem(file, line, "", excess)
    try:
        return pydantic_core.from_json(content.rstrip(), allow_inf_nan=False)
    except ValueError as error:
        message = str(error)
    place = _LINE.search(message)
    number = int(place[1]) if place else 1
    return Problem(file, line + max(number, 1) - 1, "", f"not JSON: {json_fault(message)}")


def value_within(content: bytes, start: int, *, loose: bool = False) -> tuple[Any, int] | None:
    """Return the JSON value that begins at `start`, and where it ends; None if none within bounds.

    What follows it may be anything. loose: line breaks and the like within its texts are taken as
    they are, though JSON wants them escaped.
    """
    part = content[start:]
    if beyond(part):
        return None
    try:
        return _leading_value(part, len(content) - start, start)
    except ValueError as error:
        if not (loose and str(error).startswith("control character")):
            return None
    part, places = _escaped(part)
    try:
        value, end = _leading_value(part, len(part), 0)
    except ValueError:
        return None
    return value, start + end - _ESCAPED_BY * bisect_left(places, end)


def _leading_value(part: bytes, length: int, start: int) -> tuple[Any, int]:
    """Return the value that a text begins with, and where it ends; ValueError if there is none."""
    import pydantic_core

    try:
        return pydantic_core.from_json(part, allow_inf_nan=False), start + length
    except ValueError as error:
        message = str(error)
        place = _LINE.search(message)
        if place is None or not message.startswith("trailing characters"):
            raise
    end = 0
    for _ in range(int(place[1]) - 1):
        end = part.index(b"\n", end) + 1
    end += int(place[2]) - 1
    return pydantic_core.from_json(part[:end], allow_inf_nan=False), start + end


def _escaped(part: bytes) -> tuple[bytes, list[int]]:
    """Return a text whose strings hold no control characters, and where each escape is in it."""
    pieces, places, written, last = list[bytes](), list[int](), 0, 0
    for text in _STRING.finditer(part):
        for control in _CONTROL.finditer(part, text.start(), text.end()):
            before = part[last : control.start()]
            places.append(written + len(before))
            pieces += (before, b"\\u%04x" % control[0][0])
            written += len(before) + 1 + _ESCAPED_BY
            last = control.end()
    return b"".join([*pieces, part[last:]]), places


def beyond(content: bytes, *, most: int = MAX_LENGTH) -> str:
    """Return why a JSON text is too large to be parsed, "" where it is not."""
    if len(content) > most:
        return f"longer than {most // 2**20} MB"
    values = most // BYTES_A_VALUE
    # Texts may hold brackets and commas: only where there are many they are left out.
    if _marks(content) > values and _marks(_STRING.sub(b"", content)) > values:
        return f"more than {values:,} values"
    return ""


def _marks(content: bytes) -> int:
    """Return how many brackets are opened and how many commas there are: one a value, about."""
    return sum(map(content.count, (b"{", b"[", b",")))


def whole_characters(text: str) -> str:
    r"""Return JSON text in which each escape for half a character (\ud83d alone) is replaced.

    Models that are cut off within a character write such.
    """
    return _ESCAPES.sub(lambda match: r"\ufffd" if match["half"] else match[0], text)


def json_fault(message: str) -> str:
    """Return what the parser says of a text that is no JSON, in plain words, with the column."""
    place = _LINE.search(message)
    fault = message[: place.start()] if place else message
    fault = "it ends too early" if fault.startswith("EOF") else _MEANINGS.get(fault, fault)
    return fault + (f" (column {place[2]})" if place else "")


def json_file(path: Path, *, most: int = MAX_LENGTH) -> Any:
    """Return the JSON value in a file, packed where it ends in .gz.

    Raises LdmError that names file and line where it cannot be read, or is not JSON within bounds.
    """
    value = json_value(file_bytes(path, most=most), str(path), most=most)
    if isinstance(value, Problem):
        raise LdmError(f"{value}.", "The file is damaged, or ldm did not write it.")
    return value


def file_bytes(path: Path, *, most: int = MAX_LENGTH) -> bytes:
    """Return a file's content without a byte order mark: `most` bytes and one more at most.

    Raises LdmError where it cannot be read.
    """
    with opened(path) as file:
        return file.read(most + 1).removeprefix(codecs.BOM_UTF8)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes) of every non-blank line, without a byte order mark.

    Bytes, because a line that was torn within a character must not raise. Of a line that is too
    long its beginning is yielded, which every reader refuses by its length.
    Raises LdmError where the file cannot be read.
    """
    with opened(path) as file:
        yield from lines_of(file)


def lines_of(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield what `lines` does, of an open file."""
    number = 0
    while line := file.readline(MAX_LENGTH + 1):
        number += 1
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if text.strip():
            yield number, text
        while len(line) > MAX_LENGTH and not line.endswith(b"\n"):
            line = file.readline(MAX_LENGTH + 1)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text) of every non-blank line.

    A byte that is not UTF-8 becomes half a surrogate pair, which `json_value` refuses.
    Raises LdmError where the file cannot be read.
    """
    for number, line in lines(path):
        yield number, line.decode("utf-8", "surrogateescape")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, unpacked where its name ends in .gz.

    Raises LdmError where it is no file, cannot be read or is damaged, or where little that is
    packed becomes very much.
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


def array(source: Path | IO[bytes], *, mapped: bool = False) -> Any:
    """Return the array in an .npy file, of which the objects of no pickle are made.

    Raises ValueError, or OSError, where it is damaged: whatever else its header makes numpy raise.
    """
    import tokenize

    import numpy as np

    try:
        return np.load(source, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (EOFError, tokenize.TokenError, SyntaxError, TypeError, AttributeError) as error:
        raise ValueError(f"no array: {error}") from error
    except (MemoryError, OverflowError, RecursionError) as error:
        raise ValueError("an array larger than any memory") from error


#: What is no file → how it is called.
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFBLK: "a disk",
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a named pipe, which may never end",
    stat.S_IFCHR: "a device, which may never end",
}


def check_file(path: Path) -> None:
    """Raise LdmError where what `path` leads to is missing, or is no file that ends.

    What this process was given open (/dev/stdin, /dev/fd/3) may be a pipe or a terminal as well.
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
    """Return what something is that is no file, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "no file")


#: The device that ends at once.
_NULL = Path(os.devnull).stat().st_rdev


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


class _Bounded(io.RawIOBase):
    """The content of a packed file, refused where it grows out of all proportion."""

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


#: Marks that change the direction or the look of text around them, and that no text needs.
_UNSEEN = {
    *map(chr, range(0x202A, 0x202F)),  # embeddings and overrides of the direction
    *map(chr, range(0x2066, 0x206A)),  # isolates
    *"\u061c\u200e\u200f\u2028\u2029\ufeff\ufffe\uffff",
}


def printable(text: str) -> str:
    r"""Return `text` with what would act on a terminal made visible: \x1b for the escape character.

    Line breaks and tabs stay. Replaced are all other control characters, marks that change the
    direction of the text, and lone surrogates, which cannot be written.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if _harmless(one) else _visible(one) for one in text)


def printable_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON in which, too, nothing acts on a terminal: it is escaped instead."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(one if _harmless(one) else f"\\u{ord(one):04x}" for one in text)


def _harmless(character: str) -> bool:
    if character in "\n\t":
        return True
    return unicodedata.category(character) not in ("Cc", "Cs") and character not in _UNSEEN


def _visible(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
