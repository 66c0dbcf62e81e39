"""Play the same episodes with a memory's files, and with a Chroma server that is queried.

    python benchmarks/backends.py --env alfworld --memory .ldm/memory --episodes 60

The server is started on loopback and holds what was published of the same memory. Prints the number
of episodes and steps, of those whose actions differ, and of recalls.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ldm.config import Evaluate, Section
from ldm.embed import load_embedder
from ldm.envs import load_env
from ldm.memory import Memory, inspect
from ldm.memory.chroma import publish
from ldm.reason.offline import OfflineReasoner
from ldm.run.builders import Knowledge, PlayerBuilder, build_environment
from ldm.run.selection import select


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a Chroma server on loopback; yield its address."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--host", "127.0.0.1"]
    process = subprocess.Popen(  # noqa: S603 - Chroma itself
        [*command, "--port", str(port), "--path", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@dataclass(frozen=True)
class PlayerWith(PlayerBuilder):
    """Build an agent with a memory that is open already."""

    known: Knowledge | None = None

    def knowledge(self, env: str) -> Knowledge:
        assert self.known is not None  # noqa: S101 - it is given
        return self.known


def played(spec: Evaluate, knowledge: Knowledge, episodes: int) -> list[Any]:
    """Return what came of each task: result and steps, without times."""
    from ldm.episode import run_episode

    env, agent = PlayerWith(spec, known=knowledge)()
    with closing(env):
        tasks = select(env.tasks(spec.split), limit=episodes)
        outcomes = []
        for task in tasks:
            result, trials = run_episode(env, agent, task)
            outcomes.append((replace(result, seconds=0), trials))
            if sys.stderr.isatty():
                print(".", end="", flush=True, file=sys.stderr)
    return outcomes


def acted(outcome: Any) -> list[list[str]]:
    """Return the actions of each attempt."""
    return [[step.action for step in trial.steps] for trial in outcome[1]]


def main() -> None:
    """Play, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="alfworld")
    parser.add_argument("--split", default="")
    parser.add_argument("--data", default="", help="the environment's data")
    parser.add_argument("--memory", default=".ldm/memory")
    parser.add_argument("--episodes", type=int, default=60)
    arguments = parser.parse_args()
    options = {"data": arguments.data} if arguments.data else {}
    section = Section.read({"name": arguments.env, **options})
    with closing(build_environment(section)) as env:
        split, name = arguments.split or load_env(arguments.env).default_split, env.card.name
    place = arguments.memory
    spec = Evaluate(section, split, "ldm", memory=place)
    embedder = load_embedder()
    reasoner = OfflineReasoner(embedder)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as address:
        here = inspect(arguments.memory, name)
        publish(here, address)
        memories = {
            "files": Memory.open(arguments.memory, name, embedder=embedder),
            "Chroma server": Memory.open(address, name, embedder=embedder),
        }
        outcomes = {
            place: played(spec, Knowledge(embedder, reasoner, memory), arguments.episodes)
            for place, memory in memories.items()
        }
    first = outcomes["files"]
    steps = sum(len(trial.steps) for _, trials in first for trial in trials)
    solved = sum(result.success for result, _ in first)
    print(f"{arguments.env}: {len(first)} episodes, {steps} steps, {solved} successes")
    for place, other in outcomes.items():
        pairs = list(zip(first, other, strict=True))
        recalls = sum(one != another for one, another in pairs)
        actions = sum(acted(one) != acted(another) for one, another in pairs)
        print(f"{place}: {actions} episodes differ in actions, {recalls} in recalls")


if __name__ == "__main__":
    main()
