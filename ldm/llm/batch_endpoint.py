"""The batch endpoint of a server: files of requests, and batches of which files come back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ldm import untrusted
from ldm.errors import LdmError
from ldm.llm.calls import Request
from ldm.llm.capabilities import Capabilities
from ldm.llm.service import IDEMPOTENCY, Fault, Service, json_of, message_in, request_body
from ldm.secrecy import redacted
from ldm.types import encodable

if TYPE_CHECKING:
    from openai import OpenAI

#: What each request of a batch is sent to, and how long a batch may take.
ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
WINDOW: Literal["24h"] = "24h"
#: The statuses of batches that are over.
ENDED = ("completed", "failed", "expired", "cancelled")
#: How a server says that it has no such endpoint.
ABSENT = (404, 405, 501)
#: Under which name a batch carries our token.
TOKEN = "ldm"  # noqa: S105 - a name
#: Batches a page of the server's list, and pages that are read at most.
PAGE, PAGES = 100, 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchState:
    """How far a batch is, as its server says.

    done: calls that were answered or failed. files: with the replies and with the errors.
    complaint: why it failed as a whole, "" where it did not.
    """

    id: str
    status: str
    done: int = 0
    files: tuple[str, ...] = ()
    complaint: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ENDED


class BatchEndpoint:
    """The files and batches of one server. All methods raise Fault where the server fails."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def lists(self) -> bool:
        """Return whether the server lists its batches. Raises LdmError where it has none.

        Nothing is made: a server that lists none is sent a batch without a file, which it refuses.
        """
        try:
            self._get(lambda client: client.batches.with_raw_response.list(limit=1))
        except Fault as fault:
            if fault.status not in ABSENT:
                raise
        else:
            return True
        try:
            self._create("", "")
        except Fault as fault:
            if fault.status in ABSENT:
                raise self._absent() from None
            if fault.kind == "refused":
                return False
            raise
        return False

    def upload(self, content: bytes, token: str) -> str:
        """Send a file of requests; return its id."""
        file = (f"{token}.jsonl", content)
        headers = {IDEMPOTENCY: f"{token}-file"}
        try:
            made = self._get(
                lambda client: client.files.with_raw_response.create(
                    file=file, purpose="batch", extra_headers=headers
                )
            )
        except Fault as fault:
            if fault.status in ABSENT:
                raise self._absent() from None
            raise
        return _id(made)

    def create(self, file: str, token: str) -> BatchState:
        """Submit the requests in a file as one batch that carries the token."""
        return _state(self._create(file, token))

    def find(self, token: str) -> BatchState | None:
        """Return the batch that carries the token, None where the server lists none."""
        for batch in self._listed():
            metadata = batch.get("metadata")
            if isinstance(metadata, dict) and metadata.get(TOKEN) == token:
                return _state(batch)
        return None

    def state(self, batch: str) -> BatchState:
        """Return how far a batch is."""
        return _state(self._get(lambda client: client.batches.with_raw_response.retrieve(batch)))

    def lines(self, file: str) -> list[dict[str, Any]]:
        """Return the lines of a file of replies or errors."""
        return objects_in(self._service.ask(lambda client: client.files.content(file).content))

    def _listed(self) -> Iterator[dict[str, Any]]:
        last: dict[str, str] = {}
        for _ in range(PAGES):
            page = self._page(last)
            data = page.get("data")
            batches = [b for b in data if isinstance(b, dict)] if isinstance(data, list) else []
            yield from batches
            if not batches or not page.get("has_more"):
                return
            last = {"after": str(batches[-1].get("id"))}

    def _page(self, last: Mapping[str, str]) -> dict[str, Any]:
        return self._get(
            lambda client: client.batches.with_raw_response.list(limit=PAGE, **last)  # type: ignore[arg-type]
        )

    def _create(self, file: str, token: str) -> dict[str, Any]:
        return self._get(
            lambda client: client.batches.with_raw_response.create(
                completion_window=WINDOW,
                endpoint=ENDPOINT,
                input_file_id=file,
                metadata={TOKEN: token},
                extra_headers={IDEMPOTENCY: token},
            )
        )

    def _get(self, action: Callable[[OpenAI], Any]) -> dict[str, Any]:
        """Return the JSON object that a raw response of the package holds."""
        content = self._service.ask(lambda client: json_of(action(client).content))
        if not isinstance(content, dict):
            raise Fault("again", "an answer that is no JSON object", final=True)
        return content

    def _absent(self) -> LdmError:
        where = self._service.connection.display_url
        return LdmError(
            f"The server at {where} takes no batches: it has no /batches or no /files.",
            "Leave out --batch-api: the calls are then made directly.",
        )


def line_of(
    key: str, request: Request, capabilities: Capabilities, max_tokens: int | None
) -> bytes:
    """Return the line of a batch's file that asks for a call."""
    content = {
        "custom_id": key,
        "method": "POST",
        "url": ENDPOINT,
        "body": request_body(request, capabilities, max_tokens),
    }
    return json.dumps(content).encode() + b"\n"


def objects_in(content: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects in lines; a line that is none is left out."""
    objects = []
    for line in content.splitlines():
        text = untrusted.whole_characters(line.decode("utf-8", "replace"))
        value = untrusted.json_value(text, "") if text.strip() else None
        if isinstance(value, dict):
            objects.append(value)
    return objects


def _id(content: Mapping[str, Any]) -> str:
    value = content.get("id")
    if not isinstance(value, str) or not value:
        raise Fault("again", "an answer without an id", final=True)
    return redacted(encodable(value))


def _state(content: Mapping[str, Any]) -> BatchState:
    """Return the state in the server's JSON, of which only the id has to be there."""
    counts = content.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    done = [counts.get(name) for name in ("completed", "failed")]
    files = [content.get(name) for name in ("output_file_id", "error_file_id")]
    errors = content.get("errors")
    listed = errors.get("data") if isinstance(errors, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return BatchState(
        id=_id(content),
        status=str(content.get("status")),
        done=sum(n for n in done if isinstance(n, int) and n > 0),
        files=tuple(redacted(file) for file in files if isinstance(file, str) and file),
        complaint=message_in(first),
    )
