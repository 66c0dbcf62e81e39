"""Runs as logs of other tools: what they read is what was recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ldm import records
from ldm.errors import LdmError
from ldm.interchange import atif, chat, parquet
from ldm.llm.calls import Call
from ldm.report.exporting import Format, export
from ldm.report.telemetry import export_spans
from ldm.run.reading import read_run
from ldm.types import EpisodeResult, Trajectory
from tests.cli.conftest import Run, run
from tests.report.conftest import Recorded
from tests.report.hostile import hostile_run

__all__ = ["run"]


def trials(run: Path) -> list[Trajectory]:
    return records.read(run / "trajectories.jsonl", Trajectory)


def results(run: Path) -> list[EpisodeResult]:
    return records.read(run / "episodes.jsonl", EpisodeResult)


class TestFiles:
    @pytest.mark.parametrize(
        ("form", "suffix", "reader"),
        [("atif", "jsonl", atif), ("openai", "jsonl", chat), ("parquet", "parquet", parquet)],
    )
    def test_what_is_read_again_is_what_was_recorded(
        self, recorded: Recorded, tmp_path: Path, form: Format, suffix: str, reader: object
    ) -> None:
        file = tmp_path / f"log.{suffix}"
        count = export(read_run(recorded.earlier, tmp_path), file, form)
        again = list(reader.read(file))  # type: ignore[attr-defined]
        assert again == trials(recorded.earlier)
        assert count == len(again)

    def test_inspect_gets_each_episode_as_a_sample(
        self, recorded: Recorded, tmp_path: Path
    ) -> None:
        file = tmp_path / "log.json"
        export(read_run(recorded.divided, tmp_path), file, "inspect")
        log = json.loads(file.read_text())
        assert (log["version"], log["status"]) == (2, "success")
        ended = {one.task.id: one for one in results(recorded.divided)}
        for sample, trial in zip(log["samples"], trials(recorded.divided), strict=True):
            one = ended[sample["id"]]
            assert sample["scores"]["success"]["value"] == ("C" if one.success else "I")
            replies = [m["content"] for m in sample["messages"] if m["role"] == "assistant"]
            assert replies[-1].splitlines()[-1] == trial.steps[-1].action
            assert sample["messages"][0]["content"].startswith(one.task.goal)
        (score,) = log["results"]["scores"]
        rate = sum(one.success for one in ended.values()) / len(ended)
        assert score["metrics"]["accuracy"]["value"] == rate

    def test_inspect_is_told_of_errors(self, tmp_path: Path) -> None:
        file = tmp_path / "log.json"
        export(read_run(hostile_run(tmp_path), tmp_path), file, "inspect")
        log = json.loads(file.read_text())
        assert log["results"]["completed_samples"] == 0
        assert all("message" in sample["error"] for sample in log["samples"])

    @pytest.mark.slow
    def test_a_refinement_has_no_episodes(self, recorded: Recorded, tmp_path: Path) -> None:
        with pytest.raises(LdmError, match="has no episodes"):
            export(read_run(recorded.refinement, tmp_path), tmp_path / "log.json", "inspect")

    def test_the_command_says_how_many_and_where(
        self, run: Run, recorded: Recorded, tmp_path: Path
    ) -> None:
        file = tmp_path / "log.parquet"
        command = ("runs", "export", recorded.earlier, "-o", file, "--format")
        assert run(*command, "parquet").out == f"6 episodes → {file}\n"
        assert "is not a collector's URL" in run(*command, "otel").err


def spans_of(directory: Path, *, content: bool = False) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    count = export_spans(read_run(directory, directory.parent), exporter, content=content)
    spans = list(exporter.get_finished_spans())
    assert len(spans) == count
    return spans


class TestSpans:
    def test_an_episode_is_a_trace_with_its_steps_and_calls(self, recorded: Recorded) -> None:
        spans = spans_of(recorded.divided)
        roots = [span for span in spans if span.parent is None]
        assert [span.name for span in roots] == ["invoke_agent adapt"] * 4
        for root, result, trial in zip(
            roots, results(recorded.divided), trials(recorded.divided), strict=True
        ):
            assert root.attributes is not None
            assert root.attributes["ldm.task"] == result.task.id
            assert root.attributes["gen_ai.usage.input_tokens"] == result.usage.prompt_tokens
            mine = [
                span for span in spans if span.parent and span.parent == root.get_span_context()
            ]
            names = [span.name for span in mine]
            actions = [step for step in trial.steps if step.action]
            assert names.count("execute_tool toy") == len(actions)
            assert names.count("chat fake") == result.usage.calls

    def test_calls_tell_their_model_and_tokens(self, recorded: Recorded) -> None:
        calls = records.read(recorded.divided / "llm.jsonl", Call)
        tokens = {(call.usage.prompt_tokens, call.usage.completion_tokens) for call in calls}
        spans = [span.attributes for span in spans_of(recorded.divided) if "chat" in span.name]
        assert spans
        for one in spans:
            assert one is not None
            assert one["gen_ai.request.model"] == "fake"
            used = (one["gen_ai.usage.input_tokens"], one["gen_ai.usage.output_tokens"])
            assert used in tokens

    def test_what_was_said_is_told_only_when_asked_for(self, recorded: Recorded) -> None:
        trial = trials(recorded.divided)[0]
        silent, spans = spans_of(recorded.divided), spans_of(recorded.divided, content=True)
        assert not any(trial.opening in str(dict(span.attributes or {})) for span in silent)
        arguments = [(span.attributes or {}).get("gen_ai.tool.call.arguments") for span in spans]
        assert trial.steps[-1].action in arguments
        prompts = [(span.attributes or {}).get("gen_ai.input.messages") for span in spans]
        assert any(json.loads(str(one))[0]["parts"] for one in prompts if one)

    def test_the_same_run_has_the_same_ids(self, recorded: Recorded) -> None:
        def ids() -> list[tuple[int, int]]:
            contexts = (span.get_span_context() for span in spans_of(recorded.earlier))
            return [(one.trace_id, one.span_id) for one in contexts if one is not None]

        assert ids() == ids()
        assert len(set(ids())) == len(ids())

    def test_an_error_marks_the_span(self, tmp_path: Path) -> None:
        roots = [span for span in spans_of(hostile_run(tmp_path)) if span.parent is None]
        assert {span.status.status_code.name for span in roots} == {"ERROR"}

    def test_a_collector_that_does_not_take_them_is_said(self, recorded: Recorded) -> None:
        class Failing(InMemorySpanExporter):
            def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
                return SpanExportResult.FAILURE

        with pytest.raises(LdmError, match="The collector took 0 of"):
            export_spans(read_run(recorded.earlier, recorded.earlier.parent), Failing())


def test_spans_reach_a_collector(run: Run, recorded: Recorded) -> None:
    """One that speaks OTLP over gRPC, on the loopback address."""
    grpc = pytest.importorskip("grpc")
    trace = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
    messages, service = pytest.importorskip(trace), pytest.importorskip(f"{trace}_grpc")
    names: list[str] = []

    class Collector(service.TraceServiceServicer):  # type: ignore[name-defined, misc]
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
            names.extend(
                span.name
                for resource in request.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            )
            return messages.ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(1))
    service.add_TraceServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        command = ("runs", "export", recorded.earlier, "--format", "otel", "-o")
        outcome = run(*command, f"http://127.0.0.1:{port}")
    finally:
        server.stop(None)
    steps = sum(len(trial.steps) for trial in trials(recorded.earlier))
    assert outcome.out == f"{steps + 6} spans → http://127.0.0.1:{port}\n"
    assert names.count("invoke_agent ldm") == 6
    assert names.count("execute_tool toy") == steps
