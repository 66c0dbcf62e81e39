"""The fake model server with files and batches. It replies in a batch as it does directly."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.llm.server import Behaviour, FakeServer, completion

#: What a handler of the fake server is here: it has no class that could be named.
Handler = Any


@dataclass
class Batching:
    """absent: answer all of files and batches with this status. lists: whether batches are listed.
    looks: how often a batch is looked at before it is over; None: it never is.
    status: what it is then. failing: which requests get an error, given their body.
    expiring: which get none in time. refused: what the server says to a batch, "" to take it.
    seed: of the order of replies.
    """

    absent: int = 0
    lists: bool = True
    looks: int | None = 0
    status: str = "completed"
    failing: Callable[[dict[str, Any]], bool] = lambda body: False
    error: Mapping[str, Any] = field(
        default_factory=lambda: {"error": {"message": "the model is gone", "code": "gone"}}
    )
    error_status: int = 500
    expiring: Callable[[dict[str, Any]], bool] = lambda body: False
    refused: str = ""
    seed: int = 0


class BatchServer(FakeServer):
    """Keeps files and batches.

    submitted: the bodies of all requests in batches, in their order. seen: the requests for files
    and batches. hook: called with each of these, when it arrives ("POST /v1/batches") and before it
    is answered ("POST /v1/batches done"); where it returns True, there is no answer, and on arrival
    nothing is done.
    """

    def __init__(
        self, behaviour: Behaviour | None = None, batching: Batching | None = None
    ) -> None:
        super().__init__(behaviour)
        self.batching = batching or Batching()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.submitted: list[dict[str, Any]] = []
        self.uploads = 0
        self.seen: list[str] = []
        self.hook: Callable[[str], bool] = lambda request: False
        self._looks: dict[str, int] = {}
        self._guard = threading.Lock()

    def respond(self, handler: Handler) -> bool:
        url = urlsplit(handler.path)
        parts = url.path.removeprefix("/v1/").split("/")
        if parts[0] not in ("files", "batches"):
            return False
        length = int(handler.headers.get("content-length") or 0)
        content = handler.rfile.read(length)
        request = f"{handler.command} {url.path}"
        self.seen.append(request)
        if self.hook(request):
            handler.close_connection = True
            return True
        with self._guard:
            if self.batching.absent:
                self._refuse(handler, self.batching.absent, "no such thing")
            elif parts[0] == "files":
                self._file(handler, parts[1:], content)
            elif handler.command == "GET":
                self._look(handler, parts[1:], parse_qs(url.query))
            else:
                self._create(handler, json.loads(content))
        return True

    def _send(self, handler: Handler, status: int, body: object) -> None:
        if self.hook(f"{handler.command} {urlsplit(handler.path).path} done"):
            handler.close_connection = True
        else:
            handler.send(status, body)

    def _refuse(self, handler: Handler, status: int, message: str) -> None:
        self._send(handler, status, {"error": {"message": message}})

    def _file(self, handler: Handler, parts: list[str], content: bytes) -> None:
        if handler.command == "POST":
            assert b'name="purpose"\r\n\r\nbatch' in content
            self.uploads += 1
            name = f"file-{self.uploads}"
            boundary = content[: content.index(b"\r\n")]
            part = next(p for p in content.split(boundary) if b'name="file"' in p)
            self.files[name] = part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
            self._send(handler, 200, {"id": name, "object": "file", "purpose": "batch"})
        elif parts[0] in self.files:
            self._send(handler, 200, self.files[parts[0]])
        else:
            self._refuse(handler, 404, "No such file")

    def _create(self, handler: Handler, body: dict[str, Any]) -> None:
        file = body.get("input_file_id")
        if file not in self.files or self.batching.refused:
            message = self.batching.refused or "input_file_id is not a file"
            self._refuse(handler, 400, message)
            return
        assert body["endpoint"] == "/v1/chat/completions"
        assert body["completion_window"] == "24h"
        batch = {
            "id": f"batch_{len(self.batches) + 1}",
            "object": "batch",
            "status": "validating",
            "input_file_id": file,
            "metadata": body.get("metadata"),
        }
        self.batches[batch["id"]] = batch
        self.submitted += [line["body"] for line in self._requests(batch)]
        self._send(handler, 200, batch)

    def _look(self, handler: Handler, parts: list[str], query: Mapping[str, list[str]]) -> None:
        if not parts:
            if not self.batching.lists:
                self._refuse(handler, 405, "not allowed")
                return
            names = [*self.batches][::-1]  # the newest first
            start = names.index(query["after"][0]) + 1 if "after" in query else 0
            page = names[start : start + min(2, int(query["limit"][0]))]
            more = start + len(page) < len(names)
            listed = [self.batches[name] for name in page]
            self._send(handler, 200, {"object": "list", "data": listed, "has_more": more})
            return
        batch = self.batches.get(parts[0])
        if batch is None:
            self._refuse(handler, 404, "No such batch")
            return
        looks = self._looks[batch["id"]] = self._looks.get(batch["id"], -1) + 1
        total = len(self._requests(batch))
        batch["status"] = "in_progress"
        batch["request_counts"] = {"total": total, "completed": min(looks, total), "failed": 0}
        if self.batching.looks is not None and looks >= self.batching.looks:
            self._finish(handler, batch)
        self._send(handler, 200, batch)

    def _finish(self, handler: Handler, batch: dict[str, Any]) -> None:
        batching, replies, errors = self.batching, [], []
        batch["status"] = batching.status
        for line in self._requests(batch):
            body, answer = line["body"], {"id": "r", "custom_id": line["custom_id"]}
            if batching.expiring(body):
                errors.append({**answer, "response": None, "error": {"code": "batch_expired"}})
            elif batching.failing(body):
                response = {"status_code": batching.error_status, "body": batching.error}
                errors.append({**answer, "response": response, "error": None})
            else:
                reply = completion(body, handler.text(body))
                response = {"status_code": 200, "request_id": "r", "body": reply}
                replies.append({**answer, "response": response, "error": None})
        if batching.status == "failed":
            batch["errors"] = {"data": [{"code": "token_limit_exceeded", "message": "Too many"}]}
            return
        draw = random.Random(batching.seed)
        for kind, lines in (("output", replies), ("error", errors)):
            draw.shuffle(lines)
            name = f"{kind}-{batch['id']}"
            if lines:
                self.files[name] = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
                batch[f"{kind}_file_id"] = name

    def _requests(self, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
