"""`ldm judge`: a model says which answers mean the same as the right ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.run.judged import Judged
from tests.agents import washer
from tests.agents.reader import known
from tests.cli.conftest import Run
from tests.llm.server import FakeServer

pytestmark = pytest.mark.usefixtures("place")

TASKS = 8
EVALUATE = ("eval", "--env", "hotpotqa", "--agent", "autoplan", "--limit", str(TASKS))
PLAYING = ("--llm", "reader", "--agent.budget", "2", "--workers", "1")


def number(question: str) -> int:
    """The place of a question among those of our own world."""
    return sorted(known()).index(question)


def given(question: str) -> str:
    """An answer that is right, right in other words, wrong, or none, by the question."""
    right = known()[question].answer
    return {
        0: f"finish[{right}]",
        1: f"finish[It is {right} indeed]",
        2: "finish[something else]",
        3: "search[nothing]",
    }[number(question) % 4]


def reply(body: dict[str, Any]) -> str:
    contents = [message["content"] for message in body["messages"]]
    if "You compare the answer" in contents[0]:
        same = washer.block("right-answer", contents) in washer.block("answer", contents)
        return json.dumps({"same": same})
    if len(contents) == 1:
        return "Hello."
    if "Greet me" in contents[-1]:
        return json.dumps({"greeting": "hello", "language": "English"})
    if contents[-1].endswith("begins with Act:"):
        return f"Act: {given(washer.block('task', contents))}"
    return "Think: hm."


@pytest.fixture
def evaluated(run: Run, place: Path, server: FakeServer) -> Path:
    """A finished evaluation."""
    run(*EVALUATE, *PLAYING).done()
    (directory,) = (place / "runs").glob("hotpotqa-*")
    return directory


def judging(server: FakeServer) -> list[dict[str, Any]]:
    """The requests of the judge."""
    return [b for b in server.bodies if "You compare the answer" in b["messages"][0]["content"]]


def kinds(directory: Path) -> Counter[int]:
    """How many of the tasks get which of the four sorts of answer."""
    lines = (directory / "episodes.jsonl").read_text().splitlines()
    return Counter(number(json.loads(line)["task"]["goal"]) % 4 for line in lines)


def test_what_it_says_stands_beside_the_success_rate(
    run: Run, server: FakeServer, evaluated: Path
) -> None:
    before = {path.name: path.read_bytes() for path in evaluated.glob("*.json*")}
    sorts = kinds(evaluated)
    assert min(sorts[sort] for sort in range(3)) > 0
    assert (
        "Usage for judging: llm (judge)"
        in run("judge", evaluated, "--llm", "judge")
        .done(
            "model judge (judge)", f"accepts {sorts[1]} further answers.", "not the human judgement"
        )
        .err
    )
    report = json.loads(run("judge", evaluated, "--llm", "judge", "--json").out)
    assert report["success_rate"] == sorts[0] / TASKS
    assert report["judged_rate"] == (sorts[0] + sorts[1]) / TASKS
    assert report["agreement"] == (TASKS - sorts[1]) / TASKS
    by = {"success": sorts[0], "model judge": sorts[1] + sorts[2], "no answer": sorts[3]}
    assert report["by"] == {name: count for name, count in by.items() if count}
    # Nothing of the evaluation has changed.
    assert {path.name: path.read_bytes() for path in evaluated.glob("*.json*")} == {
        **before,
        "judged.jsonl": (evaluated / "judged.jsonl").read_bytes(),
    }


def test_only_answers_that_are_no_exact_match_are_asked_about_and_only_once(
    run: Run, server: FakeServer, evaluated: Path
) -> None:
    sorts = kinds(evaluated)
    run("judge", evaluated, "--llm", "judge")
    requests = judging(server)
    assert len(requests) == sorts[1] + sorts[2]
    for body in requests:
        contents = [message["content"] for message in body["messages"]]
        question = washer.block("question", contents)
        assert washer.block("right-answer", contents) == known()[question].answer
        assert f"finish[{washer.block('answer', contents)}]" == given(question)
        assert body["temperature"] == 0
    run("judge", evaluated, "--llm", "judge").done()
    assert len(judging(server)) == len(requests)
    replayed = run("judge", evaluated, "--replay", evaluated / "judge", "--json")
    assert json.loads(replayed.out)["model_judge"] == "judge"


def test_its_verdicts_are_records(run: Run, server: FakeServer, evaluated: Path) -> None:
    run("judge", evaluated, "--llm", "judge")
    for one in records.read(evaluated / "judged.jsonl", Judged):
        assert one.model == "judge"
        if one.answer is None:
            assert (one.by, one.same, one.success) == ("no answer", False, False)
            continue
        assert one.answer.right == known()[one.answer.question].answer
        assert one.same == (one.success or one.answer.given.startswith("It is"))


def test_a_reply_of_no_use_counts_as_not_the_same_and_is_named(
    run: Run, server: FakeServer, evaluated: Path
) -> None:
    server.behaviour.answer = lambda body: (
        "Who knows?" if "You compare" in body["messages"][0]["content"] else reply(body)
    )
    server.behaviour.ignores = ("json_schema", "json_object")
    run("judge", evaluated, "--llm", "judge").done(
        "replies could not be used and count as not the same"
    )


def test_it_goes_on_where_a_limit_stopped_it(run: Run, server: FakeServer, evaluated: Path) -> None:
    stopped = run(
        "judge", evaluated, "--llm", "judge", "--models.max-calls", "1", "--models.concurrency", "1"
    ).refused()
    assert f"Resume with `ldm judge {evaluated}" in stopped.err or "ldm judge" in stopped.err
    assert not (evaluated / "judged.jsonl").exists()
    requests = len(judging(server))
    assert run("judge", evaluated, "--llm", "judge").code == 0
    sorts = kinds(evaluated)
    assert len(judging(server)) == sorts[1] + sorts[2] >= requests
