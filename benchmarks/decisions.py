"""Measure the time of a decision without a model, side by side with another version of the code.

    git worktree add /tmp/before REVISION
    python benchmarks/decisions.py ../shared/data/alfworld EPISODES.jsonl --against /tmp/before

Both build a memory of the episodes and play the same games of valid_seen twice; the second time,
when every text has been embedded, is measured. The versions take turns, `--repeats` times, so that
what else the machine does falls on both. The hash of all actions tells whether they decide alike.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any


def main() -> None:
    """Print the milliseconds of a decision for each version, and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("episodes", type=Path)
    parser.add_argument("--against", type=Path, help="a checkout of the other version")
    parser.add_argument("--games", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measured(arguments.data, arguments.episodes, arguments.games)))
        return
    versions = [Path(__file__).resolve().parents[1], arguments.against]
    times: dict[Path, list[float]] = {}
    actions: dict[Path, str] = {}
    for _ in range(arguments.repeats):
        for version in filter(None, versions):
            outcome = run(version, arguments)
            times.setdefault(version, []).append(outcome["milliseconds"])
            actions[version] = outcome["actions"]
    for version, each in times.items():
        each_text = ", ".join(f"{one:.2f}" for one in each)
        print(
            f"{version}: {median(each):.2f} ms a decision ({each_text}), actions {actions[version]}"
        )
    if arguments.against:
        ours, theirs = (median(times[version]) for version in versions)
        print(f"ratio: {theirs / ours:.2f}")


def run(version: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what a version of the code measures, in a process of its own."""
    process = subprocess.run(  # noqa: S603 - our own command
        [
            *(sys.executable, __file__, arguments.data, arguments.episodes),
            *("--games", str(arguments.games), "--measure"),
        ],
        env={**os.environ, "PYTHONPATH": str(version.resolve())},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    outcome: dict[str, Any] = json.loads(process.stdout)
    return outcome


def measured(data: Path, episodes: Path, games: int) -> dict[str, Any]:
    """Play the games twice with a memory of `episodes`, and measure the second time."""
    from ldm import Memory, build_memory
    from ldm.agents import Resources
    from ldm.agents.ldm import LdmAgent, LdmOptions
    from ldm.config import Section
    from ldm.embed import load_embedder
    from ldm.episode import run_episode
    from ldm.reason.offline import OfflineReasoner
    from ldm.run.builders import build_environment

    embedder = load_embedder()
    env = build_environment(Section.read({"name": "alfworld", "data": str(data.resolve())}))
    with tempfile.TemporaryDirectory() as folder:
        build_memory([episodes], memory=folder)
        memory = Memory.open(folder, "alfworld", embedder=embedder)
    agent = LdmAgent(LdmOptions(), Resources(memory, OfflineReasoner(embedder)))
    tasks = env.tasks("valid_seen")
    tasks = tasks[:: max(1, len(tasks) // games)][:games]
    for _ in range(2):
        start, steps, actions = time.perf_counter(), 0, hashlib.sha256()
        for task in tasks:
            result, attempts = run_episode(env, agent, task)[:2]
            steps += result.env_steps
            for attempt in attempts:
                actions.update("\n".join(step.action for step in attempt.steps).encode())
        seconds = time.perf_counter() - start
    return {"milliseconds": 1000 * seconds / steps, "actions": actions.hexdigest()[:16]}


if __name__ == "__main__":
    main()
