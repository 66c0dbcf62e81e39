"""The `openai` package's HTTP client with a bound on the whole of an answer; imported when used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import httpx2
import openai


class BoundedClient(openai.DefaultHttpxClient):
    """A server that sends a byte now and then holds nobody for ever.

    The package's own timeouts are for silence: they start anew with every byte.
    """

    def __init__(self, *, bound: float, **options: Any) -> None:
        """bound: seconds from sending a request to the last byte of its answer."""
        super().__init__(**options)
        self._bound = bound

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The whole answer. Raises httpx2.ReadTimeout where it takes too long."""
        until = time.monotonic() + self._bound
        response = super().send(request, **{**options, "stream": True})
        response.stream = _Trickle(cast("httpx2.SyncByteStream", response.stream), until)
        try:
            response.read()
        finally:
            response.close()
        return response


class _Trickle(httpx2.SyncByteStream):
    """The bytes of an answer, as long as there is time."""

    def __init__(self, stream: httpx2.SyncByteStream, until: float) -> None:
        self._stream = stream
        self._until = until

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            if time.monotonic() > self._until:
                raise httpx2.ReadTimeout("the answer takes too long")
            yield chunk

    def close(self) -> None:
        self._stream.close()
