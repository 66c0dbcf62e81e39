"""Play the same episodes with a memory's snapshot, its Chroma directory, and a Chroma server.

    python benchmarks/backends.py --env alfworld --memory .ldm/memory --episodes 60

From the directory all tuples are read, without the snapshot, and every recall compares all of them;
the server is started on loopback and given the same memory. Every step of every episode has to be
the same, with the same recalls. Prints the number of episodes and steps, and of those that differ.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from ldm.memory.access import reading, writing

from ldm.config import Evaluate, Section
from ldm.embed import load_embedder
from ldm.envs import load_env
from ldm.memory import Contents, Memory, generations, inspect
from ldm.memory.ranking import DECIMALS
from ldm.memory.retrieval import Query, Retriever
from ldm.reason.offline import OfflineReasoner
from ldm.run.builders import Knowledge, PlayerBuilder, build_environment
from ldm.run.selection import select
from ldm.types import Recall


class BruteForce(Retriever):
    """Retrieval as `Retriever.search` is described, by comparing every tuple at every recall."""

    contents: Contents

    @cached_property
    def _halves(self) -> tuple[np.ndarray, np.ndarray]:
        goals, observations = np.split(self.contents.vectors[:], 2, axis=1)
        return np.ascontiguousarray(goals), np.ascontiguousarray(observations)

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        rows = list(self.contents.rows)
        return {
            "id": [row.tuple.id for row in rows],
            "cell": [row.cell for row in rows],
            "trajectory": [row.tuple.trajectory_id for row in rows],
            "text": [(row.tuple.goal, row.tuple.observation, row.tuple.action) for row in rows],
        }

    def _scope_of(self, query: Query, names: Sequence[str]) -> np.ndarray:
        """Return 0 for the rows of the query's cells, 1 of their goal types, 2 of the batches."""
        scope = np.full(len(self.contents.rows), 3)
        cells = self._columns["cell"]
        chosen = {name: self.batches[name].classify(query) for name in names}
        for i, (batch, goal_type, observation_type) in enumerate(cells):
            if batch in chosen:
                near = chosen[batch]
                scope[i] = 2 if goal_type != near[0] else int(observation_type != near[1])
        return scope

    def search(
        self, query: Query, batches: Sequence[str], k: int, hidden: np.ndarray | None = None
    ) -> list[Recall]:
        """Return the best `k` recalls."""
        goals, observations = self._halves
        g = np.vecdot(goals, query.goal_vector).astype(np.float64)
        similar = np.round((g + np.vecdot(observations, query.observation_vector)) / 2, DECIMALS)
        scope = self._scope_of(query, batches)
        columns = self._columns
        order = sorted(
            (i for i in np.flatnonzero(scope < 3).tolist() if hidden is None or not hidden[i]),
            key=lambda i: (scope[i], -similar[i], columns["id"][i]),
        )
        recalls: list[Recall] = []
        trajectories: set[str] = set()
        texts: set[tuple[str, str, str]] = set()
        for spread in (True, False):
            for i in order:
                trajectory, text = columns["trajectory"][i], columns["text"][i]
                if text in texts or (spread and trajectory in trajectories):
                    continue
                trajectories.add(trajectory)
                texts.add(text)
                fallback = ("", "goal type", "batch")[scope[i]]
                recalls.append(self.recall(i, float(similar[i]), fallback))  # type: ignore[arg-type]
                if len(recalls) == k:
                    return recalls
        return recalls


def from_chroma(location: str, env: str, embedder: Any) -> Memory:
    """Return the memory as Chroma holds it, searched by brute force."""
    with reading(location) as store:
        contents = store.load(env)
    memory = Memory(contents, embedder)
    retriever = BruteForce(contents.batches, contents.rows, contents.vectors)
    retriever.contents = contents
    memory.__dict__["_retriever"] = retriever
    return memory


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


def copy(location: str, address: str, env: str) -> None:
    """Give a server the newest generation of a memory."""
    contents = inspect(location, env)
    with writing(address) as store:
        for _ in store.add_memory(contents, generations(location, env)):
            pass


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
        copy(arguments.memory, address, name)
        memories = {
            "snapshot": Memory.open(arguments.memory, name, embedder=embedder),
            "Chroma directory": from_chroma(arguments.memory, name, embedder),
            "Chroma server": Memory.open(address, name, embedder=embedder),
        }
        outcomes = {
            place: played(spec, Knowledge(embedder, reasoner, memory), arguments.episodes)
            for place, memory in memories.items()
        }
    first = outcomes["snapshot"]
    steps = sum(len(trial.steps) for _, trials in first for trial in trials)
    solved = sum(result.success for result, _ in first)
    print(f"{arguments.env}: {len(first)} episodes, {steps} steps, {solved} successes")
    for place, other in outcomes.items():
        differing = sum(one != another for one, another in zip(first, other, strict=True))
        print(f"{place}: {differing} episodes differ")


if __name__ == "__main__":
    main()
