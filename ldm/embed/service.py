"""Vectors of texts from an OpenAI-compatible service."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.embed.pieces import unit
from ldm.errors import ModelError, ModelUnavailable
from ldm.llm.answers import Fault
from ldm.llm.client import RetryPolicy
from ldm.llm.service import Connection, Service

#: Texts of a request, and maximum characters of a text: services bound both.
BATCH, LONGEST = 64, 24_000
RETRY = RetryPolicy()


class Embeddings:
    """An embedder of a service, with the retries of model calls. Thread-safe."""

    def __init__(self, model: str) -> None:
        """Name a model of the service of OPENAI_BASE_URL and OPENAI_API_KEY.

        Raises ModelUnavailable if no service is configured.
        """
        self.name = f"openai:{model}"
        self._model = model
        url, key = (
            os.environ.get(f"OPENAI_{name}", "").strip() for name in ("BASE_URL", "API_KEY")
        )
        if not (url or key):
            raise ModelUnavailable(
                f"The embedder {self.name!r} needs a service, and none is configured.",
                "Set OPENAI_API_KEY, or OPENAI_BASE_URL for another server than OpenAI's.",
            )
        self._connection = Connection(url, key)

    @cached_property
    def dimension(self) -> int:
        """The length of a vector; the service is asked for one."""
        return len(self._request(["dimension"])[0])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dimension) unit vectors of the first LONGEST characters of the texts.

        Raises ModelError or ModelUnavailable if the service fails for good.
        """
        blocks = [np.empty((0, self.dimension), np.float32)]
        starts = range(0, len(texts), BATCH)
        blocks += [self._request(texts[start : start + BATCH]) for start in starts]
        return unit(np.concatenate(blocks))

    def _request(self, texts: Sequence[str]) -> NDArray[np.float32]:
        # A service refuses an empty text.
        body = {"model": self._model, "input": [text[:LONGEST].strip() or "." for text in texts]}
        for attempt in range(1, RETRY.attempts + 1):
            try:
                return _vectors(self._service.ask("/embeddings", body), len(texts))
            except Fault as error:
                fault = error
            wait = RETRY.wait(texts[0], attempt, fault)
            if fault.kind != "again" or wait > RETRY.retry_after:
                break
            if attempt < RETRY.attempts:
                time.sleep(wait)
        failed = ModelUnavailable if fault.kind == "stop" else ModelError
        raise failed(
            f"The embedder {self.name!r} failed: {fault.what}.",
            "Check the service, its address (most end in /v1), the model's name and the key.",
        )

    @cached_property
    def _service(self) -> Service:
        return Service(self._connection)


def _vectors(content: Any, count: int) -> NDArray[np.float32]:
    """Return the vectors in a response's JSON, in the order of the texts, or raise Fault."""
    try:
        rows = sorted(content["data"], key=lambda row: row["index"])
        vectors = np.array([row["embedding"] for row in rows], np.float32)
    except (KeyError, TypeError, ValueError):
        vectors = np.empty(0, np.float32)
    if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
        raise Fault("again", "an answer without a vector for each text", final=True)
    return vectors
