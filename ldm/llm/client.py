"""The client: calls any OpenAI-compatible server; records, meters, limits and retries the calls.

A call is looked up in the recording first. If it is not there, it is paid for: admitted by the
meter, sent through the concurrency limiter, tried again where that can help, and recorded before
anyone sees it. One client serves all threads of a process.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ldm.errors import (
    BudgetSpent,
    ContextTooLong,
    LdmError,
    ModelError,
    ModelUnavailable,
    ReplayMiss,
    RunStopped,
)
from ldm.llm import GREEDY, Completion, Message, Sampling
from ldm.llm.calls import Call, Request, ServerReply
from ldm.llm.capabilities import MODES, Capabilities, CapabilityStore, Probe, probe_request
from ldm.llm.concurrency import ConcurrencyLimiter
from ldm.llm.meter import Account, Meter
from ldm.llm.recording import Recording
from ldm.llm.service import Fault, Service
from ldm.llm.structured import form_of, repair_messages
from ldm.types import Usage, stable_seed

PROBE = "probe"


def fitting(call: Call) -> Call:
    """Return the call. Raises ContextTooLong where its request was too long."""
    if call.error:
        raise ContextTooLong(
            f"The messages are too long for {call.request.model}: {call.text}.", "Shorten them."
        )
    return call


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and how long, a failed call is tried again.

    attempts: requests sent for one call at most. first, longest: seconds waited before the second
    and at most before any; each wait is twice the one before, less a random part of up to half.
    retry_after: seconds that the server may ask to wait; more stops the run.
    failures: failed calls in a row, without any response between them, that stop the run.
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
    """How far one call has come. attempt: from 1. unusable: final faults so far (see `Fault`)."""

    started: float
    attempt: int = 1
    unusable: int = 0

    def after(self, fault: Fault) -> _Progress:
        """Return the progress once an attempt has failed."""
        return replace(self, attempt=self.attempt + 1, unusable=self.unusable + fault.final)


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and what it accepts. service: None answers from the recording only."""

    service: Service | None
    capabilities: CapabilityStore


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """What a client consists of. service: None answers from the recording only (--replay).

    answer_tokens: the bound of a reply whose caller gave none, where the limits need one.
    elsewhere: role → the server that its model is at, of roles whose is another one.
    """

    service: Service | None
    recording: Recording
    meter: Meter
    limiter: ConcurrencyLimiter
    capabilities: CapabilityStore
    retry: RetryPolicy = RetryPolicy()
    answer_tokens: int = 2048
    elsewhere: Mapping[str, Server] = field(default_factory=dict)

    def server(self, role: str) -> Server:
        """Return where the model of a role is."""
        return self.elsewhere.get(role) or Server(self.service, self.capabilities)


class Client:
    """Calls the models of a run, whose limits hold for all of their servers together.

    `model` returns what agents and reasoners work with.
    """

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self._setup.meter.take(setup.recording)
        self._pending: dict[str, Future[Call]] = {}
        self._lock = threading.Lock()
        self._probing = threading.Lock()
        self._stopped: RunStopped | None = None
        self._stopping = threading.Event()
        self._responses = 0
        self._failures = 0

    def model(self, name: str, role: str = "llm") -> Model:
        """Return the model `name` as an LLM in a role.

        Raises LdmError where its price has to be known and is not.
        """
        if self._setup.service is not None:
            self._setup.meter.check_price(name)
        return Model(self, name, role)

    def accounts(self) -> list[Account]:
        """Return what was paid in this run, earlier attempts included, by role and model."""
        return self._setup.meter.accounts()

    @property
    def under_way(self) -> int:
        """How many calls are in flight."""
        return self._setup.meter.in_flight

    def close(self, grace: float = 0.0) -> None:
        """Close all connections. Calls that still wait in other threads stop.

        grace: seconds to wait for responses under way and record them: they are billed anyway.
        """
        self.stop(RunStopped("The client is closed."))
        self._setup.meter.wait_until_settled(grace)
        for server in (self._setup.server(""), *self._setup.elsewhere.values()):
            if server.service is not None:
                server.service.close()

    def stop(self, reason: RunStopped) -> None:
        """Make no further call; those in flight may still be answered and recorded."""
        with self._lock:
            if self._stopped is None:
                self._stopped = reason
        self._stopping.set()
        self._setup.meter.shut()
        self._setup.limiter.shut()

    def call(self, role: str, request: Request) -> Call:
        """Return the recorded call, or make a new one; equal simultaneous requests are one call.

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
        return fitting(call)

    def capabilities(self, model: str, role: str = "") -> Capabilities:
        """Return what the server of a role accepts for `model`; the first call for it probes it.

        Raises ReplayMiss without a service, and what a call raises.
        """
        server = self._setup.server(role)
        with self._probing:
            capabilities = server.capabilities.get(model)
            if capabilities is None:
                capabilities = self._probe(model, server)
                if server.service is not None:
                    context = server.service.context(model)
                    capabilities = replace(capabilities, context=context)
                server.capabilities.put(model, capabilities)
        return capabilities

    def context(self, model: str, role: str = "") -> int | None:
        """Return the tokens of the context of a role's model, None where nobody says.

        The same for a whole run: what the server said when it was probed, or, in a replay, what the
        recorded run knew. Raises what a call raises.
        """
        server = self._setup.server(role)
        if server.service is None:
            return server.capabilities.context(model)
        return self.capabilities(model, role).context

    def _make(self, role: str, request: Request, outcome: Future[Call]) -> Call:
        """Make the call; threads that wait for `outcome` get the same result or error."""
        try:
            if self._setup.service is None:
                raise ReplayMiss(
                    f"The recording does not hold a call of {request.model} that is needed "
                    f"(role {role}, key {request.key}).",
                    "Replay with the settings of the recorded run, or use a server.",
                )
            server = self._setup.server(role)
            before = self.capabilities(request.model, role)
            call, after = self._send_with_retries(role, request, before, server)
            if after != before:
                server.capabilities.put(request.model, after)
        except BaseException as error:
            outcome.set_exception(error)
            raise
        else:
            outcome.set_result(call)
            return call
        finally:
            with self._lock:
                del self._pending[request.key]

    def _send_with_retries(
        self, role: str, request: Request, capabilities: Capabilities, server: Server
    ) -> tuple[Call, Capabilities]:
        """Return the answered and recorded call, and what the server turned out to accept."""
        retry, responses = self._setup.retry, self._responses
        progress = _Progress(started=time.monotonic())
        while True:
            if self._stopping.is_set():
                raise self._stop_reason()
            try:
                call = self._attempt(role, request, capabilities, progress, server)
                return call, capabilities
            except Fault as error:
                fault = error
            # Outside of the handler, so that no chained exception can show a key.
            if fault.kind == "refused" and (weaker := capabilities.without(fault.what)):
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
        self,
        role: str,
        request: Request,
        capabilities: Capabilities,
        progress: _Progress,
        server: Server,
    ) -> Call:
        """Send one request; its response is recorded before it is returned."""
        meter = self._setup.meter
        bound = self._bound(request, capabilities)
        try:
            reservation = meter.reserve(request, bound)
        except RunStopped as error:
            self.stop(error)
            raise
        if reservation is None:
            raise self._stop_reason()
        call = None
        try:
            reply, failure = self._send(server, request, capabilities, bound, progress.unusable)
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
            )
            self._setup.recording.add(call)
        finally:
            meter.settle(reservation, call)
        with self._lock:
            self._responses += 1
            self._failures = 0
        return call

    def _send(
        self,
        server: Server,
        request: Request,
        capabilities: Capabilities,
        bound: int | None,
        unusable: int,
    ) -> tuple[ServerReply, str]:
        """Return (the reply, "context" where the request is too long). Raises Fault."""
        service, limiter = server.service, self._setup.limiter
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

    def _bound(self, request: Request, capabilities: Capabilities) -> int | None:
        """Return the bound on the reply's length. Raises RunStopped where none can be set."""
        if not self._setup.meter.limits.need_bounds:
            return request.max_tokens
        if not capabilities.max_tokens:
            unbounded = BudgetSpent(
                f"The server takes no bound on the length of {request.model}'s replies, so "
                "--max-usd and --max-tokens cannot be enforced.",
                "Use --max-calls.",
            )
            self.stop(unbounded)
            raise unbounded
        return self._setup.answer_tokens if request.max_tokens is None else request.max_tokens

    def _failure(self, fault: Fault, attempts: int, *, silent: bool) -> LdmError:
        """Return what to raise for a call that failed for good.

        silent: the server answered no call at all while this one was tried.
        """
        with self._lock:
            self._failures += 1
            is_hopeless = self._failures >= self._setup.retry.failures
        times = f"after {attempts} attempts" if attempts > 1 else "at once"
        message = f"The model service failed {times}: {fault.what}."
        if fault.kind == "stop" or is_hopeless or (silent and fault.down):
            unavailable = ModelUnavailable(
                message, "Check the service, the model's name and the key; then resume."
            )
            self.stop(unavailable)
            return unavailable
        return ModelError(message, "Other calls may succeed; this one was given up.")

    def _stop_reason(self) -> RunStopped:
        return self._stopped or RunStopped("The client is closed.")

    def _probe(self, model: str, server: Server) -> Capabilities:
        """Ask short questions, from the strongest way of asking for JSON to the weakest."""
        capabilities, form = Capabilities(), form_of(Probe)
        for mode in MODES[:-1]:
            if MODES.index(mode) < MODES.index(capabilities.structured):
                continue  # refused while the mode before was tried
            request = probe_request(model, mode, server.capabilities.server)
            call = self._setup.recording.find(request.key)
            if call is None:
                call, capabilities = self._send_with_retries(
                    PROBE, request, replace(capabilities, structured=mode), server
                )
            if form.read(call.text)[0] is not None:
                return capabilities
            if capabilities.structured == "prompt":
                break
        return replace(capabilities, structured="prompt")


class Model:
    """One model in one role, as `LLM`."""

    def __init__(self, client: Client, name: str, role: str) -> None:
        self.name = name
        self.role = role
        self._client = client

    def context(self) -> int | None:
        """Return the tokens of the model's context, None where the server does not say."""
        return self._client.context(self.name, self.role)

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """Complete as `LLM.complete`; request a reply that does not fit the schema once more."""
        form = None if schema is None else form_of(schema)
        request = Request(
            model=self.name,
            messages=tuple(messages),
            schema=None if form is None else form.schema,
            sampling=sampling,
            max_tokens=max_tokens,
            stop=tuple(stop),
        )
        call = self._client.call(self.role, request)
        if form is None:
            return Completion(call.text, call.usage, keys=(call.key,))
        value, complaint = form.read(call.text)
        usage, keys = call.usage, [call.key]
        if value is None:
            messages_again = repair_messages(request.messages, call.text, complaint)
            with suppress(ContextTooLong):
                call = self._client.call(self.role, replace(request, messages=messages_again))
                usage += call.usage
                keys.append(call.key)
                value, _ = form.read(call.text)
        if value is None:
            return Completion(call.text, usage, malformed=True, keys=tuple(keys))
        return Completion(form.write(value), usage, value, keys=tuple(keys))
