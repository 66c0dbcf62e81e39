"""The limit on requests in flight, which adapts to an overloaded server."""

from __future__ import annotations

import threading
import time


class ConcurrencyLimiter:
    """Admits at most `limit` requests at a time, and fewer for a while after a refusal.

    A refusal (429) halves the width, once for all requests that were in flight together, and holds
    new requests back for as long as the server asked; every response widens it a little.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._width = float(limit)
        self._in_flight = 0
        self._closed_until = 0.0
        self._last_narrowed = 0.0
        self._shut = False
        self._changed = threading.Condition()

    @property
    def width(self) -> int:
        """The present maximum of requests in flight."""
        return max(1, int(self._width))

    def enter(self) -> float | None:
        """Wait for a slot and return the time of entry, for `narrow`; `leave` frees the slot.

        Return None, without a slot, once the limiter is shut.
        """
        with self._changed:
            while True:
                if self._shut:
                    return None
                wait = self._closed_until - time.monotonic()
                if wait <= 0 and self._in_flight < self.width:
                    break
                self._changed.wait(wait if wait > 0 else None)
            self._in_flight += 1
            return time.monotonic()

    def shut(self) -> None:
        """Admit no more requests, and wake those that wait."""
        with self._changed:
            self._shut = True
            self._changed.notify_all()

    def leave(self) -> None:
        """Free the slot of a finished request."""
        with self._changed:
            self._in_flight -= 1
            self._changed.notify()

    def widen(self) -> None:
        """Widen after a response, by about one slot per round of requests."""
        with self._changed:
            before = self.width
            self._width = min(float(self.limit), self._width + 1.0 / self._width)
            if self.width > before:
                self._changed.notify_all()

    def narrow(self, entered: float, seconds: float) -> None:
        """Narrow after the refusal of a request that entered at `entered`; pause for `seconds`.

        Only the first refusal of a round counts, because the others carry no information.
        """
        with self._changed:
            now = time.monotonic()
            if entered > self._last_narrowed:
                self._width = max(1.0, self._width / 2)
                self._last_narrowed = now
            self._closed_until = max(self._closed_until, now + seconds)
