"""Many episodes in flight: ALFWorld in threads of one process, with a model that all share."""

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.run.runner import EPISODES, TRAJECTORIES
from ldm.types import EpisodeResult, Trajectory
from tests.agents.decomposition.ideal import block
from tests.cli.conftest import run
from tests.conftest import CHECKOUT
from tests.llm.server import FakeServer

GAMES = 12


@cache
def script() -> dict[tuple[str, str], list[str]]:
    """Room and goal → the actions of an expert, for the games of our own that are shipped."""
    path = CHECKOUT / "data" / "trajectories" / "alfworld" / "demo_train.jsonl"
    return {
        (t.opening.partition("\n")[0], t.task.goal): [s.action for s in t.steps if s.action]
        for t in records.read(path, Trajectory)
    }


def reply(body: dict[str, Any]) -> str:
    """Does what the expert did in this room, for this goal, after so many steps."""
    question = body["messages"][-1]["content"]
    so_far = block("so-far", question)
    room = so_far.removeprefix("Observation: ").partition("\n")[0]
    actions = script().get((room, block("task", question)))
    return f"Act: {actions[so_far.count('Act: ')]}" if actions else "Hello."


@pytest.mark.slow
def test_alfworld_in_threads_gives_what_one_after_the_other_gives(
    server: FakeServer, place: Path
) -> None:
    server.behaviour.latency = 0.02
    command = (
        *("eval", "--env", "alfworld", "--split", "demo_train", "--limit", GAMES),
        *("--agent", "act", "--agent.shots", "0", "--llm", "scripted", "--json"),
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
