"""Foreign text reaches the terminal in one way only, which makes it harmless."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ldm import prompts, records
from ldm.cli import output
from ldm.explore.refine import TREES, ExploredGoal, Tree
from ldm.explore.tree import TreeNode
from ldm.memory import Memory
from ldm.memory.index import IndexedTuple
from ldm.run.runtime import counting
from ldm.runs import Manifest, create
from ldm.types import Trajectory
from tests.cli.conftest import Outcome, run
from tests.embedder import BagOfWords
from tests.hostile.strategies import ACTING, texts
from tests.llm.conftest import Serve
from tests.test_types import TUPLE
from tests.toy import expert_trajectories

#: Sets the title, writes to the clipboard, clears the screen, turns the text round, forges a line.
HOSTILE = "\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202emug\u2066\x00\x08\r\x7f[/b]"


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
    assert outcome.code in (0, 1), outcome.err  # 2: the command is not known
    assert not ACTING.search(outcome.out + outcome.err)
    assert "Error inside ldm" not in outcome.err
    return outcome


def test_what_trajectories_and_memories_hold_is_printed_harmlessly(place: Path) -> None:
    records.write(place / "a.jsonl", [hostile(t) for t in expert_trajectories()[:6]])
    with (place / "a.jsonl").open("a") as file:
        file.write(json.dumps({HOSTILE: 1}, ensure_ascii=False) + "\n")
    for command in (
        "validate a.jsonl",
        "validate a.jsonl --json",
        "import a.jsonl --out b.jsonl",
        "build-memory b.jsonl",
        "memory show",
        "memory show --json",
        "memory show --env toy",
        "memory show --env toy --json",
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
    assert Memory.open(str(place / ".ldm/memory"), "toy", embedder=BagOfWords())


def test_errors_quote_it_harmlessly(place: Path) -> None:
    for words in (
        ["eval", "--env", HOSTILE.replace("\0", "")],
        ["validate", f"{HOSTILE}.jsonl".replace("\0", "").replace("/", "")],
        ["memory", "show", "--memory", HOSTILE.replace("\0", "")],
    ):
        outcome = clean(run(*words))
        assert outcome.code == 1


def test_a_reply_of_a_model_is_printed_harmlessly(
    place: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(answer=lambda _: HOSTILE)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    asking = ("--agent", "tests.integration.agents:Asking", "--env", "tests.toy:ToyEnv")
    played = clean(run("eval", *asking, "--llm", "m", "--limit", "1"))
    assert played.code == 0, played.err
    (recorded,) = place.glob("runs/*")
    shown = clean(run("runs", "show", str(recorded), "fetch-2"))
    assert r"\x1b[2J" in shown.out
    clean(run("runs", "show", str(recorded), "fetch-2", "--json"))


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


def test_trees_of_runs_are_printed_harmlessly(place: Path) -> None:
    ground = hostile(expert_trajectories()[0])
    nodes = (
        TreeNode(0, -1, 0, "", 1.0, 1.0, "grown", HOSTILE),
        TreeNode(1, 0, 1, HOSTILE, 0.5, 0.5, "done", HOSTILE),
    )
    row = IndexedTuple(replace(TUPLE, observation=HOSTILE, action=HOSTILE), HOSTILE, 0, 0)
    tree = Tree((HOSTILE, "b"), ground, nodes, best=1, key=0, into=HOSTILE, added=(row,))
    made = create(place, ["refine"], Manifest("refine", {"env": "toy"}, {}))
    goal = ExploredGoal(0, ground.task, (tree, tree), error=HOSTILE)
    records.write(made.directory / TREES, [goal])
    outcome = clean(run("runs", "show", made.directory, ground.task.id[:5]))
    assert outcome.code == 0
    assert r"\x1b]52;c;aGk=\x07" in outcome.out


def test_the_display_of_progress_lets_nothing_act_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setattr(output, "console", lambda *, error: terminal)
    with counting(output.stages, "ldm on \x1b[2J", 2) as advance:
        advance("\x9b2J, \x1b]0;\x07")
    for trick in ("\x1b[2J", "\x07", "\x9b", "\x1b]0"):
        assert trick not in file.getvalue()
    assert "ldm on \\x1b[2J" in file.getvalue()
