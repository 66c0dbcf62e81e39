"""A lock that a forked process does not inherit in a locked state."""

from __future__ import annotations

import os
import threading
import weakref


class ForkLock:
    """A lock that is free after `os.fork`: the child has no other thread that could hold it."""

    def __init__(self) -> None:
        self.renew()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _renew_all() -> None:
    for lock in tuple(_LOCKS):
        lock.renew()


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()
os.register_at_fork(after_in_child=_renew_all)
