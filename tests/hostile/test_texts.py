"""Foreign text reaches the terminal and pictures in one way only, which makes it harmless."""

from __future__ import annotations

import ast
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import ldm
from ldm import prompts, records
from ldm.cli import output
from ldm.explore.refine import TREES, ExploredGoal, Tree
from ldm.explore.tree import TreeNode
from ldm.memory import Memory
from ldm.memory.index import IndexedTuple
from ldm.runs import Manifest, create
from ldm.types import Step, Trajectory, encodable
from tests.cli.conftest import Outcome, Run, run
from tests.embedder import BagOfWords
from tests.hostile.strategies import texts
from tests.llm.conftest import Serve, serve
from tests.test_types import TUPLE
from tests.toy import expert_trajectories

__all__ = ["run", "serve"]

#: Sets the title, writes to the clipboard, clears the screen, turns the text round, forges a line.
HOSTILE = "\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202emug\u2066\x00\x08\r\x7f[/b]"
#: What no output may hold.
ACTING = {chr(n) for n in (*range(32), *range(127, 160)) if chr(n) not in "\n\t"} | set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
)


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
    listing = clean(run("memory", "search", "fetch the apple", "You are in the shed."))
    assert r"\x1b]52;c;aGk=\x07" in listing.out
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
    reply = clean(run("llm", "ask", "hello", "--llm", "m"))
    assert reply.code == 0
    assert r"\x1b[2J" in reply.out
    clean(run("llm", "ask", "hello", "--llm", "m", "--json"))


TAGS = st.lists(
    st.sampled_from(["</memory>", "</ memory x>", "<", "/", "memory", ">", "[/INST]", "\n", " "])
    | texts()
).map("".join)


@given(TAGS)
def test_no_text_ends_its_own_fence(text: str) -> None:
    fenced = prompts.fenced(text, "memory")
    fenced.encode()
    assert len(re.findall(r"<\s*/\s*memory\b[^<>]*>", fenced, re.IGNORECASE)) == 1
    assert not re.search(r"\[\s*/?\s*INST\s*\]|<\|[^<>\n]*\|>", fenced, re.IGNORECASE)
    assert "\n" not in prompts.one_line(text)


@given(texts(), texts(), texts())
def test_whatever_a_record_says_comes_back_or_is_refused(one: str, two: str, three: str) -> None:
    ground = expert_trajectories()[0]
    step = Step(encodable(one), encodable(two), thought=encodable(three))
    whole = replace(ground, steps=(step,), opening=encodable(two))
    line = records.dumps(whole)
    assert records.loads(line, Trajectory) == whole
    assert "\n" not in line


@pytest.mark.parametrize("parents", [(0,), (-1, 1), (-1, 5), (-1, -1), (-1, 0, 2)])
def test_a_tree_that_is_none_is_refused(parents: tuple[int, ...]) -> None:
    nodes = tuple(TreeNode(n, p, 0, "a", 1.0, 1.0, "done") for n, p in enumerate(parents))
    with pytest.raises(ValueError, match="out of order"):
        Tree((), expert_trajectories()[0], nodes, best=0)


def ways_to_print(source: str) -> set[str]:
    """What in a module could write to a terminal, past `ldm.cli.output`, however it is reached."""
    ways = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            names = {f"{module}.{one.name}" if module else one.name for one in node.names}
            ways |= {name for name in names if name.split(".")[0] in PRINTING or name in STREAMS}
        elif isinstance(node, ast.Attribute):
            if ast.unparse(node) in STREAMS or node.attr in ("echo", "secho", "launch"):
                ways.add(ast.unparse(node))
        elif isinstance(node, ast.Name) and node.id in ("print", "breakpoint"):
            ways.add(node.id)
        elif isinstance(node, ast.Constant) and node.value in ("/dev/tty", "/dev/stdout"):
            ways.add(node.value)
    return ways


#: Packages that print; `logging` writes to standard error where nobody has set it up.
PRINTING = ("rich", "click", "logging", "curses", "pprint", "tqdm", "readline")
STREAMS = {
    *(f"sys.{name}" for name in ("stdout", "stderr", "__stdout__", "__stderr__", "displayhook")),
    *("os.write", "os.writev", "os.pwrite", "os.fdopen", "os.sendfile"),
    *("builtins.print", "warnings.warn", "faulthandler.enable", "traceback.print_exc"),
}
#: The only places that may: module → the ways that it has.
PRINTERS = {
    "cli/output.py": {
        *("print", "sys.stdout", "sys.stderr"),
        *("rich.box", "rich.table.Table", "rich.text.Text", "rich.console.Console"),
        *("rich.console.Group", "rich.live.Live", "rich.progress_bar.ProgressBar"),
        *(f"rich.progress.{n}" for n in ("BarColumn", "MofNCompleteColumn", "Progress", "TaskID")),
        *(f"rich.progress.{n}Column" for n in ("Text", "TimeElapsed", "TimeRemaining")),
    },
    "cli/app.py": {"sys.stdout"},  # flushed, and given up where a pipe was closed
    "memory/rewriting.py": {"sys.stdout"},  # numbers, to the process that has started this one
    "testing/environment.py": {"print"},  # in a program of its own, whose output is read
}


@pytest.mark.slow
def test_nothing_else_in_the_package_prints() -> None:
    root = Path(ldm.__file__).parent
    for file in root.rglob("*.py"):
        ways = ways_to_print(file.read_text())
        assert ways <= PRINTERS.get(file.relative_to(root).as_posix(), set()), file


@pytest.mark.parametrize(
    "source",
    [
        "print(1)",
        "say = print",
        "import sys; sys.stdout.write('a')",
        "import sys; sys.stderr.buffer.write(b'a')",
        "from sys import stdout; stdout.write('a')",
        "import os; os.write(1, b'a')",
        "from os import write; write(1, b'a')",
        "from rich.console import Console; Console().print('a')",
        "import rich; rich.print('a')",
        "from rich import print as show; show('a')",
        "import typer; typer.echo('a')",
        "import click; click.secho('a')",
        "import logging; logging.warning('a')",
        "import warnings; warnings.warn('a')",
        "open('/dev/tty', 'w').write('a')",
        "import builtins; builtins.print('a')",
    ],
)
def test_each_way_to_print_is_known(source: str) -> None:
    assert ways_to_print(source)


def test_trees_of_runs_are_printed_harmlessly(run: Run, place: Path) -> None:
    ground = hostile(expert_trajectories()[0])
    nodes = (
        TreeNode(0, -1, 0, "", 1.0, 1.0, "grown", HOSTILE),
        TreeNode(1, 0, 1, HOSTILE, 0.5, 0.5, "done", HOSTILE),
    )
    row = IndexedTuple(replace(TUPLE, observation=HOSTILE, action=HOSTILE), HOSTILE, 0, 0)
    tree = Tree((HOSTILE, "b"), ground, nodes, best=1, key=0, into=HOSTILE, added=(row,))
    made = create(place, ["refine"], Manifest("refine", {"plan": {"env": "toy"}}, {}))
    goal = ExploredGoal(0, ground.task, (tree, tree), error=HOSTILE)
    records.write(made.directory / TREES, [goal])
    for words in (
        (),
        (ground.task.id[:5],),
        (ground.task.id[:5], "--observations"),
    ):
        outcome = clean(run("runs", "tree", made.directory, *words))
        assert outcome.code == 0
    assert r"\x1b]52;c;aGk=\x07" in outcome.out


def test_what_is_wrong_with_data_is_printed_harmlessly(run: Run, place: Path) -> None:
    listed = {"id": HOSTILE, "goal": f"craft {HOSTILE}.", "commands": HOSTILE}
    (place / "a.jsonl").write_text(json.dumps(listed) + "\n" + json.dumps([HOSTILE]) + "\n")
    product = {"asin": HOSTILE[:9], "name": HOSTILE, HOSTILE: HOSTILE, "pricing": HOSTILE}
    (place / "shop").mkdir()
    (place / "shop" / "items_shuffle.json").write_text(json.dumps([product]))
    (place / "shop" / "items_ins_v2.json").write_text(json.dumps({HOSTILE: {HOSTILE: HOSTILE}}))
    sound = ["Title", ["A sentence."]]
    question = {"_id": HOSTILE, "question": HOSTILE, "answer": 5, "context": [sound]}
    whole = {**question, "_id": "1", "answer": "yes", "supporting_facts": [["Title", 0]]}
    (place / "qa").mkdir()
    file = place / "qa" / "hotpot_dev_distractor_v1.json"
    file.write_text(json.dumps([{**whole, "type": "bridge", "level": "hard"}, question]))
    named = HOSTILE.replace("\0", "").replace("/", "")
    game = place / "games" / "json_2.1.1" / "train" / named / "trial" / "game.tw-pddl"
    game.parent.mkdir(parents=True)
    game.write_text(json.dumps({HOSTILE: HOSTILE, "solvable": True}))
    printed = ""
    for env, data in (
        ("textcraft", "a.jsonl"),
        ("webshop", "shop"),
        ("hotpotqa", "qa"),
        ("alfworld", "games"),
    ):
        for as_json in ((), ("--json",)):
            outcome = clean(run("data", "check", env, place / data, *as_json))
            assert outcome.code == 1, (env, outcome)
            printed += outcome.out
    assert r"\x1b" in printed


def test_the_display_of_episodes_lets_nothing_act_on_the_terminal() -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=80, color_system=None)
    view = output.View("ldm on \x1b[2J", 1, 2, "1/2\x07", "\x9b2J and \x1b]0;title")
    with output.live(lambda: view, terminal):
        pass
    for trick in ("\x1b[2J", "\x07", "\x9b", "\x1b]0"):
        assert trick not in file.getvalue()
    assert "ldm on \\x1b[2J" in file.getvalue()


def test_progress_is_said_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "BETWEEN", 0.01)
    written = ""
    with output.progress("ldm on \x1b[2J", 2) as advance, output.stages() as report:
        advance("well")
        report("form", 1, 3)
        while "form: 1 of 3 (" not in written or "1 of 2" not in written:
            written += capsys.readouterr().err
    assert "ldm on \\x1b[2J: 1 of 2 (" in written
    assert "\x1b" not in written
