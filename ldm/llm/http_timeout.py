"""The `openai` package's HTTP client, with bounds for a whole response; imported when used."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

import httpx2
import openai

#: Maximum bytes of a response, unpacked.
LONGEST_RESPONSE = 16 * 2**20


class DeadlineClient(openai.DefaultHttpxClient):
    """Limits the time and the size of a whole response, its head included; follows no redirection.

    What a redirection leads to would get the prompts, and may be anyone's. The package's own
    timeouts limit only silence, because every byte restarts them.
    """

    def __init__(self, *, seconds: float, **options: Any) -> None:
        """Take the time limit, from sending a request to the last byte of its response."""
        super().__init__(follow_redirects=False, **options)
        self._seconds = seconds

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the whole response.

        Raises httpx2.ReadTimeout if it takes too long, httpx2.DecodingError if it is too large.
        """
        deadline = time.monotonic() + self._seconds
        outcome: Future[httpx2.Response] = Future()

        def work() -> None:
            try:
                outcome.set_result(self._receive(request, options, deadline))
            except BaseException as error:
                outcome.set_exception(error)

        # In a thread of its own, because nothing else bounds a head that never ends.
        threading.Thread(target=work, name="model-request", daemon=True).start()
        try:
            return outcome.result(self._seconds + 0.05)
        except TimeoutError:
            raise httpx2.ReadTimeout("the response takes too long", request=request) from None

    def _receive(
        self, request: httpx2.Request, options: dict[str, Any], deadline: float
    ) -> httpx2.Response:
        response = super().send(request, **{**options, "stream": True})
        content = bytearray()
        try:
            for part in response.iter_bytes():
                content += part
                if time.monotonic() > deadline:
                    raise httpx2.ReadTimeout("the response takes too long", request=request)
                if len(content) > LONGEST_RESPONSE:
                    raise httpx2.DecodingError(
                        f"the response exceeds {LONGEST_RESPONSE >> 20} MiB", request=request
                    )
        finally:
            response.close()
        coded = ("content-encoding", "content-length", "transfer-encoding")
        headers = [(name, value) for name, value in response.headers.items() if name not in coded]
        return httpx2.Response(
            response.status_code, headers=headers, content=bytes(content), request=request
        )
