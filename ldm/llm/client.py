"""The client: any OpenAI-compatible server, recorded, metered, bounded and hard to break.

A call is looked up in the recording first. If it is not there, it is paid for: admitted by the
meter, sent through the gate, tried again where that can help, and written down before anyone sees
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
from ldm.llm.calls import Call, Reply, Request
from ldm.llm.capabilities import MODES, Capabilities, Known, Probe, probe_request
from ldm.llm.gate import Gate
from ldm.llm.meter import Account, Meter
from ldm.llm.recording import Recording
from ldm.llm.service import Fault, Service
from ldm.llm.structured import asking_for_repair, form_of
from ldm.types import Usage, stable_seed

PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call is worth trying.

    attempts: requests sent for one call at most. first, longest: seconds waited before the second
    and at most before any; each wait is twice the one before, less a random part of up to half.
    retry_after: seconds that the server may ask to wait; more stops the run.
    failures: calls in a row, without any answer between them, after which the run is stopped.
    """

    attempts: int = 6
    first: float = 1.0
    longest: float = 60.0
    retry_after: float = 600.0
    failures: int = 3

    def wait(self, key: str, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt` (from 1) of the call `key`."""
        full = min(self.longest, self.first * 2.0 ** (attempt - 1))
        return full * random.Random(stable_seed(key, attempt)).uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class _Progress:
    """Of one call. attempt: from 1. unusable: answers so far that were final."""

    started: float
    attempt: int = 1
    unusable: int = 0

    def after(self, fault: Fault) -> _Progress:
        return replace(self, attempt=self.attempt + 1, unusable=self.unusable + fault.final)


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a client works with. service: None answers from the recording only (--replay).

    answer_tokens: the bound of a reply whose caller gave none, where the limits need one.
    """

    service: Service | None
    recording: Recording
    meter: Meter
    gate: Gate
    known: Known
    patience: Patience = Patience()
    answer_tokens: int = 2048


class Client:
    """Calls to the models of one server. `model` gives what agents and reasoners are handed."""

    def __init__(self, equipment: Equipment) -> None:
        self._with = equipment
        self._with.meter.take(equipment.recording)
        self._pending: dict[str, Future[Call]] = {}
        self._lock = threading.Lock()
        self._probing = threading.Lock()
        self._stopped: RunStopped | None = None
        self._stopping = threading.Event()
        self._answers = 0
        self._failures = 0

    def model(self, name: str, role: str = "llm") -> Model:
        """The model `name` as an LLM in a role.

        Raises LdmError where its price has to be known and is not.
        """
        if self._with.service is not None:
            self._with.meter.check_price(name)
        return Model(self, name, role)

    def accounts(self) -> list[Account]:
        """What was paid in this run, earlier attempts included, by role and model."""
        return self._with.meter.accounts()

    @property
    def under_way(self) -> int:
        """How many calls are being made."""
        return self._with.meter.held

    def close(self, grace: float = 0.0) -> None:
        """End all connections. Calls still waiting, in other threads, stop.

        grace: seconds that answers under way get to come and be recorded: they are billed anyway.
        """
        self.stop(RunStopped("The client is closed."))
        self._with.meter.settled(grace)
        if self._with.service is not None:
            self._with.service.close()

    def stop(self, why: RunStopped) -> None:
        """Let no further call be made; those in flight may still be answered and recorded."""
        with self._lock:
            if self._stopped is None:
                self._stopped = why
        self._stopping.set()
        self._with.meter.shut()
        self._with.gate.shut()

    def call(self, role: str, request: Request) -> Call:
        """The recorded call, or a new one; equal requests at the same time are one call.

        Raises ContextTooLong, ModelError, RunStopped.
        """
        key = request.key
        with self._lock:
            found = self._with.recording.find(key)
            pending = self._pending.get(key)
            if found is None and pending is None:
                mine: Future[Call] = Future()
                self._pending[key] = mine
        if found is None and pending is not None:
            found = pending.result()
        elif found is None:
            found = self._first(role, request, mine)
        if found.error:
            raise ContextTooLong(
                f"The messages are too long for {request.model}: {found.text}.", "Shorten them."
            )
        return found

    def capabilities(self, model: str) -> Capabilities:
        """What the server takes for `model`, probed at the first call for it.

        Raises ReplayMiss without a service, and what a call raises.
        """
        with self._probing:
            found = self._with.known.get(model)
            if found is None:
                found = self._probed(model)
                self._with.known.put(model, found)
        return found

    def _first(self, role: str, request: Request, mine: Future[Call]) -> Call:
        """Make the call; whoever waits for `mine` gets the same outcome."""
        try:
            if self._with.service is None:
                raise ReplayMiss(
                    f"The recording does not hold a call that {request.model} is asked for "
                    f"(role {role}, key {request.key}).",
                    "Replay with the settings of the recorded run, or use a server.",
                )
            capable = self.capabilities(request.model)
            call, learnt = self._paid(role, request, capable)
            if learnt != capable:
                self._with.known.put(request.model, learnt)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(call)
            return call
        finally:
            with self._lock:
                del self._pending[request.key]

    def _paid(
        self, role: str, request: Request, capabilities: Capabilities
    ) -> tuple[Call, Capabilities]:
        """A call that is answered and recorded, and what the server turned out to take."""
        patience, answers = self._with.patience, self._answers
        progress = _Progress(started=time.monotonic())
        while True:
            if self._stopping.is_set():
                raise self._why_stopped()
            try:
                return self._attempt(role, request, capabilities, progress), capabilities
            except Fault as found:
                fault = found
            # Not in the handler: what is raised here has no history that could show a key.
            if fault.kind == "refused" and (weaker := capabilities.without(fault.what)):
                capabilities = weaker
                continue
            asked = fault.retry_after or 0.0
            if asked > patience.retry_after:
                fault.kind = "stop"
            if fault.kind != "again" or progress.attempt >= patience.attempts:
                raise self._failure(fault, progress.attempt, quiet=self._answers == answers)
            self._stopping.wait(max(asked, patience.wait(request.key, progress.attempt)))
            progress = progress.after(fault)

    def _attempt(
        self, role: str, request: Request, capabilities: Capabilities, progress: _Progress
    ) -> Call:
        """One request on the wire; its answer is recorded before it is returned."""
        meter = self._with.meter
        bound = self._bound(request, capabilities)
        try:
            hold = meter.reserve(request, bound)
        except RunStopped as spent:
            self.stop(spent)
            raise
        if hold is None:
            raise self._why_stopped()
        call = None
        try:
            reply, error = self._sent(request, capabilities, bound, progress.unusable)
            call = Call(
                key=request.key,
                role=role,
                request=request,
                text=reply.text,
                finish=reply.finish,
                usage=reply.usage,
                mode=capabilities.structured if request.schema is not None else "",
                error=error,
                attempts=progress.attempt,
                seconds=round(time.monotonic() - progress.started, 3),
                estimated=reply.estimated,
            )
            self._with.recording.add(call)
        finally:
            meter.settle(hold, call)
        with self._lock:
            self._answers += 1
            self._failures = 0
        return call

    def _sent(
        self, request: Request, capabilities: Capabilities, bound: int | None, unusable: int
    ) -> tuple[Reply, str]:
        """(the reply, "context" where there is no room for the request); raises Fault."""
        service, gate = self._with.service, self._with.gate
        assert service is not None  # noqa: S101 - `_first` has seen to it
        entered = gate.enter()
        if entered is None:
            raise self._why_stopped()
        try:
            reply = service.send(request, capabilities, bound, unusable=unusable)
        except Fault as fault:
            if fault.refused:
                gate.narrow(entered, fault.retry_after or 0.0)
            if fault.kind != "context":
                raise
            return Reply(fault.what, "", Usage()), "context"
        else:
            gate.widen()
            return reply, ""
        finally:
            gate.leave()

    def _bound(self, request: Request, capabilities: Capabilities) -> int | None:
        """The bound on the reply's length. Raises RunStopped where the limits need one in vain."""
        if not self._with.meter.limits.need_bounds:
            return request.max_tokens
        if not capabilities.max_tokens:
            unbounded = BudgetSpent(
                f"The server takes no bound on the length of {request.model}'s replies, so "
                "--max-usd and --max-tokens cannot be kept.",
                "Use --max-calls.",
            )
            self.stop(unbounded)
            raise unbounded
        return self._with.answer_tokens if request.max_tokens is None else request.max_tokens

    def _failure(self, fault: Fault, attempts: int, *, quiet: bool) -> LdmError:
        """What to raise for a call that failed for good.

        quiet: no call at all was answered while this one was tried.
        """
        with self._lock:
            self._failures += 1
            hopeless = self._failures >= self._with.patience.failures
        times = f"after {attempts} attempts" if attempts > 1 else "at once"
        message = f"The model service failed {times}: {fault.what}."
        if fault.kind == "stop" or hopeless or (quiet and fault.down):
            stop = ModelUnavailable(
                message, "See to the service, the model's name and the key; then resume."
            )
            self.stop(stop)
            return stop
        return ModelError(message, "Other calls may do better; this one was given up.")

    def _why_stopped(self) -> RunStopped:
        return self._stopped or RunStopped("The client is closed.")

    def _probed(self, model: str) -> Capabilities:
        """Ask short questions, from the strongest way of asking for JSON to the weakest."""
        found, form = Capabilities(), form_of(Probe)
        for mode in MODES[:-1]:
            if MODES.index(mode) < MODES.index(found.structured):
                continue  # refused while the one before was tried
            request = probe_request(model, mode, self._with.known.server)
            call = self._with.recording.find(request.key)
            if call is None:
                call, found = self._paid(PROBE, request, replace(found, structured=mode))
            if form.read(call.text)[0] is not None:
                return found
            if found.structured == "prompt":
                break
        return replace(found, structured="prompt")


class Model:
    """One model in one role, as `LLM`."""

    def __init__(self, client: Client, name: str, role: str) -> None:
        self.name = name
        self.role = role
        self._client = client

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """As `LLM.complete`; a reply that does not fit the schema is asked for once more."""
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
            return Completion(call.text, call.usage)
        value, complaint = form.read(call.text)
        usage = call.usage
        if value is None:
            again = asking_for_repair(request.messages, call.text, complaint)
            with suppress(ContextTooLong):
                call = self._client.call(self.role, replace(request, messages=again))
                usage += call.usage
                value, _ = form.read(call.text)
        if value is None:
            return Completion(call.text, usage, malformed=True)
        return Completion(form.write(value), usage, value)
