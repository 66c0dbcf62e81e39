"""Signs of life: a line now and then while something works, where nothing shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds of silence after which a line says that the work goes on.
SILENCE = 10.0
#: Seconds between two looks at the time.
LOOK = 1.0


class Heartbeat:
    """Says again and again how far the work is, where nothing else has been said for a while."""

    def __init__(
        self, line: Callable[[float], str], say: Callable[[str], None], silence: float = SILENCE
    ) -> None:
        """Take what to say at a time ("" for nothing), what prints it, and after how long."""
        self._line, self._say, self._silence = line, say, silence
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._ended = threading.Event()

    def say(self, line: str) -> None:
        """Print a line, which breaks the silence."""
        with self._lock:
            self._last = time.monotonic()
            self._say(line)

    def beat(self, now: float) -> None:
        """Say how far the work is, if it has been silent."""
        with self._lock:
            if now - self._last >= self._silence and (line := self._line(now)):
                self._last = now
                self._say(line)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Look at the time while the work goes on."""

        def work() -> None:
            while not self._ended.wait(LOOK):
                self.beat(time.monotonic())

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
