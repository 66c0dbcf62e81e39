"""The `openai` package's HTTP client with a time limit for a whole response; imported when used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import httpx2
import openai


class DeadlineClient(openai.DefaultHttpxClient):
    """Limits the time of a whole response, so that a slow trickle of bytes ends as well.

    The package's own timeouts limit only silence, because every byte restarts them.
    """

    def __init__(self, *, seconds: float, **options: Any) -> None:
        """Take the time limit, from sending a request to the last byte of its response."""
        super().__init__(**options)
        self._seconds = seconds

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the whole response. Raises httpx2.ReadTimeout if it takes too long."""
        deadline = time.monotonic() + self._seconds
        response = super().send(request, **{**options, "stream": True})
        response.stream = _DeadlineStream(cast("httpx2.SyncByteStream", response.stream), deadline)
        try:
            response.read()
        finally:
            response.close()
        return response


class _DeadlineStream(httpx2.SyncByteStream):
    """The bytes of a response, until the deadline."""

    def __init__(self, stream: httpx2.SyncByteStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("the response takes too long")
            yield chunk

    def close(self) -> None:
        self._stream.close()
