"""Many episodes in flight: ALFWorld in threads of one process, with a model that all share."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.episode import Agent, Episode
from ldm.llm import Message
from ldm.run.runner import EPISODES, TRAJECTORIES
from ldm.types import Card, EpisodeResult, Trajectory
from tests.cli.conftest import run
from tests.conftest import CHECKOUT
from tests.llm.conftest import Serve

GAMES = 12


@dataclass(frozen=True, slots=True)
class Move:
    """What the model is asked for."""

    thought: str
    action: str


class Scripted(Agent):
    """Asks the model for each action, showing it goal, observation and what it has done so far."""

    name = "scripted"
    needs = ("llm",)
    paper = "test"

    def budget(self, card: Card) -> int:
        return 40

    def solve(self, episode: Episode) -> None:
        llm = self._resources.model(episode)
        with episode.trial() as now:
            opening = now.observation
            while True:
                game, step = f"{opening}\n{episode.goal}", len(episode.past)
                query = {"game": game, "step": step, "seen": now.observation}
                reply = llm.complete([Message("user", json.dumps(query))], schema=Move)
                assert isinstance(reply.value, Move)
                now = episode.act(reply.value.action, thought=reply.value.thought)


def script() -> dict[str, list[str]]:
    """Opening and goal → the actions of an expert, for the games of our own that are shipped."""
    path = CHECKOUT / "data" / "trajectories" / "alfworld" / "demo_train.jsonl"
    trajectories = records.read(path, Trajectory)
    return {
        f"{t.opening}\n{t.task.goal}": [s.action for s in t.steps if s.action] for t in trajectories
    }


@pytest.mark.slow
def test_alfworld_in_threads_gives_what_one_after_the_other_gives(
    serve: Serve, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = script()

    def answer(body: dict[str, Any]) -> str:
        content = body["messages"][-1]["content"]
        if "Greet me" in content:
            return json.dumps({"greeting": "hello", "language": "English"})
        question = json.loads(content)
        action = scripts[question["game"]][question["step"]]
        return json.dumps({"thought": question["seen"][:20], "action": action})

    server = serve(answer=answer, latency=0.02)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    command = (
        *("eval", "--env", "alfworld", "--split", "demo_train", "--limit", GAMES),
        *("--agent", "tests.integration.test_threads:Scripted", "--llm", "scripted", "--json"),
    )
    outcomes = []
    for workers in (8, 1):
        server.peak = 0
        outcome = run(*command, "--workers", workers, "--runs", place / f"{workers}").done()
        assert (server.peak > 4) == (workers == 8)
        report = json.loads(outcome.out)
        assert (report["episodes"], report["success_rate"], report["errors"]) == (GAMES, 1.0, 0)
        directory = Path(report["run"])
        episodes = records.read(directory / EPISODES, EpisodeResult)
        timeless = [{**asdict(episode), "seconds": 0} for episode in episodes]
        outcomes.append((timeless, (directory / TRAJECTORIES).read_text()))
        for episode in episodes:
            assert episode.usage.calls == episode.env_steps > 0
    assert outcomes[0] == outcomes[1]
    assert len({task["task"]["kind"] for task in outcomes[0][0]}) == 6
