"""Recorded episodes as OpenTelemetry spans, by the conventions for generative AI.

A trace is an episode: its span `invoke_agent` has a child `execute_tool` for each step in the
environment, and a child `chat` for each model call. Texts are left out by default. Runs record
durations but no times: episodes follow each other from the run's start, and the steps of an episode
share its time evenly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from ldm.errors import LdmError
from ldm.report.exporting import submitted
from ldm.run.reading import ReadRun, RecordedEpisode
from ldm.types import Step, stable_hash
from ldm.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

    from ldm.llm.calls import Call

SECOND = 10**9
#: Spans that are sent at a time.
BATCH = 512
#: The server is not recorded; any server of this protocol may have answered.
PROVIDER = "openai"


def otlp_exporter(endpoint: str) -> SpanExporter:
    """Return an exporter to a collector (OTLP over gRPC).

    Raise LdmError if the packages are missing.
    """
    with _needed():
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    return OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http:"))


def export_spans(run: ReadRun, exporter: SpanExporter, *, content: bool = False) -> int:
    """Export the episodes of a run as spans; return the number of spans.

    The same run gives the same ids. content: include goals, actions, answers, prompts and replies.
    Raise LdmError if the packages are missing, the run has no episodes, or the exporter fails.
    """
    with _needed():
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    episodes = run.episodes()
    if not episodes:
        raise LdmError(f"{run.run.directory} has no episodes.", "Name an evaluation.")
    ids = _Ids(run.id)
    resource = Resource.create({"service.name": "ldm", "service.version": __version__})
    # The package's class of generators cannot be a base here: it may not be installed.
    generator = cast("Any", ids)
    provider = TracerProvider(resource=resource, id_generator=generator, shutdown_on_exit=False)
    # Exported together, so that a collector that does not answer is awaited once.
    made = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(made))
    tracer = provider.get_tracer("ldm", __version__)
    calls = {call.key: call for call in run.calls()}
    start = int(datetime.fromisoformat(run.run.manifest.started).timestamp() * SECOND)
    for episode in episodes:
        end = start + max(1, int(episode.result.seconds * SECOND))
        _Traced(tracer, run, episode, calls, content).between(start, end)
        start = end
    spans = made.get_finished_spans()
    provider.shutdown()
    _hand_over(spans, exporter)
    return len(spans)


def _hand_over(spans: Sequence[ReadableSpan], exporter: SpanExporter) -> None:
    """Export spans; raise LdmError if the exporter refuses them."""
    from opentelemetry.sdk.trace.export import SpanExportResult

    try:
        for start in range(0, len(spans), BATCH):
            if exporter.export(spans[start : start + BATCH]) is not SpanExportResult.SUCCESS:
                raise LdmError(
                    f"The collector took {start} of {len(spans)} spans.",
                    "Check that it runs, and its address.",
                )
    finally:
        exporter.shutdown()


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise LdmError(
            "Spans need OpenTelemetry, which is not installed.", "pip install 'ldm-memory[otel]'"
        ) from error


class _Ids:
    """Ids of traces and spans that depend only on the run."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._traces = 0
        self._spans = 0

    def generate_span_id(self) -> int:
        """Return the next span's id."""
        self._spans += 1
        return int(stable_hash(self._run, "span", self._spans), 16) or 1

    def generate_trace_id(self) -> int:
        """Return the next trace's id."""
        self._traces += 1
        return int(stable_hash(self._run, "trace", self._traces, length=32), 16) or 1

    def is_trace_id_random(self) -> bool:
        """Return False: ids are hashes."""
        return False


class _Traced:
    """The spans of one episode."""

    def __init__(
        self,
        tracer: Tracer,
        run: ReadRun,
        episode: RecordedEpisode,
        calls: Mapping[str, Call],
        content: bool,
    ) -> None:
        self._tracer = tracer
        self._run = run
        self._episode = episode
        self._calls = calls
        self._content = content

    def between(self, start: int, end: int) -> None:
        """Make the spans of the episode between two times in nanoseconds."""
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        result = self._episode.result
        root = self._tracer.start_span(
            f"invoke_agent {result.agent}", None, SpanKind.INTERNAL, self._about(), start_time=start
        )
        if result.error:
            complaint = self._episode.complaint
            root.set_status(Status(StatusCode.ERROR, complaint))
            root.set_attribute("error.type", complaint.partition(":")[0] or "_OTHER")
        trial = submitted(self._episode)
        steps = () if trial is None else trial.steps
        calls = self._episode.calls(max(0, result.submitted))
        length = (end - start) // max(1, len(steps))
        within = set_span_in_context(root)
        for number in range(len(steps) + 1):
            at = start + number * length
            for key in calls.get(number, ()):
                if key in self._calls:
                    self._chat(self._calls[key], within, at)
            if number < len(steps) and steps[number].action:
                span = self._tracer.start_span(
                    f"execute_tool {result.task.env}",
                    within,
                    SpanKind.INTERNAL,
                    self._step(number, steps[number]),
                    start_time=at,
                )
                span.end(at + length)
        root.end(end)

    def _about(self) -> dict[str, Any]:
        result = self._episode.result
        about: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.agent.name": result.agent,
            "gen_ai.conversation.id": f"{self._run.id}/{result.task.id}",
            "gen_ai.usage.input_tokens": result.usage.prompt_tokens,
            "gen_ai.usage.output_tokens": result.usage.completion_tokens,
            "ldm.run": self._run.id,
            "ldm.task": result.task.id,
            "ldm.kind": result.task.kind,
            "ldm.outcome": self._episode.outcome,
            "ldm.score": result.score,
        }
        return about | ({"ldm.goal": result.task.goal} if self._content else {})

    def _step(self, number: int, step: Step) -> dict[str, Any]:
        about: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self._episode.result.task.env,
            "gen_ai.tool.type": "function",
            "ldm.step": number + 1,
            "ldm.valid": step.valid,
            "ldm.reward": step.reward,
            "ldm.recalled": len(step.recalls),
        }
        if self._content:
            about["gen_ai.tool.call.arguments"] = step.action
            about["gen_ai.tool.call.result"] = step.observation
        return about

    def _chat(self, call: Call, within: Any, start: int) -> None:
        from opentelemetry.trace import SpanKind

        about: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": call.request.model,
            "gen_ai.request.temperature": call.request.sampling.temperature,
            "gen_ai.response.finish_reasons": (call.finish,),
            "gen_ai.usage.input_tokens": call.usage.prompt_tokens,
            "gen_ai.usage.output_tokens": call.usage.completion_tokens,
            "ldm.role": call.role,
        }
        if self._content:
            messages = [(m.role, m.content) for m in call.request.messages]
            about["gen_ai.input.messages"] = _messages(messages)
            about["gen_ai.output.messages"] = _messages([("assistant", call.text)])
        span: Span = self._tracer.start_span(
            f"chat {call.request.model}", within, SpanKind.CLIENT, about, start_time=start
        )
        span.end(start + max(1, int(call.seconds * SECOND)))


def _messages(messages: Sequence[tuple[str, str]]) -> str:
    """Return messages in the form of the conventions, as JSON."""
    return json.dumps(
        [{"role": r, "parts": [{"type": "text", "content": text}]} for r, text in messages],
        ensure_ascii=False,
    )
