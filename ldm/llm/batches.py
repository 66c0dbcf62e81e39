"""Calls in batches, which a server answers within a day, often at a lower price; resumable.

What is submitted is on disk before it is: TOKEN.jsonl holds the calls, TOKEN.json how far they are.
Both are there until the replies are recorded like those of any other call. Who comes back after a
kill finds the batch by its id or, where that was not written any more, by its token, which the
batch carries at the server; so nothing is submitted twice.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ldm import records, untrusted
from ldm.errors import LdmError, ModelUnavailable, RunStopped
from ldm.llm.batch_endpoint import ABSENT, BatchEndpoint, BatchState, line_of
from ldm.llm.calls import Call, Request, ServerReply
from ldm.llm.capabilities import Capabilities
from ldm.llm.client import Client
from ldm.llm.service import Fault, refusal, reply_in
from ldm.types import Count, Usage
from ldm.words import counted

FOLDER = "batches"
#: A stage of fewer calls is made directly: a batch may take a day, and saves little then.
FEWEST = 8
#: What a batch holds at most. OpenAI takes 50,000 calls and 200 MB, other servers may take less.
MOST_CALLS = 50_000
MOST_BYTES = 50_000_000

#: Seconds that a call is said to have taken at most, whatever clocks say.
LONGEST = 1e6

#: Called with (stage, done, total) as the work goes on.
OnProgress = Callable[[str, int, int], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Polling:
    """How often a batch is looked at, in seconds.

    first, longest: waited after the first look, and at most; each wait is `growth` times the one
    before. patience: how long the server may answer no look before the run stops.
    """

    first: float = 2.0
    longest: float = 60.0
    growth: float = 1.5
    patience: float = 3600.0


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A line of TOKEN.jsonl: a call of a batch. max_tokens: the bound that it was sent with."""

    key: str
    role: str
    request: Request
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class Submission:
    """TOKEN.json: how far a batch is. file, batch: their ids at the server, "" before there is one.

    capabilities: how requests were written. started: seconds since 1970.
    """

    token: str
    server: str
    calls: Count
    capabilities: Capabilities
    started: float
    file: str = ""
    batch: str = ""


def pending(folder: Path) -> list[Path]:
    """Return the records of the batches below a folder of calls that have not been read."""
    return sorted((folder / FOLDER).glob("*.json"))


def read_submission(path: Path) -> Submission:
    """Return the record of a batch. Raises LdmError where the file holds something else."""
    return records.loads(untrusted.file_bytes(path), Submission, file=str(path))


class Batches:
    """Makes calls of one role in batches. Not for several threads."""

    def __init__(
        self,
        client: Client,
        role: str,
        folder: Path,
        message: Callable[[str], None] = lambda line: None,
        polling: Polling | None = None,
    ) -> None:
        """Take the client and the folder of its recording. message: takes a line for the user.

        Raises LdmError where the server takes no batches, before anything is sent.
        """
        self.client = client
        self.role = role
        self._folder = folder
        self._message = message
        self._polling = polling or Polling()
        service = client.service(role)
        self._server = service.connection.display_url
        self._endpoint = BatchEndpoint(service)
        self._stage = 0
        self._unanswered: set[str] = set()
        self._lists = self._checked("The batches of the server cannot be listed", self._lists_any)

    def recover(self, on_progress: OnProgress = lambda *_: None) -> None:
        """Read the batches that an earlier process left, submitting those that it had not yet.

        Raises LdmError where that cannot be known, or a batch is lost; and what `ask` raises.
        """
        for path in (self._folder / FOLDER).glob("*.jsonl"):
            if not path.with_suffix(".json").exists():  # nothing of it was submitted
                path.unlink()
        parts = []
        for path in pending(self._folder):
            submission = read_submission(path)
            if submission.server != self._server:
                raise LdmError(
                    f"{counted(submission.calls, 'call')} of a batch were submitted to "
                    f"{submission.server}, not to {self._server}.",
                    f"Name that server, or remove {path}: they are then made anew.",
                )
            calls = records.read(self._calls_file(submission), PendingCall)
            if submission.batch:
                self._message(f"Resuming {_named(submission)}.")
            parts.append((self._submitted(submission, calls, resumed=True), calls))
        self._collect(parts, on_progress)

    def ask(
        self,
        missing: Mapping[str, tuple[str, Request]],
        on_progress: OnProgress = lambda *_: None,
    ) -> list[tuple[str, Request]]:
        """Make calls in batches and record them; return those that are left to be made directly.

        missing: key → (role, request). Left are those that failed in a batch, or expired, and all
        where there are too few for a batch.
        Raises RunStopped where they could exceed a limit, or a batch was cancelled or refused.
        """
        new = {key: one for key, one in missing.items() if key not in self._unanswered}
        if len(new) >= FEWEST:
            requests = [request for _, request in new.values()]
            bounds = self.client.admit(self.role, requests)
            calls = [
                PendingCall(key, role, request, bound)
                for (key, (role, request)), bound in zip(new.items(), bounds, strict=True)
            ]
            parts = [(self._prepared(part), part) for part in self._parts(calls)]
            sent = [(self._submitted(one, part), part) for one, part in parts]
            self._collect(sent, on_progress)
        return [one for key, one in missing.items() if self.client.recorded(key) is None]

    # Submitting

    def _parts(self, calls: Iterable[PendingCall]) -> Iterator[list[PendingCall]]:
        """Yield calls in parts of which each fits a batch; the calls of one go to one model."""
        groups: dict[str, list[PendingCall]] = {}
        for call in calls:
            groups.setdefault(call.request.model, []).append(call)
        for group in groups.values():
            part: list[PendingCall] = []
            size = 0
            for call in group:
                length = len(self._line(call))
                if part and (len(part) == MOST_CALLS or size + length > MOST_BYTES):
                    yield part
                    part, size = [], 0
                part.append(call)
                size += length
            yield part

    def _line(self, call: PendingCall, capabilities: Capabilities | None = None) -> bytes:
        known = capabilities or self.client.capabilities(call.request.model, self.role)
        return line_of(call.key, call.request, known, call.max_tokens)

    def _prepared(self, calls: Sequence[PendingCall]) -> Submission:
        """Write down what is about to be submitted."""
        known = self.client.capabilities(calls[0].request.model, self.role)
        token = secrets.token_hex(8)
        submission = Submission(token, self._server, len(calls), known, round(time.time(), 3))
        _write(self._calls_file(submission), calls)
        self._save(submission)
        return submission

    def _submitted(
        self, submission: Submission, calls: Sequence[PendingCall], *, resumed: bool = False
    ) -> Submission:
        """Upload and submit what has not been yet, and write down each step.

        resumed: an earlier process may have submitted it without writing down its id.
        """
        if not submission.file:
            if resumed:
                self.client.admit(self.role, [call.request for call in calls])
                resumed = False
            content = b"".join(self._line(call, submission.capabilities) for call in calls)
            file = self._decided(
                submission, lambda: self._endpoint.upload(content, submission.token)
            )
            submission = replace(submission, file=file)
            self._save(submission)
        if not submission.batch:
            submission = replace(submission, batch=self._created(submission, resumed).id)
            self._save(submission)
            hint = (
                " It goes on at the server if this command is stopped; run it again to read the "
                "replies."
            )
            self._message(f"Submitted {_named(submission)}.{'' if self._stage else hint}")
        return submission

    def _created(self, submission: Submission, unsure: bool) -> BatchState:
        """Submit a batch, or find it. unsure: it may be at the server already."""

        def create() -> BatchState:
            nonlocal unsure
            if unsure and (batch := self._at_server(submission)):
                return batch
            try:
                return self._endpoint.create(submission.file, submission.token)
            except Fault as fault:
                unsure = fault.kind == "again" and not fault.refused
                raise

        return self._decided(submission, create)

    def _at_server(self, submission: Submission) -> BatchState | None:
        """Return the batch at the server, None where there is none. Raises LdmError if unknown."""
        if not self._lists:
            raise LdmError(
                f"{counted(submission.calls, 'call')} may have been submitted as a batch when the "
                f"command was stopped, and {self._server} does not list its batches.",
                f"Look there for the metadata ldm={submission.token}; if there is no such batch, "
                f"remove {self._file(submission)} and run the command again.",
            )
        return self._endpoint.find(submission.token)

    def _decided(self, submission: Submission, action: Callable[[], T]) -> T:
        """Return what an action gives. Where the server refuses it, nothing has been submitted."""
        try:
            return self._reliably(submission.token, action)
        except Fault as error:
            fault = error
        if fault.kind != "again":
            self._discard(submission)
        raise self._unavailable(
            f"A batch of {counted(submission.calls, 'call')} was not accepted", fault
        )

    # Waiting

    def _collect(
        self, parts: Sequence[tuple[Submission, Sequence[PendingCall]]], on_progress: OnProgress
    ) -> None:
        """Wait for batches, and record the replies of each as soon as it is over."""
        if not parts:
            return
        self._stage += 1
        left, done = list(parts), dict.fromkeys((one.token for one, _ in parts), 0)
        total = sum(len(calls) for _, calls in parts)
        wait, heard = self._polling.first, time.monotonic()
        while True:
            for part in list(left):
                submission, calls = part
                try:
                    state = self._endpoint.state(submission.batch)
                except Fault as error:
                    self._endure(submission, error, heard)
                    continue
                heard = time.monotonic()
                done[submission.token] = min(state.done, len(calls))
                if state.ended:
                    left.remove(part)
                    self._read(submission, calls, state)
                    done[submission.token] = len(calls)
            on_progress(f"calls in batch {self._stage}", sum(done.values()), total)
            if not left:
                return
            self.client.pause(wait)
            wait = min(self._polling.longest, wait * self._polling.growth)

    def _endure(self, submission: Submission, fault: Fault, heard: float) -> None:
        """Put up with a fault while waiting; raise LdmError where it does not pass."""
        if fault.kind == "again" and time.monotonic() - heard < self._polling.patience:
            return
        if fault.status in ABSENT:
            raise self._lost(submission, f"The server does not know {_named(submission)}")
        raise self._unavailable(f"The server does not say how far {_named(submission)} is", fault)

    # Reading

    def _read(
        self, submission: Submission, calls: Sequence[PendingCall], state: BatchState
    ) -> None:
        """Record the replies of a batch that is over. Raises RunStopped where it ended badly."""
        lines: dict[Any, dict[str, Any]] = {}
        for file in state.files:
            for line in self._lines(submission, file):
                key = line.get("custom_id")
                if isinstance(key, str):
                    lines.setdefault(key, line)
        unanswered = set()
        for call in calls:
            if self.client.recorded(call.key) is not None:
                continue  # read before a kill
            answered = answered_call(call, lines.get(call.key, {}), submission)
            if answered is None:
                unanswered.add(call.key)
            else:
                self.client.take(answered)
        self._discard(submission)
        answers = f"{len(calls) - len(unanswered)} of {counted(len(calls), 'call')} answered"
        if state.status == "failed":
            raise ModelUnavailable(
                f"The server did not carry out batch {submission.batch}, {answers}: "
                f"{state.complaint or 'it does not say why'}.",
                "Leave out --batch-api, or form fewer trajectories at a time.",
            )
        if state.status == "cancelled":
            raise RunStopped(
                f"Batch {submission.batch} was cancelled at the server, {answers} and recorded.",
                "Run the command again to submit the others, or without --batch-api to make them "
                "directly.",
            )
        self._unanswered |= unanswered
        if unanswered:
            answers += f"; {len(unanswered)} left to be made directly"
        self._message(f"Batch {submission.batch} {state.status}: {answers}.")

    def _lines(self, submission: Submission, file: str) -> list[dict[str, Any]]:
        try:
            return self._reliably(file, lambda: self._endpoint.lines(file))
        except Fault as error:
            fault = error
        if fault.status in ABSENT:
            raise self._lost(submission, f"The server has no file {file} of {_named(submission)}")
        raise self._unavailable(f"{_named(submission)} cannot be read", fault)

    # Faults

    def _lists_any(self) -> bool:
        return self._endpoint.lists()

    def _checked(self, what: str, action: Callable[[], T]) -> T:
        try:
            return self._reliably(what, action)
        except Fault as error:
            fault = error
        raise self._unavailable(what, fault)

    def _reliably(self, key: str, action: Callable[[], T]) -> T:
        """Return what an action gives, tried again as calls are. Raises Fault."""
        retry, attempt = self.client.retry, 1
        while True:
            try:
                return action()
            except Fault as error:
                fault = error
            after = fault.retry_after or 0.0
            last = attempt >= retry.attempts or after > retry.retry_after
            if fault.kind != "again" or last:
                raise fault
            self.client.pause(max(after, retry.wait(key, attempt)))
            attempt += 1

    @staticmethod
    def _unavailable(what: str, fault: Fault) -> ModelUnavailable:
        return ModelUnavailable(
            f"{what}: {fault.what}.",
            "Check the service and the key, then run the command again; nothing is paid twice. "
            "Without --batch-api calls are made directly.",
        )

    def _lost(self, submission: Submission, what: str) -> LdmError:
        return LdmError(
            f"{what}.",
            "Check the server and the key. If it is gone, remove "
            f"{self._file(submission)}: its calls are then made anew.",
        )

    # Files

    def _file(self, submission: Submission) -> Path:
        return self._folder / FOLDER / f"{submission.token}.json"

    def _calls_file(self, submission: Submission) -> Path:
        return self._file(submission).with_suffix(".jsonl")

    def _save(self, submission: Submission) -> None:
        _write(self._file(submission), [submission])

    def _discard(self, submission: Submission) -> None:
        """Forget a batch whose replies are recorded; the calls' file counts for nothing alone."""
        self._file(submission).unlink(missing_ok=True)
        self._calls_file(submission).unlink(missing_ok=True)
        with suppress(OSError):  # others are under way
            (self._folder / FOLDER).rmdir()


def answered_call(
    pending_call: PendingCall, line: Mapping[str, Any], submission: Submission
) -> Call | None:
    """Return the call that a line of a batch's files answers; None where it holds no reply."""
    request, capabilities = pending_call.request, submission.capabilities
    response = line.get("response")
    if not isinstance(response, dict):
        return None
    status, body = response.get("status_code"), response.get("body")
    error = ""
    if isinstance(status, int) and status >= 400:
        fault = refusal(status, body, {})
        if fault.kind != "context":
            return None
        reply, error = ServerReply(fault.what, "", Usage()), "context"
    else:
        try:
            reply = reply_in(body, request, capabilities)
        except Fault:
            return None
    return Call(
        key=pending_call.key,
        role=pending_call.role,
        request=request,
        text=reply.text,
        finish=reply.finish,
        usage=reply.usage,
        mode=capabilities.structured if request.schema is not None else "",
        error=error,
        seconds=min(LONGEST, max(0.0, round(time.time() - submission.started, 3))),
        estimated=reply.estimated,
    )


def _named(submission: Submission) -> str:
    return f"batch {submission.batch} of {counted(submission.calls, 'call')}"


def _write(path: Path, lines: Sequence[object]) -> None:
    """Replace a file by records that outlast even a power cut."""
    with records.replacing(path) as file:
        for line in lines:
            file.write(records.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
