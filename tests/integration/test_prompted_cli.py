"""A memory formed, refined and evaluated with a model, from the command line, and replayed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.llm.calls import Call
from ldm.run.runner import EPISODES, TRAJECTORIES
from ldm.types import EpisodeResult
from tests.cli.conftest import run
from tests.llm.server import FakeServer
from tests.reason.scripted import items_in
from tests.toy import ToyOptions, expert_trajectories

pytestmark = pytest.mark.usefixtures("place", "server")

SHED = ("--env.tasks", "10", "--env.shelves", "8")
ENV = ("--env", "tests.toy:ToyEnv", *SHED)
MODEL = ("--reasoner-llm", "scripted")
BUILD = (*MODEL, "--wording", "reworded")
ALWAYS = (*MODEL, "--agent.consult", "always")
POLICY = (*MODEL, "--policy.consult", "always")


def reply(body: dict[str, Any]) -> str:
    """What a fair model says to each of the reasoner's questions."""
    question = body["messages"][-1]["content"]
    if "Greet me" in question:
        return json.dumps({"greeting": "hello", "language": "English"})
    if "check how far" in body["messages"][0]["content"]:
        return json.dumps({"sub_goals": ["find it"], "complete": []})
    if "write down what" in body["messages"][0]["content"]:
        return json.dumps({"summary": "looked around"})
    if "types of about equal size" in question:
        numbers = list(range(1, len(items_in(question)) + 1))
        halves = (("one", numbers[::2]), ("other", numbers[1::2]))
        return json.dumps({"types": [{"name": n, "members": m} for n, m in halves]})
    if "number of its type" in question:
        return json.dumps({f"item_{n}": 1 for n in range(1, len(items_in(question)) + 1)})
    if "Which step" in question or "Which attempt" in question:
        return json.dumps({"item_1": 1})
    possible = question.partition("<possible-actions>\n")[2].partition("\n<")[0].split("; ")
    action = next((a for a in possible if a not in question.partition("<now>")[0]), possible[0])
    if "actions: up to" in body["messages"][0]["content"]:
        weighed = [{"action": a, "confidence": 0.5} for a in (action, possible[-1])]
        return json.dumps({"actions": weighed})
    return json.dumps({"action": action})


@pytest.fixture
def place(place: Path) -> Path:
    episodes = expert_trajectories(options=ToyOptions(tasks=4, shelves=8))
    records.write(place / "data" / "train.jsonl", episodes)
    return place


def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")


class TestBuilding:
    def test_is_estimated_from_a_few_trajectories_and_stores_nothing(
        self, server: FakeServer
    ) -> None:
        more = expert_trajectories(options=ToyOptions(tasks=10, shelves=8))
        records.write(Path("data/train.jsonl"), more)
        run("build-memory", "data", *BUILD, "--estimate").done(
            "Measured on 6 of 10 trajectories", "model calls"
        )
        assert not Path(".ldm/memory/ldm-memory.json").exists()
        requests = server.bodies.copy()
        assert run("build-memory", "data", *BUILD).code == 0
        assert not [one for one in server.bodies[len(requests) :] if one in requests]  # paid once
        assert "building it costs nothing" in run("build-memory", "data", *BUILD, "--estimate").err
        assert "costs nothing" in run("build-memory", "data", "--estimate").err

    def test_writes_histories_and_types_and_says_what_it_cost(self) -> None:
        outcome = run("build-memory", "data", *BUILD).done()
        assert "Usage of this memory so far: reasoner (scripted)" in outcome.err
        assert "Malformed replies: 0 of" in outcome.err
        assert run("memory", "export", "out.jsonl").code == 0
        text = Path("out.jsonl").read_text()
        assert "looked around" in text
        assert "Subgoal 1: find it - Incomplete" in text
        calls = records.read(Path(".ldm/memory/calls/llm.jsonl"), Call)
        systems = [call.request.messages[0].content for call in calls]
        histories = ("check how far", "write down what")
        counts = [sum(words in system for system in systems) for words in histories]
        episodes = expert_trajectories(options=ToyOptions(4, 8))
        pasts = {(t.task.goal, past) for t in episodes for past, *_ in t.states()}
        assert counts == [len(pasts), sum(past != () for _, past in pasts)]

    def test_again_from_its_recording_is_the_same_without_a_server(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert run("build-memory", "data", *BUILD).code == 0
        run("memory", "export", "first.jsonl")
        no_server(monkeypatch)
        other = ("--memory", "other")
        run("build-memory", "data", *other, *BUILD[2:], "--replay", ".ldm/memory/calls").done()
        run("memory", "export", "second.jsonl", *other)
        assert Path("first.jsonl").read_bytes() == Path("second.jsonl").read_bytes()

    def test_with_the_limit_reached_goes_on_later_and_pays_nothing_twice(
        self, server: FakeServer
    ) -> None:
        limit = ("--models.max-calls", "5", "--models.concurrency", "1")
        outcome = run("build-memory", "data", *BUILD, *limit)
        assert outcome.code != 0
        assert "max-calls" in outcome.err
        before = len(records.read(Path(".ldm/memory/calls/llm.jsonl"), Call))
        assert before >= 5
        assert run("build-memory", "data", *BUILD).code == 0
        calls = records.read(Path(".ldm/memory/calls/llm.jsonl"), Call)
        assert len({call.key for call in calls}) == len(calls) == server.outcomes["answered"]


def evaluated(*more: object) -> dict[str, Any]:
    outcome = run("eval", *ENV, "--agent.budget", "6", "--limit", "3", "--json", *more).done()
    report: dict[str, Any] = json.loads(outcome.out)
    return report


def files(directory: str) -> tuple[list[dict[str, Any]], str]:
    """What a run recorded, without the time it took."""
    episodes = records.read(Path(directory) / EPISODES, EpisodeResult)
    episode_records = [{**asdict(episode), "seconds": 0} for episode in episodes]
    return episode_records, (Path(directory) / TRAJECTORIES).read_text()


class TestEvaluating:
    @pytest.mark.parametrize(
        "more", [(), ("--agent.decision", "per-batch"), ("--agent.index", "llm")]
    )
    def test_replayed_gives_the_same_bytes_without_a_server(
        self, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert run("build-memory", "data", "--batch-size", "2").code == 0
        first = evaluated(*ALWAYS, *more)
        no_server(monkeypatch)
        second = evaluated("--replay", first["run"], "--agent.consult", "always", *more)
        assert files(first["run"]) == files(second["run"])
        manifest = json.loads((Path(first["run"]) / "run.json").read_text())
        assert manifest["models"]["reasoner"] == "scripted"
        assert "reasoner/act" in manifest["prompts"]
        episodes, _ = files(first["run"])
        calls = sum(episode["usage"]["calls"] for episode in episodes)
        steps = sum(episode["env_steps"] for episode in episodes)
        assert steps <= calls <= 3 * steps + 3
        questions = [
            call.request.messages[-1].content
            for call in records.read(Path(first["run"]) / "llm.jsonl", Call)
        ]
        assert any("number of its type" in question for question in questions) == ("llm" in more)

    def test_asks_where_memory_is_unsure_by_default(self) -> None:
        assert run("build-memory", "data").code == 0
        for more, options in [
            *((MODEL, {"consult": "unsure"}), (("--workers", "1"), {})),
            ((*MODEL, "--wording", "paper"), {"wording": "paper"}),
        ]:
            manifest = json.loads((Path(evaluated(*more)["run"]) / "run.json").read_text())
            recorded = manifest["spec"]["agent"]
            assert recorded == {"name": "ldm", "budget": 6, **options}


class TestRefining:
    REFINE = ("refine", *ENV, "--limit", "2", "--depth", "4")

    @pytest.mark.slow
    def test_explores_and_replays_without_a_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert run("build-memory", "data").code == 0
        few = (*self.REFINE, "--limit", "1", "--dry-run")
        run(*few, *MODEL, "--models.concurrency", "2").done()
        (first,) = Path("runs").glob("refine-*")
        no_server(monkeypatch)
        run(*few, "--replay", first, "--runs", "again").done()
        (second,) = Path("again").glob("refine-*")
        assert explored(first) == explored(second)

    def test_is_estimated_from_some_goals_and_then_played_to_the_end(
        self, server: FakeServer
    ) -> None:
        assert run("build-memory", "data").code == 0
        command = (*self.REFINE[:-4], "--limit", "6", "--depth", "4", "--estimate")
        estimated = run(*command, *POLICY).done("Measured on 6 of 6 goals", "The gate comes on top")
        (first,) = Path("runs").glob("refine-*")
        paid = list(server.bodies)
        played = run("refine", "--resume", first).done()
        assert f"ldm refine --resume runs/{first.name}" in estimated.out
        assert not [one for one in server.bodies[len(paid) :] if one in paid]
        assert "Refinement of generation 0" in played.out
        assert "costs nothing" in run(*command, "--reuse-goals").err


def explored(directory: Path) -> list[dict[str, Any]]:
    lines = (directory / "trees.jsonl").read_text().splitlines()
    return [{**json.loads(line), "seconds": 0} for line in lines]
