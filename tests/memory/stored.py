"""The file of a memory taken apart and put together again, with sums that are true of it."""

import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ldm.memory import record

MANIFEST = "manifest"
#: The arrays of a file by name, and its manifest without their places.
Parts = dict[str, bytes]
Change = Callable[[Parts], Parts]


def content_of(place: Path | str) -> bytes:
    """Return the bytes of all files below a place."""
    return b"".join(p.read_bytes() for p in sorted(Path(place).rglob("*")) if p.is_file())


def parts_of(content: bytes) -> Parts:
    """Return the parts of a file."""
    length, _ = record.END.unpack(content[-record.END.size :])
    listed = json.loads(content[-record.END.size - length : -record.END.size])
    arrays = {name: content[at : at + size] for name, (at, size, _) in listed["arrays"].items()}
    return {**arrays, MANIFEST: json.dumps({**listed, "arrays": {}}).encode()}


def joined(parts: Parts) -> bytes:
    """Return a file of parts. A manifest that is no object, or names arrays, stays as it is."""
    content, places = b"", {}
    for name, part in parts.items():
        if name != MANIFEST:
            places[name] = (len(content), len(part), zlib.crc32(part))
            content += part + bytes(-len(part) % record.ALIGNED)
    text = parts.get(MANIFEST, b"")
    with suppress(ValueError, RecursionError, TypeError, AttributeError):
        listed = json.loads(text)
        text = json.dumps({**listed, "arrays": listed.get("arrays") or places}).encode()
    return content + text + record.END.pack(len(text), zlib.crc32(text))


def in_manifest(**fields: Any) -> Change:
    """Change fields of the manifest."""
    return lambda parts: {
        **parts,
        MANIFEST: json.dumps({**json.loads(parts[MANIFEST]), **fields}).encode(),
    }


def in_array(name: str, change: Callable[[Any], Any]) -> Change:
    """Change an array; what becomes of it has its own type."""

    def changed(parts: Parts) -> Parts:
        array = np.frombuffer(parts[name], record.ARRAYS[name]).copy()
        return {**parts, name: np.ascontiguousarray(change(array)).tobytes()}

    return changed


def in_column(name: str, value: float, row: int = 0) -> Change:
    """Let a column of a tuple hold another number."""

    def change(array: Any) -> Any:
        array[row] = np.array(value).astype(array.dtype)
        return array

    return in_array(name, change)
