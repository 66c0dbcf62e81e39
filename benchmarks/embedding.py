"""Measure the time of embedding: one text alone, chunks of 256, and vectors read from disk.

    python benchmarks/embedding.py [DATA …] --texts 512 --rounds 3

DATA are trajectory files as `ldm import` reads them, by default the shipped expert episodes; their
distinct goals and observations are drawn by --seed. All embedders take turns, so that other work
on the machine slows all of them down. Prints milliseconds a text, the medians of the rounds: wall
time, and the processor's, which other work changes less. OMP_NUM_THREADS=1 measures a worker's
time. Then texts of 10 to 200 words, drawn from those, in numpy and in torch, as before. The last
rows are the time of a new process to its first vector. With --memory, what a memory recalls for
--queries states of the trajectories is compared: their vectors computed in numpy, and in torch.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ldm.embed import DEFAULT, Embedder, bundled_model, load_embedder, with_disk_cache
from ldm.embed.caching import CachingEmbedder
from ldm.embed.minilm import EPSILON, HEADS, WIDTH, MiniLM
from ldm.embed.sentence import load
from ldm.memory import Memory, environments, inspect
from ldm.run.building import read_trajectories

#: Wall and processor time.
Seconds = tuple[float, float]
CHUNK = 256
LIBRARY = "sentence-transformers, batches padded"
PROGRAM = "from ldm.embed import load_embedder; load_embedder({!r}).embed(['a'])"
LIBRARY_PROGRAM = (
    "from ldm.embed.sentence import load; from ldm.embed import bundled_model;"
    " load(str(bundled_model())).encode(['a'])"
)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", help="compare recalls from this memory, and do nothing else")
    parser.add_argument("--queries", type=int, default=2_000)
    arguments = parser.parse_args()
    if arguments.memory:
        recalls_agree(arguments)
        return
    import torch

    drawn = texts_of(arguments.data, 2 * arguments.rounds * arguments.texts, arguments.seed)
    print(f"{len(drawn)} texts, median {statistics.median(map(len, drawn)):.0f} characters")
    print(f"torch has {torch.get_num_threads()} threads\n")
    agreement(drawn)
    print("| ms a text, wall (processor) | alone | in chunks of 256 |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (alone, chunks) in measured(drawn, arguments, Path(folder)).items():
            print(f"| {name} | {alone} | {chunks} |")
    by_length(drawn, arguments.seed)
    print("\n| a new process to its first vector | s, wall (processor) |\n|---|---|")
    programs = {LIBRARY: LIBRARY_PROGRAM}
    programs[DEFAULT] = PROGRAM.format(DEFAULT)
    for name, program in programs.items():
        print(f"| {name} | {median([started(program) for _ in range(3)])} |")


def texts_of(data: Sequence[Path], count: int, seed: int) -> list[str]:
    """Return up to `count` distinct goals and observations, in random order."""
    texts = set()
    for trajectory in read_trajectories(data or None):
        texts |= {trajectory.task.goal, *(step.observation for step in trajectory.steps)}
    pool = sorted(texts)
    return random.Random(seed).sample(pool, min(count, len(pool)))


def agreement(texts: Sequence[str]) -> None:
    """Print how near our default model is to the library's."""
    few = texts[:500]
    ours = load_embedder().embed(few)
    theirs = library().embed(few)
    cosines = (ours * theirs).sum(axis=1)
    print(f"ours and the library's: cosine at least {cosines.min():.7f} on {len(few)} texts\n")


class Torch(MiniLM):
    """The default model as ldm computed it until numpy took the place of torch."""

    def _forward(self, batch: Sequence[Sequence[int]]) -> np.ndarray:
        import torch
        from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

        def product(state: Any, parameters: Any) -> Any:
            return torch.addmm(parameters[1], state, parameters[0])

        def norm(state: Any, parameters: Any) -> Any:
            return layer_norm(state, (WIDTH,), parameters[0], parameters[1], EPSILON)

        def attended(projected: Any) -> Any:
            heads = projected.view(1, len(projected), 3, HEADS, WIDTH // HEADS)
            heads_out = scaled_dot_product_attention(*heads.permute(2, 0, 3, 1, 4))
            return heads_out[0].transpose(0, 1).reshape(len(projected), WIDTH)

        words, positions, first, layers = self._in_torch
        with torch.inference_mode():
            states = [
                norm(words[torch.tensor(ids)] + positions[: len(ids)], first) for ids in batch
            ]
            for attention, output, output_norm, up, down, down_norm in layers:
                contexts = [
                    product(attended(product(state, attention)), output) for state in states
                ]
                states = [norm(s + c, output_norm) for s, c in zip(states, contexts, strict=True)]
                wide = [product(gelu(product(state, up)), down) for state in states]
                states = [norm(s + c, down_norm) for s, c in zip(states, wide, strict=True)]
            vectors: np.ndarray = torch.stack([state.mean(0) for state in states]).numpy()
            return vectors

    @cached_property
    def _in_torch(self) -> Any:
        import torch

        def pair(parameters: Any) -> Any:
            return tuple(map(torch.from_numpy, parameters))

        layers = [tuple(map(pair, layer)) for layer in self._layers]
        words, positions = pair((self._words, self._positions))
        return words, positions, pair(self._norm), layers


def in_torch() -> Embedder:
    """Return the default embedder, computed in torch."""
    folder = bundled_model()
    assert folder is not None  # noqa: S101 - it is installed where this is run
    return CachingEmbedder(Torch(DEFAULT, folder))


def by_length(texts: Sequence[str], seed: int) -> None:
    """Print the milliseconds a text of so many words takes, and how far the vectors are apart."""
    draw, words = random.Random(seed), [word for text in texts for word in text.split()]
    print("\n| words a text | numpy | torch, as before | largest difference |\n|---|---|---|---|")
    for count in (10, 20, 50, 100, 200):
        drawn = [" ".join(draw.choices(words, k=count)) for _ in range(200)]
        groups = [drawn[start : start + 32] for start in range(0, len(drawn), 32)]
        one, other = load_embedder(), in_torch()
        for embedder in (one, other):
            embedder.embed(["the first text pays for what is loaded late"])
        took = [timed(embedder, groups) for embedder in (one, other)]
        apart = np.abs(one.embed(drawn) - other.embed(drawn)).max()
        cells = " | ".join(median([seconds], 1000 / len(drawn)) for seconds in took)
        print(f"| {count} | {cells} | {apart:.1e} |", flush=True)


def recalls_agree(arguments: argparse.Namespace) -> None:
    """Print for how many states a memory recalls the same, asked in numpy and in torch."""
    [env] = environments(arguments.memory)
    states = sorted(
        {
            (trajectory.task.goal, observation)
            for trajectory in read_trajectories(arguments.data or None)
            for observation, _ in trajectory.moves()
        }
    )
    drawn = random.Random(arguments.seed).sample(states, min(arguments.queries, len(states)))
    contents = inspect(arguments.memory, env)
    memories = [Memory(contents, embedder) for embedder in (load_embedder(), in_torch())]
    same, ids, apart = 0, 0, 0.0
    for goal, observation in drawn:
        one, other = (memory.retrieve(goal, observation, 5) for memory in memories)
        same += one == other
        ids += [recall.id for recall in one] == [recall.id for recall in other]
        pairs = zip(one, other, strict=True)
        apart = max([apart, *(abs(a.similarity - b.similarity) for a, b in pairs)])
    print(f"{len(drawn)} states of {env}: the same tuples in the same order for {ids}, with the")
    print(f"same similarities for {same}; similarities differ by at most {apart:.6f}")


def measured(
    texts: Sequence[str], arguments: argparse.Namespace, folder: Path
) -> dict[str, tuple[str, str]]:
    """Return the milliseconds a text of every embedder, alone and in chunks."""
    with_disk_cache(load_embedder(), folder).embed(texts)
    makers: dict[str, Callable[[], Embedder]] = {
        LIBRARY: library,
        DEFAULT: load_embedder,
        f"{DEFAULT} in torch, as before": in_torch,
        f"{DEFAULT}, vectors on disk": lambda: with_disk_cache(load_embedder(), folder),
    }
    times: dict[str, tuple[list[Seconds], list[Seconds]]] = {name: ([], []) for name in makers}
    embedders = {name: make() for name, make in makers.items()}
    for embedder in embedders.values():
        embedder.embed(["the first text pays for what is loaded late"])
    size = len(texts) // (2 * arguments.rounds)
    for number in range(arguments.rounds):
        one, other = (texts[(2 * number + i) * size :][:size] for i in range(2))
        for name, embedder in embedders.items():
            parts = [sorted(other)[i : i + CHUNK] for i in range(0, size, CHUNK)]
            alone, chunks = times[name]
            alone.append(timed(embedder, [[text] for text in one]))
            chunks.append(timed(embedder, parts))
    scale = 1000 / size
    return {name: (median(a, scale), median(c, scale)) for name, (a, c) in times.items()}


class Library:
    """sentence-transformers as ldm 0.1 called it."""

    name = LIBRARY

    def __init__(self) -> None:
        self._model = load(str(bundled_model()))
        self.dimension = int(self._model.get_embedding_dimension())

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors, of texts padded to the longest of their batch."""
        vectors: np.ndarray = self._model.encode(
            list(texts), batch_size=64, normalize_embeddings=True, show_progress_bar=False
        )
        return vectors


def library() -> Embedder:
    """Return the embedder to compare with."""
    return Library()


def timed(embedder: Embedder, groups: Sequence[Sequence[str]]) -> Seconds:
    """Return how long it takes to embed one group after the other."""
    wall, busy = time.perf_counter(), time.process_time()
    for group in groups:
        embedder.embed(group)
    return time.perf_counter() - wall, time.process_time() - busy


def started(program: str) -> Seconds:
    """Return how long a new process takes for `program`."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)  # noqa: S603
    took, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def median(times: Sequence[Seconds], scale: float = 1.0) -> str:
    """Return the medians of wall and processor time."""
    wall, busy = (scale * statistics.median(one) for one in zip(*times, strict=True))
    return f"{wall:.2f} ({busy:.2f})"


if __name__ == "__main__":
    main()
