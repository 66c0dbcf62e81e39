"""Two games played by a real small model, one decision process a batch: recorded, and replayed.

The recording was made with Qwen2.5-Coder 1.5B. After a change of a prompt it is made anew, with a
server at $OPENAI_BASE_URL:

    LDM_RECORD=qwen2.5-coder-1.5b pytest tests/integration/test_recorded_llm.py
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.cli.environment import connection
from ldm.envs.alfworld import ALFWorld
from ldm.episode import run_episode
from ldm.llm import LLM
from ldm.llm.models import ModelOptions, Models
from ldm.memory import FormationOptions, Memory, build
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedOptions, PromptedReasoner
from ldm.types import Card, Trajectory
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords

RECORDING = CHECKOUT / "tests" / "recordings" / "per_batch.jsonl.gz"
OUTCOME = CHECKOUT / "tests" / "recordings" / "per_batch_outcome.json.gz"
EPISODES = CHECKOUT / "data" / "trajectories" / "alfworld" / "demo_train.jsonl"
KINDS = ("look", "pick")
EMBEDDER = BagOfWords()


@contextmanager
def models(tmp_path: Path) -> Iterator[Models]:
    """Models that answer from the recording; or a server's, whose answers become the recording."""
    name = os.environ.get("LDM_RECORD")
    if name is None:
        models = Models(ModelOptions(replay=str(RECORDING)), connection, tmp_path)
    else:
        models = Models(ModelOptions(llm=name, timeout=600), connection, tmp_path)
    try:
        yield models
    finally:
        models.close()
    if name is not None:
        calls = (tmp_path / "llm.jsonl").read_bytes()
        RECORDING.parent.mkdir(exist_ok=True)
        RECORDING.write_bytes(gzip.compress(calls, mtime=0))


def play(tmp_path: Path) -> list[dict[str, Any]]:
    """What two games came to, without the time they took."""
    episodes = [t for t in records.read(EPISODES, Trajectory) if t.task.kind in KINDS]
    place = str(tmp_path / "memory")
    build(place, episodes, EMBEDDER, OfflineReasoner, options=FormationOptions(batch_size=10))
    memory = Memory.open(place, "alfworld", embedder=EMBEDDER)
    env = ALFWorld()
    games = [task for task in env.tasks("demo_test") if task.kind in KINDS][:4:3]

    def ask(llm: LLM, card: Card, options: PromptedOptions) -> PromptedReasoner:
        return PromptedReasoner(llm, card, OfflineReasoner(EMBEDDER), EMBEDDER, options)

    with models(tmp_path) as served:
        resources = Resources(memory, reasoner_llm=served.get("reasoner"), ask=ask)
        options = LdmOptions(decision="per-batch", candidates="vote", budget=8, k=2)
        agent = LdmAgent(options, resources)
        played = [run_episode(env, agent, game) for game in games]
    env.close()
    summaries: list[dict[str, Any]] = [
        {"result": asdict(replace(result, seconds=0)), "trials": [asdict(t) for t in trials]}
        for result, trials in played
    ]
    plain: list[dict[str, Any]] = json.loads(json.dumps(summaries))
    return plain


def test_a_recorded_run_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    summaries = play(tmp_path)
    text = json.dumps(summaries, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("LDM_RECORD"):
        OUTCOME.write_bytes(gzip.compress(text.encode(), mtime=0))
        pytest.skip("recorded anew: look at what has changed")
    assert text == gzip.decompress(OUTCOME.read_bytes()).decode()


def test_each_game_had_a_process_a_batch_and_a_choice() -> None:
    for game in json.loads(gzip.decompress(OUTCOME.read_bytes())):
        result = game["result"]
        notes = {note["kind"]: note["data"] for note in result["notes"]}
        assert result["error"] == ""
        assert result["trials"] == len(game["trials"]) == len(notes["choice"]["batches"]) > 1
        assert notes["choice"]["chosen"] == notes["choice"]["batches"][result["submitted"]]
        # Every process asks for sub-goals and decides at every step; then one choice.
        assert notes["replies"]["replies"] == result["env_steps"] + result["trials"] + 1
        assert result["usage"]["calls"] >= notes["replies"]["replies"]
