"""The bound on requests in flight, which gives way when the server says that it is too much."""

from __future__ import annotations

import threading
import time


class Gate:
    """At most `limit` requests at a time; fewer for a while after the server refused one.

    A refusal (429) halves the width, once for all the requests that were in flight together, and
    holds new requests back for as long as the server asked; every answer widens it a little again.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.peak = 0
        self._width = float(limit)
        self._in_flight = 0
        self._closed_until = 0.0
        self._narrowed = 0.0
        self._shut = False
        self._changed = threading.Condition()

    @property
    def width(self) -> int:
        """How many requests may be in flight now."""
        return max(1, int(self._width))

    def enter(self) -> float | None:
        """Wait for a place; returns when it was got, for `narrow`. `leave` gives it back.

        None, at once, where the gate is shut or shut meanwhile: there is no place to give back.
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
            self.peak = max(self.peak, self._in_flight)
            return time.monotonic()

    def shut(self) -> None:
        """Let nobody in from now on, and send away those who wait."""
        with self._changed:
            self._shut = True
            self._changed.notify_all()

    def leave(self) -> None:
        with self._changed:
            self._in_flight -= 1
            self._changed.notify()

    def widen(self) -> None:
        """After an answer: about one place more a round of requests."""
        with self._changed:
            before = self.width
            self._width = min(float(self.limit), self._width + 1.0 / self._width)
            if self.width > before:
                self._changed.notify_all()

    def narrow(self, entered: float, seconds: float) -> None:
        """After a refusal of a request that entered at `entered`; let nobody in for `seconds`."""
        with self._changed:
            now = time.monotonic()
            if entered > self._narrowed:  # the others of that round say nothing new
                self._width = max(1.0, self._width / 2)
                self._narrowed = now
            self._closed_until = max(self._closed_until, now + seconds)
