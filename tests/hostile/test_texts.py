"""Foreign text reaches the terminal and pictures in one way only, which makes it harmless."""

from __future__ import annotations

import ast
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

import ldm
from ldm import records
from ldm.cli import output
from ldm.explore.picture import svg
from ldm.explore.refine import Tree
from ldm.explore.tree import TreeNode
from ldm.memory import Memory
from ldm.types import Trajectory
from tests.cli.conftest import Outcome, Run, run
from tests.embedder import BagOfWords
from tests.llm.conftest import Serve, serve
from tests.toy import expert_trajectories

__all__ = ["run", "serve"]

#: Sets the title, writes to the clipboard, clears the screen, turns the text round, forges a line.
HOSTILE = "\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202emug\u2066\x00\x08\r\x7f[/b]"
#: What no output may hold.
ACTING = {chr(n) for n in (*range(32), *range(127, 160)) if chr(n) not in "\n\t"} | set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
)
#: The only place that may write to the terminal: module → the functions that do.
PRINTERS = {"cli/output.py", "memory/rewriting.py", "testing/environment.py"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords(name or "words"))
    monkeypatch.setattr("ldm.memory.load_embedder", lambda name=None: BagOfWords(name or "words"))
    return tmp_path


def hostile(trajectory: Trajectory) -> Trajectory:
    """A trajectory with a hostile text in every field that takes any."""
    task = trajectory.task
    named = {n: getattr(task, n) + HOSTILE for n in ("id", "split", "goal", "kind", "source")}
    steps = [
        replace(step, action=step.action + HOSTILE, observation=step.observation + HOSTILE)
        for step in trajectory.steps
    ]
    return replace(
        trajectory,
        task=replace(task, **named),
        opening=trajectory.opening + HOSTILE,
        steps=tuple(steps),
    )


def clean(outcome: Outcome) -> Outcome:
    assert not set(outcome.out + outcome.err) & ACTING
    assert "Error inside ldm" not in outcome.err
    return outcome


def test_what_trajectories_and_memories_hold_is_printed_harmlessly(run: Run, place: Path) -> None:
    records.write(place / "a.jsonl", [hostile(t) for t in expert_trajectories()[:6]])
    with (place / "a.jsonl").open("a") as file:
        file.write(json.dumps({HOSTILE: 1}, ensure_ascii=False) + "\n")
    for command in (
        "validate a.jsonl",
        "validate a.jsonl --json",
        "import a.jsonl --out b.jsonl",
        "import a.jsonl --out b.jsonl --json",
        "build-memory b.jsonl",
        "memory show",
        "memory types",
        "memory types --json",
        "memory export c.jsonl",
        "memory verify",
    ):
        clean(run(*command.split()))
    found = clean(run("memory", "search", "fetch the apple", "You are in the shed."))
    assert r"\x1b]52;c;aGk=\x07" in found.out
    listed = clean(run("memory", "search", "fetch the apple", "You are in the shed.", "--json"))
    assert HOSTILE in json.dumps(json.loads(listed.out), ensure_ascii=False).replace(
        json.dumps(HOSTILE, ensure_ascii=False)[1:-1], HOSTILE
    )
    assert Memory.open(str(place / ".ldm/memory"), "toy", embedder=BagOfWords("words"))


def test_errors_quote_it_harmlessly(run: Run, place: Path) -> None:
    for words in (
        ["eval", "--env", HOSTILE.replace("\0", "")],
        ["validate", f"{HOSTILE}.jsonl".replace("\0", "").replace("/", "")],
        ["memory", "show", "--memory", HOSTILE.replace("\0", "")],
    ):
        outcome = clean(run(*words))
        assert outcome.code == 1


def test_a_reply_of_a_model_is_printed_harmlessly(
    run: Run, place: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(answer=lambda _: HOSTILE)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    asked = clean(run("llm", "ask", "hello", "--llm", "m"))
    assert asked.code == 0
    assert r"\x1b[2J" in asked.out
    clean(run("llm", "ask", "hello", "--llm", "m", "--json"))


def test_a_picture_of_a_tree_is_well_formed() -> None:
    nodes = (
        TreeNode(0, -1, 0, "", 1.0, 1.0, "grown", HOSTILE + "\ud800"),
        TreeNode(1, 0, 1, HOSTILE + "<&>\uffff", 0.5, 0.5, "done", HOSTILE),
    )
    tree = Tree(("a",), expert_trajectories()[0], nodes, best=1)
    root = ET.fromstring(svg(tree, HOSTILE))
    assert "".join(root.itertext()).count(r"\x1b[2J") == 3


@pytest.mark.parametrize("parents", [(0,), (-1, 1), (-1, 5), (-1, -1), (-1, 0, 2)])
def test_a_tree_that_is_none_is_refused(parents: tuple[int, ...]) -> None:
    nodes = tuple(TreeNode(n, p, 0, "a", 1.0, 1.0, "done") for n, p in enumerate(parents))
    with pytest.raises(ValueError, match="out of order"):
        Tree((), expert_trajectories()[0], nodes, best=0)


def test_nothing_else_in_the_package_prints() -> None:
    root = Path(ldm.__file__).parent
    for file in root.rglob("*.py"):
        if file.relative_to(root).as_posix() in PRINTERS:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "typer.echo", "typer.secho", "click.echo"), file
                assert not called.endswith(("stdout.write", "stderr.write")), file


def test_progress_is_said_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "BETWEEN", 0.0)
    with output.progress("ldm on \x1b[2J", 2) as advance, output.stages() as report:
        advance("well")
        report("form", 1, 3)
    assert capsys.readouterr().err == "ldm on \\x1b[2J: 1 of 2\nform: 1 of 3\n"
