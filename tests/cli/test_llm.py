"""`ldm llm`, and models in `ldm eval` and `ldm doctor`, as users meet them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.llm.conftest import Serve, serve
from tests.llm.server import FakeServer

__all__ = ["serve"]

SECRET = "sk-planted-0123456789"
ASKING = ("--env", "tests.toy:ToyEnv", "--agent", "tests.integration.agents:Asking")


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and no settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "LDM_LLM", "LDM_PLANNER_LLM", "LDM_REASONER_LLM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    return tmp_path


@pytest.fixture
def server(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    found = serve()
    monkeypatch.setenv("OPENAI_BASE_URL", found.url)
    return found


def written(place: Path) -> str:
    return "".join(path.read_text() for path in place.rglob("*") if path.is_file())


def test_ask_answers_records_and_replays(
    run: Run, server: FakeServer, surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("llm", "ask", "A colour.", "--field", "name:str", "--field", "warm:bool")
    first = run(*asked, "--llm", "m", "--record", "asked")
    assert first.code == 0, first.err
    assert json.loads(first.out) == {"name": "some text", "warm": True}
    assert "Paid for llm (m): 1 calls" in first.err
    monkeypatch.delenv("OPENAI_BASE_URL")
    again = run(*asked, "--replay", "asked")
    assert again.out == first.out
    assert run("llm", "ask", "Another.", "--replay", "asked").code == 1
    used = json.loads(run("llm", "usage", "asked", "--json").out)
    assert [account["role"] for account in used["accounts"]] == ["llm", "probe"]
    assert SECRET not in written(surroundings)


def test_ask_draws_several_replies(run: Run, server: FakeServer) -> None:
    drawn = ("--temperature", "0.7", "--samples", "3", "--json")
    found = json.loads(run("llm", "ask", "Hello", "--llm", "m", *drawn).out)
    assert len({reply["text"] for reply in found["replies"]}) == 3


def test_probe_says_what_the_server_can_do(run: Run, server: FakeServer) -> None:
    server.behaviour.structured = ("json_object",)
    server.behaviour.rejects = ("temperature",)
    found = json.loads(run("llm", "probe", "--llm", "m", "--json").out)
    assert (found["structured"], found["temperature"], found["stop"]) == (
        "json_object",
        False,
        True,
    )
    outcome = run("doctor", "--llm", "m", "--probe")
    assert "JSON by json_object; takes top_p, stop, seed" in outcome.out
    assert SECRET not in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("llm", "ask", "x"), "No language model is named"),
        (("llm", "ask", "x", "--llm", "m", "--field", "a:b"), "is not NAME:TYPE"),
        (("llm", "ask", "x", "--replay", "nowhere"), "no recording at"),
        (("eval", *ASKING), "needs a language model, and none is configured"),
        (("eval", *ASKING, "--llm", "m", "--max-usd", "1"), "price of m is unknown"),
        (("eval", *ASKING, "--llm", "m", "--prices", "none.json"), "cannot be read"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_left(
    arguments: tuple[str, ...], said: str, run: Run, server: FakeServer, surroundings: Path
) -> None:
    outcome = run(*arguments)
    assert outcome.code == 1
    assert said in outcome.err
    assert not list(surroundings.glob("runs/*"))


def test_a_service_that_is_not_configured_is_said(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    outcome = run("eval", *ASKING, "--llm", "m")
    assert outcome.code == 1
    assert "No model service is configured" in outcome.err


def test_an_evaluation_stops_at_its_limit_and_goes_on_without_paying_twice(
    run: Run, server: FakeServer, surroundings: Path
) -> None:
    limited = run("eval", *ASKING, "--llm", "m", "--planner-llm", "p", "--max-calls", "30")
    assert limited.code == 1
    assert "of --max-calls 30" in limited.err
    assert server.outcomes["answered"] <= 30
    (place,) = surroundings.glob("runs/*")
    done = run("eval", "--resume", str(place), "--max-calls", "500", "--json")
    assert done.code == 0, done.err
    assert max(server.answered.values()) == 1
    replayed = run("eval", *ASKING, "--replay", str(place), "--json")
    assert replayed.code == 0, replayed.err
    episodes = [
        path.read_text().splitlines() for path in surroundings.glob("runs/*/episodes.jsonl")
    ]
    first, second = ([json.loads(line) for line in lines] for lines in episodes)
    assert all(
        {**a, "seconds": 0} == {**b, "seconds": 0} for a, b in zip(first, second, strict=True)
    )
    assert SECRET not in written(surroundings)
    assert run("eval", "--resume", str(place), "--llm", "other").code == 1


def test_an_estimate_plays_a_few_tasks_and_says_what_all_will_cost(
    run: Run, server: FakeServer, surroundings: Path
) -> None:
    outcome = run("eval", *ASKING, "--llm", "gpt-4o", "--estimate")
    assert outcome.code == 0, outcome.err
    assert "Measured on 6 of 12 tasks" in outcome.out
    assert "108 model calls" in outcome.out
    assert "USD (95 % prediction interval" in outcome.out
    (place,) = surroundings.glob("runs/*")
    assert run("eval", "--resume", str(place)).code == 0
    assert max(server.answered.values()) == 1
