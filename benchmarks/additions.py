"""Add episodes to a memory one by one: a generation each, as before, and to its log.

    python benchmarks/additions.py --tuples 20000 --count 60

The episodes are random words in as many steps and as long as those of ALFWorld, the vectors those
of an embedder that costs nothing, so that what is measured is the adding itself; what embedding
costs is the same in both ways, see benchmarks/embedding.py. Each way starts with a copy of the same
memory. The way before takes long: `--before` says how many are added so.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ldm.memory import FormationOptions, build, generations, inspect
from ldm.memory.growing import GrowingMemory
from ldm.reason.offline import OfflineReasoner
from ldm.types import Step, Task, Trajectory

ENV, STEPS, WORDS = "desk", 16, 12
VOCABULARY = [f"word{number}" for number in range(2_000)]


class Hashing:
    """An embedder whose vectors are drawn by a hash of the text: as many numbers, no model."""

    name, dimension = "hashing", 384

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = [self._vector(text) for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.dimension), np.float32)

    def _vector(self, text: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).standard_normal(self.dimension, np.float32)
        return vector / np.linalg.norm(vector)


def episode(number: int) -> Trajectory:
    """Return an episode of random words; of every four, one failed."""
    draw = random.Random(number)

    def text(words: int = WORDS) -> str:
        return " ".join(draw.choices(VOCABULARY, k=words))

    score = float(number % 4 != 0)
    task = Task(f"task/{number}", ENV, "train", text(8), f"kind{number % 6}")
    steps = tuple(Step(text(3), text()) for _ in range(STEPS))
    return Trajectory(task, text(), steps, score, score >= 1, "agent")


def timed(call: Callable[..., object], *arguments: object) -> tuple[float, float]:
    """Return the seconds that a call takes, by the wall and of the processor in this thread."""
    wall, processor = time.perf_counter(), time.thread_time()
    call(*arguments)
    return time.perf_counter() - wall, time.thread_time() - processor


def report(name: str, seconds: Sequence[tuple[float, float]], place: Path) -> None:
    """Print what adding took, and what it left."""
    wall, processor = zip(*seconds, strict=True)
    contents = inspect(str(place), ENV)
    print(
        f"{name}: {len(seconds)} additions; s each, wall: median {statistics.median(wall):.3f}, "
        f"longest {max(wall):.3f}; processor: median {statistics.median(processor):.3f}, "
        f"longest {max(processor):.3f}; "
        f"{len(generations(str(place), ENV))} generations, {len(contents.batches)} batches",
        flush=True,
    )


def main() -> None:
    """Build one memory, add to copies of it in both ways, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuples", type=int, default=20_000)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--before", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between additions")
    arguments = parser.parse_args()
    first = arguments.tuples // STEPS
    options = FormationOptions(50, failures="contrast")
    with tempfile.TemporaryDirectory() as folder:
        base, one_by_one, growing = (Path(folder, name) for name in ("base", "before", "now"))
        episodes = [episode(number) for number in range(first)]
        made = build(str(base), episodes, Hashing(), OfflineReasoner, options=options)
        print(f"{made.generation.tuples} tuples in {len(made.batches)} batches", flush=True)
        for place in (one_by_one, growing):
            shutil.copytree(base, place)
        new = [episode(number) for number in range(first, first + arguments.count)]

        def one(trajectory: Trajectory) -> None:
            build(str(one_by_one), [trajectory], Hashing(), OfflineReasoner, options=options)

        seconds = [timed(one, t) for t in new[: arguments.before]]
        report("a generation each", seconds, one_by_one)
        opened = time.perf_counter()
        memory = GrowingMemory.open(
            str(growing), ENV, embedder=Hashing(), batch_size=arguments.batch_size
        )
        print(f"opened in {time.perf_counter() - opened:.3f} s")
        added = []
        for trajectory in new:
            added.append(timed(memory.add, trajectory))
            time.sleep(arguments.pause)
        goal, observation = new[-1].task.goal, new[-1].opening
        memory.recall(goal, observation)
        recalled = [timed(memory.recall, t.task.goal, t.opening) for t in new]
        memory.close()
        report("to the log", added, growing)
        wall = [seconds for seconds, _ in recalled]
        print(f"a recall: median {statistics.median(wall):.4f} s, longest {max(wall):.4f} s")
        print(f"{memory.pending} wait for a batch; folding them: {timed(memory.fold)[0]:.2f} s")


if __name__ == "__main__":
    main()
