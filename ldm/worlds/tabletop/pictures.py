"""Pictures of an episode: one PNG a step, in a folder for each task."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldm.errors import LdmError


def save(folder: Path, task_id: str, step: int, picture: NDArray[np.uint8]) -> Path:
    """Write the picture of a step; step 0 is the opening. Raise LdmError if that is impossible."""
    path = folder / task_id.replace("/", "-") / f"{step:02d}.png"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(picture))
    except OSError as error:
        raise LdmError(
            f"The picture {path} cannot be written: {error.strerror or error}.",
            "Name a folder that can be written: --env.render DIR.",
        ) from error
    return path


def png(picture: NDArray[np.uint8]) -> bytes:
    """Return rows of red, green and blue as a PNG file; each row as its difference to the last."""
    height, width, _ = picture.shape
    rows = np.diff(picture.reshape(height, -1), axis=0, prepend=np.uint8(0))
    up = np.full((height, 1), 2, np.uint8)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(np.hstack([up, rows]).tobytes(), 9)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)
