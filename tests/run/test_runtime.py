"""Experiments are quiet, ask the environment nothing, and tell what happens to their callbacks."""

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import ldm
from ldm import run
from ldm.errors import LdmError
from ldm.llm.service import Connection
from ldm.memory.index import OnProgress
from ldm.run.grid import Grid
from ldm.run.runtime import OnEpisode, Playing, Runtime
from ldm.types import EpisodeResult
from tests.llm.conftest import Serve
from tests.run.recorded import EVALUATION, REFINEMENT, TOY, only_run

#: What would be noticed if it were read.
GARBAGE = {
    **{"OPENAI_BASE_URL": "gopher://nowhere", "OPENAI_API_KEY": "two words", "LDM_LLM": "none"},
    **{f"{env}_DATA": "/no/such/folder" for env in ("ALFWORLD", "WEBSHOP", "TEXTCRAFT")},
}


class Recorder:
    """Notes what a runtime's callbacks receive."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.played: list[tuple[str, int, list[EpisodeResult]]] = []
        self.stages: list[tuple[str, int, int]] = []

    def runtime(self, **options: object) -> Runtime:
        runtime = Runtime(
            workers=1, message=self.messages.append, episodes=self._episodes, stages=self._stages
        )
        return replace(runtime, **options)  # type: ignore[arg-type]

    @contextmanager
    def _episodes(self, playing: Playing) -> Iterator[OnEpisode]:
        results: list[EpisodeResult] = []
        self.played.append((playing.label, playing.total, results))
        yield results.append

    @contextmanager
    def _stages(self) -> Iterator[OnProgress]:
        yield lambda stage, done, total: self.stages.append((stage, done, total))


@pytest.fixture
def garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set every variable that the command line reads to something useless."""
    for name, value in GARBAGE.items():
        monkeypatch.setenv(name, value)


def test_nothing_is_printed_or_read_from_the_environment(
    place: Path, built: Path, garbage: None, capfd: pytest.CaptureFixture[str]
) -> None:
    runtime = Runtime(workers=1)
    ldm.build_memory(built / "data")
    ldm.refine(replace(REFINEMENT, limit=2), runtime=runtime)
    first, _ = ldm.evaluate_all(EVALUATION, Grid(control="none"), runtime=runtime)
    random = ldm.evaluate(replace(EVALUATION, agent="random"), runtime=runtime)
    ldm.compare([first.directory, random.directory])
    shipped = ldm.Evaluate("alfworld", agent="random", limit=1)
    assert ldm.evaluate(shipped, runtime=runtime).split == "demo_test"
    assert capfd.readouterr() == ("", "")


def test_no_server_is_known_without_one(place: Path, garbage: None) -> None:
    with pytest.raises(LdmError, match="No model service is configured") as refused:
        ldm.evaluate(ldm.Evaluate(TOY, agent="react", models={"llm": "m"}))
    assert "Runtime(server=Connection(url, key))" in refused.value.remedy
    assert not Path("runs").exists()


@pytest.mark.parametrize("lazily", [True, False])
def test_the_server_is_the_runtime_s(
    lazily: bool, place: Path, garbage: None, serve: Serve
) -> None:
    fake = serve(answer=lambda body: "Act: go to sink")
    connection = Connection(fake.url, "a-key")
    spec = ldm.Evaluate(TOY, agent={"name": "react", "budget": 2}, limit=1)
    runtime = Runtime(workers=1, server=(lambda: connection) if lazily else connection)
    report = ldm.evaluate(replace(spec, models={"llm": "m"}), runtime=runtime)
    assert report.results[0].usage.calls == 2
    assert fake.headers[-1]["authorization"] == "Bearer a-key"


def test_callbacks_hear_of_every_episode(remembering: Path) -> None:
    recorder = Recorder()
    reports = ldm.evaluate_all(
        EVALUATION, Grid(control="none"), runtime=recorder.runtime(runs=Path("elsewhere"))
    )
    labels = [(label, total) for label, total, _ in recorder.played]
    assert labels == [("ldm on ToyEnv", 4), ("ldm control=none on ToyEnv", 4)]
    assert [report.results for report in reports] == [tuple(x[2]) for x in recorder.played]
    assert only_run("ToyEnv-test-ldm-", Path("elsewhere"))
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("workers", "in_flight", "expected"), [(3, None, 3), (3, 16, 3), (None, 16, 16)]
)
def test_workers_are_named_or_as_many_as_requests(
    workers: int | None, in_flight: int | None, expected: int
) -> None:
    assert Runtime(workers=workers).workers_for(in_flight) == expected


@pytest.mark.parametrize("workers", [0, -5])
def test_no_workers_are_refused(workers: int) -> None:
    with pytest.raises(LdmError, match=f"at least 1, not {workers}"):
        Runtime(workers=workers)


#: What only the command line does: (what it is, whether a node is it).
FORBIDDEN: Mapping[str, Callable[[str], bool]] = {
    "reads environment variables": lambda text: text.startswith(("os.environ", "os.getenv")),
    "prints": lambda text: text in ("print", "pprint") or text.startswith("sys.std"),
    "is a command": lambda text: text.split(".")[0] in ("typer", "click", "rich"),
    "exits": lambda text: text in ("exit", "sys.exit", "os._exit", "SystemExit"),
    "changes directory": lambda text: text == "os.chdir",
}


def test_only_the_command_line_prints_exits_and_reads_variables() -> None:
    for path in Path(run.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [ast.unparse(node)] if isinstance(node, ast.Name | ast.Attribute) else []
            if isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{name.name}" for name in node.names]
            for what, applies in FORBIDDEN.items():
                assert not any(map(applies, names)), f"{path.name}: {names} {what}"
