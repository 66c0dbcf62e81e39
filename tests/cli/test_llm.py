"""Models in `ldm eval` and `ldm doctor`, as users meet them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import run
from tests.llm.server import FakeServer

SECRET = "sk-planted-0123456789"
ASKING = ("--env", "tests.toy:ToyEnv", "--agent", "tests.integration.agents:Asking")


@pytest.fixture(autouse=True)
def surroundings(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and a key."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    return place


def all_files(place: Path) -> str:
    return "".join(path.read_text() for path in place.rglob("*") if path.is_file())


def test_doctor_says_what_the_server_can_do(server: FakeServer) -> None:
    server.behaviour.structured = ("json_object",)
    server.behaviour.rejects = ("temperature",)
    server.behaviour.listing = {"data": [{"id": "m", "n_ctx": 4096}]}
    outcome = run("doctor", "--llm", "m", "--probe")
    assert "JSON by json_object; refuses temperature; context 4,096 tokens" in outcome.out
    assert SECRET not in outcome.out + outcome.err


@pytest.mark.parametrize("key", ["sk-planted\n0123456789", "sk-planted-ü0123456789"])
def test_a_key_that_cannot_be_sent_is_said_and_not_shown(
    key: str, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    outcome = run("eval", *ASKING, "--llm", "m", "--limit", "1").refused(
        "OPENAI_API_KEY holds a character that no key has"
    )
    assert "0123456789" not in outcome.out + outcome.err
    assert server.bodies == []


def test_an_agent_without_a_model_says_that_none_is_used(surroundings: Path) -> None:
    toy = ("eval", "--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "1")
    assert (
        "The agent random uses no LLM; ignoring the model options."
        in run(*toy, "--llm", "m", "--reasoner-llm", "r").done().err
    )
    (place,) = surroundings.glob("runs/*")
    assert "models" not in json.loads((place / "run.json").read_text())["arguments"]
    assert run(*toy, "--estimate").code == 1


def test_what_is_under_way_when_a_run_stops_is_waited_for_and_recorded(
    server: FakeServer, surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldm.parallel.SHUTDOWN_SECONDS", 0.01)
    plans: list[str] = []

    def answer(body: dict[str, Any]) -> str:
        question = body["messages"][0]["content"]
        plans.extend([question] if "Plan: " in question else [])
        if "Plan: " in question and len(plans) <= 4:
            time.sleep(0.9)
        elif "Plan: " in question:  # whoever has this plan is refused when it asks for an action
            server.behaviour.status, server.behaviour.complaint = 401, "no such key"
        return '{"reason": "x", "number": 1}'

    server.behaviour.answer = answer
    run("eval", *ASKING, "--llm", "m", "--workers", "8", "--env.tasks", "40").refused(
        "no such key", "answers under way, which are billed"
    )
    (place,) = surroundings.glob("runs/*")
    recorded = (place / "llm.jsonl").read_text().splitlines()
    assert len(recorded) == server.outcomes["answered"] >= 6


def test_an_evaluation_stops_at_its_limit_and_goes_on_without_paying_twice(
    server: FakeServer, surroundings: Path
) -> None:
    run("eval", *ASKING, "--llm", "m", "--planner-llm", "p", "--models.max-calls", "30").refused(
        "of --max-calls 30"
    )
    assert server.outcomes["answered"] <= 30
    (place,) = surroundings.glob("runs/*")
    run("eval", "--resume", str(place), "--models.max-calls", "500", "--json").done()
    assert "Usage: planner (p): " in run("runs", "show", str(place)).out
    assert max(server.answered.values()) == 1
    run("eval", *ASKING, "--replay", str(place), "--json").done()
    episodes = [
        path.read_text().splitlines() for path in surroundings.glob("runs/*/episodes.jsonl")
    ]
    first, second = ([json.loads(line) for line in lines] for lines in episodes)
    assert all(
        {**a, "seconds": 0} == {**b, "seconds": 0} for a, b in zip(first, second, strict=True)
    )
    assert SECRET not in all_files(surroundings)
    assert run("eval", "--resume", str(place), "--llm", "other").code == 1


def test_an_estimate_plays_a_few_tasks_and_says_what_all_will_cost(
    server: FakeServer, surroundings: Path
) -> None:
    run("eval", *ASKING, "--llm", "gpt-4o", "--estimate").done(
        "Measured on 6 of 12 tasks", "108 model calls (108 to 108)", "USD (", "like the least, and"
    )
    (place,) = surroundings.glob("runs/*")
    assert run("eval", "--resume", str(place)).code == 0
    assert max(server.answered.values()) == 1
