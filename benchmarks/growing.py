"""Record episodes into a growing memory and recall from it, at several sizes.

    OMP_NUM_THREADS=1 python benchmarks/growing.py --sizes 1000 10000 50000
    OMP_NUM_THREADS=1 python benchmarks/growing.py --episodes .ldm/expert/alfworld.jsonl

Goals, observations and actions are random words, as many as ALFWorld's have; the vectors are those
of an embedder that costs almost nothing, so that what is measured is the memory: embedding is in
benchmarks/embedding.py. Every episode has ten steps; after each step and each end there is one
recall. Batches of 50 episodes are formed meanwhile, by the memory's own process; one that is being
formed at the end is not waited for. Each size is measured in a process of its own, over its last
thousand steps. `--processor` counts the time of the processor, for a busy computer. `--episodes`
takes recorded episodes, in turn, instead of random words, which teach nothing; what went before is
given to each recall then.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from ldm import records
from ldm.memory.growing import GrowingMemory
from ldm.types import Trajectory

ENV, STEPS, LAST = "desk", 10, 1_000
VOCABULARY = [f"word{number}" for number in range(2_000)]


class Hashing:
    """An embedder whose vectors are drawn by a hash of each word: as many numbers, no model."""

    name, dimension = "hashing", 384

    def __init__(self) -> None:
        self._words: dict[str, np.ndarray] = {}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = [sum((self._word(word) for word in text.split()), self._word("")) for text in texts]
        matrix = np.array(rows, np.float32).reshape(-1, self.dimension)
        return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)

    def _word(self, word: str) -> np.ndarray:
        if word not in self._words:
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
            drawn = np.random.default_rng(seed).standard_normal(self.dimension, np.float32)
            self._words[word] = drawn
        return self._words[word]


def words(draw: random.Random, count: int) -> str:
    """Return random words."""
    return " ".join(draw.choices(VOCABULARY, k=count))


def timed(call: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the milliseconds that a call takes."""
    started = clock()
    call()
    return (clock() - started) * 1e3


def resident(part: str = "VmRSS") -> float:
    """Return the MiB that this process occupies, or a part: "RssFile" is that of mapped files."""
    line = re.search(rf"{part}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(line[1]) / 1024 if line else 0.0


def random_episodes(tuples: int) -> Iterator[tuple[str, str, float, list[tuple[str, str]]]]:
    """Yield (goal, kind, score, steps) without an end."""
    draw = random.Random(tuples)
    goals = [words(draw, 8) for _ in range(max(1, tuples // 100))]
    for number in count():
        steps = [(words(draw, 12), words(draw, 2)) for _ in range(STEPS)]
        yield draw.choice(goals), f"kind{number % 6}", float(number % 4 != 0), steps


def recorded_episodes(path: Path) -> Iterator[tuple[str, str, float, list[tuple[str, str]]]]:
    """Yield (goal, kind, score, steps) of the trajectories in a file, again and again."""
    while True:  # read again each time, as episodes that are kept would count as the memory's
        for one in records.scan(path, Trajectory):
            if not isinstance(one, Trajectory):
                sys.exit(str(one))
            steps = [(seen, step.action) for seen, step in one.moves()]
            yield one.task.goal, one.task.kind, one.score, steps


def measure(
    tuples: int, place: str, clock: Callable[[], float], episodes: Path | None
) -> dict[str, float]:
    """Record episodes until the memory holds so many tuples; return what the last ones took."""
    memory = GrowingMemory.open(place, ENV, create=True, embedder=Hashing())
    adding, recalling, ending = [], [], []
    source = recorded_episodes(episodes) if episodes else random_episodes(tuples)
    started = clock()
    while len(adding) < tuples:
        goal, kind, score, steps = next(source)
        episode = memory.begin(goal, kind=kind)
        for number, (seen, done) in enumerate(steps):
            past = steps[:number] if episodes else ()
            recall = partial(memory.recall, goal, seen, history=past)
            recalling.append(timed(recall, clock))
            adding.append(timed(partial(episode.step, seen, done), clock))
        ending.append(timed(partial(episode.finish, score), clock))
    seconds = clock() - started
    for process in memory._folding.values():
        process.kill()
        process.wait()
    part = slice(-LAST, None)
    log = memory._log.path.stat().st_size
    disk = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())
    return {
        "tuples": len(adding),
        "step p50 (ms)": np.percentile(adding[part], 50),
        "step p99 (ms)": np.percentile(adding[part], 99),
        "end p50 (ms)": np.percentile(ending[-LAST // STEPS :], 50),
        "end p99 (ms)": np.percentile(ending[-LAST // STEPS :], 99),
        "recall p50 (ms)": np.percentile(recalling[part], 50),
        "recall p99 (ms)": np.percentile(recalling[part], 99),
        "resident (MiB)": resident(),
        "of it files (MiB)": resident("RssFile"),
        "ms a step, all": seconds * 1e3 / tuples,
        "log (MB)": log / 1e6,
        "disk (MB)": disk / 1e6,
        "generations": memory.newest.generation + 1 if memory.newest else 0,
    }


def main() -> None:
    """Measure each size in a process of its own; print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--processor", action="store_true", help="time of the processor")
    parser.add_argument("--episodes", type=Path, help="a file of trajectories")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        with tempfile.TemporaryDirectory() as folder:
            clock = time.thread_time if arguments.processor else time.perf_counter
            numbers = measure(arguments.measure, f"{folder}/memory", clock, arguments.episodes)
        print(json.dumps({name: round(float(value), 2) for name, value in numbers.items()}))
        return
    for size in arguments.sizes:
        command = [sys.executable, __file__, "--measure", str(size)]
        command += ["--processor"] * arguments.processor
        command += ["--episodes", str(arguments.episodes)] if arguments.episodes else []
        subprocess.run(command, check=True)  # noqa: S603 - this file


if __name__ == "__main__":
    main()
