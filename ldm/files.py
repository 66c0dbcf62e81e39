"""Files in a folder that somebody else may have made: no link is followed, nothing is waited for.

A memory and a run may come from anyone. A link in one would lead its readers and writers to files
elsewhere, and a pipe or a device would never end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ldm.errors import LdmError
from ldm.text import kind_of


def unfollowed(path: str | Path, flags: int) -> int:
    """Open a file itself, never what a link leads to, and without waiting: an opener of `open`."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)


def foreign(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield everything below a folder that is neither a file nor a folder, with its kind.

    Entries that another process removes meanwhile are skipped.
    """
    pending = [folder]
    while pending:
        with suppress(FileNotFoundError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                elif entry.is_symlink():
                    yield Path(entry.path), "a link"
                elif not entry.is_file():
                    yield Path(entry.path), kind_of(entry.stat().st_mode)


def check_own(folder: Path) -> None:
    """Raise LdmError if a folder holds anything that is neither a file nor a folder."""
    with reading(folder):
        for path, kind in foreign(folder):
            raise LdmError(
                f"{path} is {kind}, which ldm does not make.",
                "Remove it, or put the file itself in its place if you trust it.",
            )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a failure to read `path` into an LdmError."""
    try:
        yield
    except OSError as error:
        raise LdmError(
            f"{error.filename or path} cannot be read: {error.strerror or error}.",
            "Check its permissions, or name another place.",
        ) from error


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it is there; nothing behind a link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
