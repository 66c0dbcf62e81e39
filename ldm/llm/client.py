"""The client: calls any OpenAI-compatible server; records, meters, limits and retries the calls.

A call is looked up in the recording first. If it is missing, it is paid for: admitted by the meter,
sent through the concurrency limiter, retried if that can help, and recorded before the caller sees
it. One client serves all threads of a process.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Unpack

from ldm import errors
from ldm.llm import GREEDY, CallOptions, Completion, Message
from ldm.llm.answers import Fault
from ldm.llm.calls import CUT, Call, Request, ServerReply
from ldm.llm.capabilities import (
    LEAST_ROOM,
    MODES,
    Capabilities,
    CapabilityStore,
    Probe,
    probe_request,
)
from ldm.llm.concurrency import ConcurrencyLimiter
from ldm.llm.meter import Account, Meter
from ldm.llm.recording import Recording
from ldm.llm.service import Service
from ldm.llm.structured import form_of, repair_messages
from ldm.types import Usage, stable_seed

PROBE = "probe"
#: Unusable replies that stop a run: so many, if there was no other, or so many replies of which
#: most are unusable.
ALL_UNUSABLE, MOSTLY_UNUSABLE = 3, 20


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of retries of a failed call, and the waits between them.

    attempts: maximum requests for one call. first, longest: seconds before the second request, and
    the maximum before any; each wait is twice the one before, less a random part of up to half.
    retry_after: maximum wait that the server may ask for; a longer one stops the run.
    failures: consecutive failed calls, without any response between them, that stop the run.
    """

    attempts: int = 6
    first: float = 1.0
    longest: float = 60.0
    retry_after: float = 600.0
    failures: int = 3

    def wait(self, key: str, attempt: int) -> float:
        """Return the seconds to wait after attempt number `attempt` (from 1) of call `key`."""
        full = min(self.longest, self.first * 2.0 ** (attempt - 1))
        return full * random.Random(stable_seed(key, attempt)).uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class _Progress:
    """The retry state of one call.

    attempt: from 1. unusable: final faults (see `Fault`). room: tokens added to the bound after a
    reply that was cut off, whose cost is `spent`.
    """

    started: float
    attempt: int = 1
    unusable: int = 0
    room: int = 0
    spent: Usage = Usage()  # noqa: RUF009 - frozen

    def after(self, fault: Fault) -> _Progress:
        """Return the progress after a failed attempt."""
        return replace(self, attempt=self.attempt + 1, unusable=self.unusable + fault.final)


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """The parts of a client. service: None in replay mode.

    answer_tokens: the bound of a reply whose caller gave none, if the limits need one.
    """

    service: Service | None
    recording: Recording
    meter: Meter
    limiter: ConcurrencyLimiter
    capabilities: CapabilityStore
    retry: RetryPolicy = RetryPolicy()
    answer_tokens: int = 2048


class Client:
    """Calls the models of a run; `model` returns what agents and reasoners work with."""

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self._setup.meter.take(setup.recording)
        self._pending: dict[str, Future[Call]] = {}
        self._lock = threading.Condition()
        self._probing = threading.Lock()
        self._stopped: errors.RunStopped | None = None
        self._stopping = threading.Event()
        self._responses = 0
        self._failures = 0
        self._usable = self._unusable = 0

    def model(self, name: str, role: str = "llm") -> Model:
        """Return the model `name` as an LLM in a role.

        Raises LdmError if a limit needs its price and the price is unknown.
        """
        if self._setup.service is not None:
            self._setup.meter.check_price(name)
        return Model(self, name, role)

    def accounts(self) -> list[Account]:
        """Return the cost of this run, earlier attempts included, by role and model."""
        return self._setup.meter.accounts()

    @property
    def in_flight(self) -> int:
        """The number of calls in flight."""
        return self._setup.meter.in_flight

    def close(self, grace: float = 0.0) -> None:
        """Close all connections, and stop the calls that wait in other threads.

        grace: seconds to wait for responses in flight, which are billed anyway, to record them.
        """
        self.stop(errors.RunStopped("The client is closed."))
        with self._lock:  # a paid response is recorded after the meter has settled it
            self._lock.wait_for(lambda: not self._pending, grace)
        if self._setup.service is not None:
            self._setup.service.close()

    def stop(self, reason: errors.RunStopped) -> None:
        """Stop sending new calls; calls in flight may still finish and be recorded."""
        with self._lock:
            if self._stopped is None:
                self._stopped = reason
        self._stopping.set()
        self._setup.meter.shut()
        self._setup.limiter.shut()

    def call(self, role: str, request: Request) -> Call:
        """Return the recorded call, or make it; equal simultaneous requests are one call.

        Raises ContextTooLong, ModelError, RunStopped.
        """
        key = request.key
        with self._lock:
            call = self._setup.recording.find(key)
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
            capabilities = self._setup.capabilities.get(model)
            if capabilities is None:
                capabilities = self._probe(model)
                if self._setup.service is not None:
                    context = self._setup.service.context(model)
                    capabilities = replace(capabilities, context=context)
                self._setup.capabilities.put(model, capabilities)
        return capabilities

    def context(self, model: str) -> int | None:
        """Return the model's context length in tokens, or None if unknown.

        It stays the same for a whole run: the server states it when probed, and a replay takes it
        from the recorded run. Raises the errors of a call.
        """
        if self._setup.service is None:
            return self._setup.capabilities.context(model)
        return self.capabilities(model).context

    def _make(self, role: str, request: Request, outcome: Future[Call]) -> Call:
        """Make the call; threads that wait for `outcome` get the same result or error."""
        try:
            if self._setup.service is None:
                raise errors.ReplayMiss(
                    f"The recording does not hold a call of {request.model} that is needed "
                    f"(role {role}, key {request.key}).",
                    "Replay with the settings of the recorded run, or use a server.",
                )
            before = self.capabilities(request.model)
            call, after = self._send_with_retries(role, request, before)
            if after != before:
                self._setup.capabilities.put(request.model, after)
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
        retry, responses = self._setup.retry, self._responses
        progress = _Progress(started=time.monotonic())
        while True:
            if self._stopping.is_set():
                raise self._stop_reason()
            try:
                call, thinking = self._attempt(role, request, capabilities, progress)
            except Fault as error:
                fault = error
            else:
                capabilities = capabilities.after(thinking)
                if progress.room or not _is_unfinished(call):
                    return self._recorded(call, progress), capabilities
                if not call.text.strip() and call.finish not in CUT:
                    # The server ends thoughts at a stop sequence that is meant for the answer.
                    capabilities = replace(
                        capabilities, stop=capabilities.stop and not request.stop
                    )
                room = max(LEAST_ROOM, 4 * call.usage.completion_tokens)
                progress = replace(progress, room=room, spent=call.usage)
                continue
            # Outside of the handler, so that no chained exception can show a key.
            if fault.message and (weaker := capabilities.without(fault.message)):
                capabilities = weaker
                continue
            retry_after = fault.retry_after or 0.0
            if retry_after > retry.retry_after:
                fault.kind = "stop"
            if fault.kind != "again" or progress.attempt >= retry.attempts:
                raise self._failure(fault, progress.attempt, silent=self._responses == responses)
            self._stopping.wait(max(retry_after, retry.wait(request.key, progress.attempt)))
            progress = progress.after(fault)

    def _attempt(
        self, role: str, request: Request, capabilities: Capabilities, progress: _Progress
    ) -> tuple[Call, int]:
        """Send one request; return its paid response, and the tokens that the model thought."""
        meter = self._setup.meter
        bound = self._bound(request, capabilities, progress.room)
        try:
            reservation = meter.reserve(request, bound)
        except errors.RunStopped as error:
            self.stop(error)
            raise
        if reservation is None:
            raise self._stop_reason()
        call, billed = None, False
        try:
            reply, failure = self._send(request, capabilities, bound, progress.unusable)
            call = Call(
                key=request.key,
                role=role,
                request=request,
                text=reply.text,
                finish=reply.finish,
                usage=reply.usage,
                mode=capabilities.structured if request.schema is not None else "",
                error=failure,
                attempts=progress.attempt,
                seconds=round(time.monotonic() - progress.started, 3),
                estimated=reply.estimated,
                thoughts=reply.thoughts,
            )
        except Fault as fault:
            billed = fault.billed
            raise
        finally:
            meter.settle(reservation, call, billed=billed)
        with self._lock:
            self._responses += 1
            self._failures = 0
        return call, reply.thinking

    def _recorded(self, call: Call, progress: _Progress) -> Call:
        """Record a paid call, with the cost of a reply before it that was cut off."""
        call = replace(call, usage=call.usage + progress.spent)
        self._setup.recording.add(call)
        return call

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
        self.stop(stopped)
        raise stopped

    def _send(
        self, request: Request, capabilities: Capabilities, bound: int | None, unusable: int
    ) -> tuple[ServerReply, str]:
        """Return (the reply, "context" if the request is too long). Raises Fault."""
        service, limiter = self._setup.service, self._setup.limiter
        assert service is not None  # noqa: S101 - `_make` has checked it
        entered = limiter.enter()
        if entered is None:
            raise self._stop_reason()
        try:
            reply = service.send(request, capabilities, bound, unusable=unusable)
        except Fault as fault:
            if fault.refused:
                limiter.narrow(entered, fault.retry_after or 0.0)
            if fault.kind != "context":
                raise
            return ServerReply(fault.what, "", Usage()), "context"
        else:
            limiter.widen()
            return reply, ""
        finally:
            limiter.leave()

    def _bound(self, request: Request, capabilities: Capabilities, room: int) -> int | None:
        """Return the bound on the reply's length, with room for the model's thoughts.

        Raises RunStopped if none can be set.
        """
        most = request.max_tokens
        if most is None and (room or self._setup.meter.limits.need_bounds):
            most = self._setup.answer_tokens
        bound = None if most is None else most + max(room, capabilities.room)
        if not self._setup.meter.limits.need_bounds:
            return bound
        if not capabilities.max_tokens:
            unbounded = errors.BudgetSpent(
                f"The server takes no bound on the length of {request.model}'s replies, so "
                "--max-usd and --max-tokens cannot be enforced.",
                "Use --max-calls.",
            )
            self.stop(unbounded)
            raise unbounded
        return bound

    def _failure(self, fault: Fault, attempts: int, *, silent: bool) -> errors.LdmError:
        """Return the error of a call that failed for good.

        silent: the server answered no call at all while this one was tried.
        """
        with self._lock:
            self._failures += fault.kind != "rejected"
            is_hopeless = self._failures >= self._setup.retry.failures
        times = f"after {attempts} attempts" if attempts > 1 else "at once"
        message = f"The model service failed {times}: {fault.what}."
        if fault.kind == "stop" or is_hopeless or (silent and fault.down):
            unavailable = errors.ModelUnavailable(
                message, "Check the service, the model's name and the key; then resume."
            )
            self.stop(unavailable)
            return unavailable
        return errors.ModelError(message, "Other calls may succeed; this one was given up.")

    def _stop_reason(self) -> errors.RunStopped:
        return self._stopped or errors.RunStopped("The client is closed.")

    def _probe(self, model: str) -> Capabilities:
        """Ask short questions, from the strongest way of asking for JSON to the weakest."""
        capabilities, form = Capabilities(), form_of(Probe)
        for mode in MODES[:-1]:
            if MODES.index(mode) < MODES.index(capabilities.structured):
                continue  # refused while the mode before was tried
            request = probe_request(model, mode, self._setup.capabilities.server)
            call = self._setup.recording.find(request.key)
            if call is None:
                call, capabilities = self._send_with_retries(
                    PROBE, request, replace(capabilities, structured=mode)
                )
            if form.read(call.text)[0] is not None:
                return capabilities
            if capabilities.structured == "prompt":
                break
        return replace(capabilities, structured="prompt")


def _is_unfinished(call: Call) -> bool:
    """Return whether a reply was cut off before its first line, or its object, was complete."""
    is_short = call.request.schema is not None or "\n" not in call.text.strip()
    return call.cut and is_short


class Model:
    """One model in one role, as `LLM`."""

    def __init__(self, client: Client, name: str, role: str) -> None:
        self.name = name
        self.role = role
        self._client = client

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
        call = self._client.call(self.role, request)
        if form is None:
            self._client.judge(call, usable=not _is_unfinished(call))
            return Completion(call.text, call.usage, cut=call.cut, keys=(call.key,))
        value, complaint = form.read(call.text)
        usage, keys = call.usage, [call.key]
        if value is None:
            messages_again = repair_messages(request.messages, call.text, complaint)
            with suppress(errors.ContextTooLong):
                call = self._client.call(self.role, replace(request, messages=messages_again))
                usage += call.usage
                keys.append(call.key)
                value, _ = form.read(call.text)
        self._client.judge(call, usable=value is not None)
        if value is None:
            return Completion(call.text, usage, None, True, call.cut, tuple(keys))
        return Completion(form.write(value), usage, value, len(keys) > 1, keys=tuple(keys))
