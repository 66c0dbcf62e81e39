"""Files in a folder that somebody else may have made: no link is followed, nothing is waited for.

A memory and a run may come from anyone. A link in one would lead its readers and writers to files
elsewhere, and a pipe or a device would never end.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ldm.errors import LdmError
from ldm.text import MAX_RATIO, MAX_UNPACKED, kind_of


class ForeignFile(LdmError):
    """A link, a pipe or a device in a folder that only ldm writes."""


def unfollowed(path: str | Path, flags: int) -> int:
    """Open a file itself, never what a link leads to, and without waiting: an opener of `open`."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)


def open_own(path: Path, mode: str = "rb", **options: Any) -> IO[Any]:
    """Open a file of a folder that others may have made, as `open` does.

    Raises ForeignFile if something other than a file is there, and OSError as `open` does.
    """
    refuse_foreign(path)
    return open(path, mode, opener=unfollowed, **options)


def refuse_foreign(path: Path) -> None:
    """Raise ForeignFile if a path is anything but a file or a folder; nothing may be there.

    A file that claims to be far larger than what is on the disk would be read for hours.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    mode, held = status.st_mode, max(MAX_UNPACKED, MAX_RATIO * status.st_blocks * 512)
    is_hollow = stat.S_ISREG(mode) and status.st_size > held
    if is_hollow or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ForeignFile(
            f"{path} is {'a file of holes' if is_hollow else kind_of(mode)}, which ldm does not "
            "make.",
            "Remove it, or put the file itself in its place if you trust it.",
        )


def check_own(folder: Path) -> None:
    """Raise ForeignFile if a folder holds anything that is neither a file nor a folder.

    Entries that another process removes meanwhile are skipped.
    """
    pending = [folder]
    while pending:
        with reading(folder), suppress(FileNotFoundError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                else:
                    refuse_foreign(Path(entry.path))


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
    """Remove whatever is there, if anything; nothing behind a link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:  # which would wait for a pipe to be written to
        path.unlink(missing_ok=True)
