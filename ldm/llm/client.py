"""The client: calls any OpenAI-compatible server; records, meters, limits and retries the calls.

A call is looked up in the recording first. If it is missing, it is paid for: admitted by the meter,
sent through the concurrency limiter, retried if that can help, and recorded before the caller sees
it. One client serves all threads of a process.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

from ldm import errors
from ldm.llm import GREEDY, CallOptions, Completion, Message
from ldm.llm.answers import Fault, Form, form_of, repair_messages
from ldm.llm.calls import LOST, Call, Recording, Request
from ldm.llm.capabilities import (
    LEAST_ROOM,
    MODES,
    Capabilities,
    CapabilityStore,
    Probe,
    probe_request,
)
from ldm.llm.meter import ConcurrencyLimiter, Meter
from ldm.llm.service import Service
from ldm.types import Usage, stable_seed

PROBE = "probe"
#: Unusable replies that stop a run: so many, if there was no other, or so many replies of which
#: most are unusable.
ALL_UNUSABLE, MOSTLY_UNUSABLE = 3, 20


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of retries of a failed call, and the waits between them.

    attempts: maximum requests for one call. first, longest: seconds before the second request, and
    the maximum before any; each wait is twice the one before, less a random part of up to half, and
    four times as long after a refusal (429), so that all of them outlast the quota of a minute.
    retry_after: maximum wait that the server may ask for; a longer one stops the run.
    failures: consecutive failed calls, without any response between them, that stop the run.
    """

    attempts: int = 6
    first: float = 1.0
    longest: float = 60.0
    retry_after: float = 600.0
    failures: int = 3

    def wait(self, key: str, attempt: int, fault: Fault) -> float:
        """Return the seconds to wait after attempt number `attempt` (from 1) of call `key`."""
        full = min(self.longest, self.first * 2.0 ** (attempt - 1 + 2 * fault.refused))
        part = random.Random(stable_seed(key, attempt)).uniform(0.5, 1.0)
        return max(fault.retry_after or 0.0, full * part)


@dataclass(eq=False)
class Client:
    """Calls the models of a run; `model` returns what agents and reasoners work with.

    service: None in replay mode. known: what servers accept. answer_tokens: the bound of a reply
    whose caller gave none, if the limits need one.
    """

    service: Service | None
    recording: Recording
    meter: Meter
    limiter: ConcurrencyLimiter
    known: CapabilityStore
    retry: RetryPolicy = RetryPolicy()
    answer_tokens: int = 2048

    def __post_init__(self) -> None:
        self.meter.take(self.recording)
        self._pending: dict[str, Future[Call]] = {}
        self._lock = threading.Condition()
        self._probing = threading.Lock()
        self._reason = errors.RunStopped("The client is closed.")
        self._stopping = threading.Event()
        self._responses = 0
        self._failures = 0
        self._usable = self._unusable = 0

    def model(self, name: str, role: str = "llm") -> Model:
        """Return the model `name` as an LLM in a role.

        Raises LdmError if a limit needs its price and the price is unknown.
        """
        if self.service is not None:
            self.meter.check_price(name)
        return Model(self, name, role)

    def close(self, grace: float = 0.0) -> None:
        """Close all connections, and stop the calls that wait in other threads.

        grace: seconds to wait for responses in flight, which are billed anyway, to record them.
        """
        self.stop(self._reason)
        with self._lock:  # a paid response is recorded after the meter has settled it
            self._lock.wait_for(lambda: not self._pending, grace)
        if self.service is not None:
            self.service.close()

    def stop(self, reason: errors.RunStopped) -> errors.RunStopped:
        """Send no new calls, for a reason, which is returned; calls in flight may still finish."""
        with self._lock:
            if not self._stopping.is_set():
                self._reason = reason
            self._stopping.set()
        self.meter.shut(self._reason)
        self.limiter.shut(self._reason)
        return reason

    def call(self, role: str, request: Request) -> Call:
        """Return the recorded call, or make it; equal simultaneous requests are one call.

        Raises ContextTooLong, ModelError, RunStopped.
        """
        key = request.key
        with self._lock:
            call = self.recording.find(key)
            pending = self._pending.get(key)
            if call is None and pending is None:
                outcome: Future[Call] = Future()
                self._pending[key] = outcome
        if call is None and pending is not None:
            call = pending.result()
        elif call is None:
            call = self._make(role, request, outcome)
        if call.error:
            raise errors.ContextTooLong(
                f"The messages are too long for {request.model}: {call.text}.", "Shorten them."
            )
        return call

    def capabilities(self, model: str) -> Capabilities:
        """Return the server's capabilities for `model`; probe it at the first call.

        Raises ReplayMiss without a service, and the errors of a call.
        """
        with self._probing:
            capabilities = self.known.get(model)
            if capabilities is None:
                capabilities = self._probe(model)
                if self.service is not None:
                    context = self.service.context(model)
                    capabilities = replace(capabilities, context=context)
                self.known.put(model, capabilities)
        return capabilities

    def context(self, model: str) -> int | None:
        """Return the model's context length in tokens, or None if unknown.

        It stays the same for a whole run: the server states it when probed, and a replay takes it
        from the recorded run. Raises the errors of a call.
        """
        if self.service is None:
            return self.known.context(model)
        return self.capabilities(model).context

    def _make(self, role: str, request: Request, outcome: Future[Call]) -> Call:
        """Make the call; threads that wait for `outcome` get the same result or error."""
        try:
            if self.service is None:
                raise errors.ReplayMiss(
                    f"The recording does not hold a call of {request.model} that is needed "
                    f"(role {role}, key {request.key}).",
                    "Replay with the settings of the recorded run, or use a server.",
                )
            before = self.capabilities(request.model)
            call, after = self._send_with_retries(role, request, before)
            if after != before:
                self.known.put(request.model, after)
        except BaseException as error:
            outcome.set_exception(error)
            raise
        else:
            outcome.set_result(call)
            return call
        finally:
            with self._lock:
                del self._pending[request.key]
                self._lock.notify_all()

    def _send_with_retries(
        self, role: str, request: Request, capabilities: Capabilities
    ) -> tuple[Call, Capabilities]:
        """Return the answered and recorded call, and the capabilities found."""
        responses, started = self._responses, time.monotonic()
        attempt, unusable = 1, 0
        while True:
            if self._stopping.is_set():
                raise self._reason
            try:
                call = self._attempt(role, request, capabilities, unusable)
            except Fault as error:
                fault = error
            else:
                seconds = round(time.monotonic() - started, 3)
                call = replace(call, attempts=attempt, seconds=seconds)
                self.recording.add(call)
                return call, capabilities.after(call)
            # Outside of the handler, so that no chained exception can show a key.
            if fault.message and (weaker := capabilities.without(fault.message)):
                capabilities = weaker
                continue
            if (fault.retry_after or 0.0) > self.retry.retry_after:
                fault.kind = "stop"
            if fault.kind != "again" or attempt >= self.retry.attempts:
                raise self._failure(fault, attempt, silent=self._responses == responses)
            self._stopping.wait(self.retry.wait(request.key, attempt, fault))
            attempt, unusable = attempt + 1, unusable + fault.final

    def _attempt(
        self, role: str, request: Request, capabilities: Capabilities, unusable: int
    ) -> Call:
        """Send one request; return its paid response, an error "context" if it is too long.

        unusable: number of final faults so far (see `Fault`). Work that may be billed and brought
        no response is recorded as lost, at its maximum. Raises Fault.
        """
        bound = self._bound(request, capabilities)
        try:
            reserved = self.meter.reserve(request, bound)
        except errors.RunStopped as error:
            raise self.stop(error) from None
        assert self.service is not None  # noqa: S101 - `_make` has checked it
        call: Call | None = None
        try:
            entered = self.limiter.enter()
            try:
                call = self.service.send(role, request, capabilities, bound, unusable)
                self.limiter.widen()
            except Fault as fault:
                if fault.refused:
                    self.limiter.narrow(entered, fault.retry_after or 0.0)
                lost = Call(request.key, role, request, fault.what, "", reserved.usage, error=LOST)
                if fault.kind == "context":
                    call = replace(lost, usage=Usage(), error="context")
                else:
                    if fault.billed:
                        call = lost
                        self.recording.add(call)
                    raise
            finally:
                self.limiter.leave()
        finally:
            self.meter.settle(reserved, call)
        with self._lock:
            self._responses += 1
            self._failures = 0
        return call

    def replies(
        self, ask: Callable[[Request], Call], request: Request, form: Form | None
    ) -> list[Call]:
        """Return the call, and the one with more room that is made once if its reply was cut off.

        Raises as `ask` does.
        """
        call = ask(request)
        if not _is_unfinished(call, form):
            return [call]
        room = max(LEAST_ROOM, 4 * call.usage.completion_tokens)
        most = room + (request.max_tokens or self.answer_tokens)
        with suppress(errors.ModelError):  # there is no room for more: the reply stays cut
            return [call, ask(replace(request, max_tokens=most))]
        return [call]

    def judge(self, call: Call, *, usable: bool) -> None:
        """Count a reply. Raises ModelUnavailable, and stops the run, if most are unusable."""
        with self._lock:
            self._usable += usable
            self._unusable += not usable
            bad, total = self._unusable, self._usable + self._unusable
        stops = bad == total >= ALL_UNUSABLE if call.cut else 2 * bad > total >= MOSTLY_UNUSABLE
        if usable or not stops:
            return
        stopped = errors.ModelUnavailable(
            f"{bad} of {total} replies of {call.request.model} are unusable: empty, cut off at "
            f"their bound, or malformed; the last ended by {call.finish or 'no reason'!r}.",
            "Turn its thinking off or use another model; then resume.",
        )
        raise self.stop(stopped)

    def _bound(self, request: Request, capabilities: Capabilities) -> int | None:
        """Return the bound on the reply's length, with room for the model's thoughts.

        Raises RunStopped if none can be set.
        """
        most, limits = request.max_tokens, self.meter.limits
        needed = limits.usd is not None or limits.tokens is not None
        if needed and not capabilities.max_tokens:
            unbounded = errors.BudgetSpent(
                f"The server takes no bound on the length of {request.model}'s replies, so "
                "--max-usd and --max-tokens cannot be enforced.",
                "Use --max-calls.",
            )
            raise self.stop(unbounded)
        if most is None and needed:
            most = self.answer_tokens
        return None if most is None else most + capabilities.room

    def _failure(self, fault: Fault, attempts: int, *, silent: bool) -> errors.LdmError:
        """Return the error of a call that failed for good.

        silent: the server answered no call at all while this one was tried.
        """
        with self._lock:
            self._failures += fault.kind != "rejected"
            is_hopeless = self._failures >= self.retry.failures
        times = f"after {attempts} attempts" if attempts > 1 else "at once"
        message = f"The model service failed {times}: {fault.what}."
        if fault.kind == "stop" or is_hopeless or (silent and fault.down):
            remedy = "Check the service (often at …/v1), the model's name and the key; then resume."
            return self.stop(errors.ModelUnavailable(message, remedy))
        return errors.ModelError(message, "Other calls may succeed; this one was given up.")

    def _probe(self, model: str) -> Capabilities:
        """Ask short questions, from the strongest way of asking for JSON to the weakest."""
        capabilities, form = Capabilities(), form_of(Probe)

        def ask(request: Request) -> Call:
            nonlocal capabilities
            call = self.recording.find(request.key)
            if call is None:
                call, capabilities = self._send_with_retries(PROBE, request, capabilities)
            return call

        for mode in MODES[:-1]:
            if MODES.index(mode) < MODES.index(capabilities.structured):
                continue  # refused while the mode before was tried
            capabilities = replace(capabilities, structured=mode)
            request = probe_request(model, mode, self.known.server)
            call = self.replies(ask, request, form)[-1]
            if form.read(call.text)[0] is not None:
                return capabilities
            if capabilities.structured == "prompt":
                break
        return replace(capabilities, structured="prompt")


def _is_unfinished(call: Call, form: Form | None) -> bool:
    """Return whether a reply was cut off before its end was reached.

    That is an object's last bracket; with a stop sequence, a line's end, since callers that give
    one read line by line; else whatever end the model would have found.
    """
    if form is not None:
        return call.cut and form.read(call.text)[0] is None
    return call.cut and not (call.request.stop and "\n" in call.text.strip())


@dataclass(eq=False, slots=True)
class Model:
    """One model in one role, as `LLM`."""

    _client: Client
    name: str
    role: str

    def context(self) -> int | None:
        """Return the context length of the model in tokens, or None if unknown."""
        return self._client.context(self.name)

    def complete(self, messages: Sequence[Message], **options: Unpack[CallOptions]) -> Completion:
        """Complete as `LLM.complete`; request a reply that does not fit the schema once more."""
        schema = options.get("schema")
        form = None if schema is None else form_of(schema)
        request = Request(
            model=self.name,
            messages=tuple(messages),
            schema=None if form is None else form.schema,
            sampling=options.get("sampling", GREEDY),
            max_tokens=options.get("max_tokens"),
            stop=tuple(options.get("stop", ())),
        )
        ask = partial(self._client.call, self.role)
        calls = self._client.replies(ask, request, form)
        value, complaint = (None, "") if form is None else form.read(calls[-1].text)
        malformed = form is not None and value is None
        if form is not None and malformed:
            again = repair_messages(request.messages, calls[-1].text, complaint)
            with suppress(errors.ContextTooLong):
                repaired = replace(request, messages=again)
                calls += self._client.replies(ask, repaired, form)
                value, _ = form.read(calls[-1].text)
        last = calls[-1]
        usable = not _is_unfinished(last, None) if form is None else value is not None
        self._client.judge(last, usable=usable)
        return Completion(
            last.whole if form is None or value is None else form.write(value),
            sum((call.usage for call in calls), Usage()),
            value,
            malformed=malformed,
            cut=last.cut and value is None,
            keys=tuple(call.key for call in calls),
        )
