"""Compare the time of a retrieval, with the query embedded already, to that of embedding it.

    python benchmarks/retrieval.py --memory .ldm/memory --env alfworld

Samples states from the memory itself, embeds them once, then times `Memory.retrieve` alone (the
embedder caches every text) and, for comparison, embedding one new text. Prints medians and 95th
percentiles in milliseconds, and the ratio.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np

from ldm.embed import load_embedder
from ldm.memory import Memory


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", default=".ldm/memory")
    parser.add_argument("--env", default="alfworld")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--k", type=int, nargs="+", default=[5, 60])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    embedder = load_embedder()
    started = time.perf_counter()
    memory = Memory.open(arguments.memory, arguments.env, embedder=embedder)
    print(f"open: {time.perf_counter() - started:.1f} s for {len(memory)} tuples")
    rows = random.Random(arguments.seed).sample(memory.rows, min(arguments.queries, len(memory)))
    states = [(row.tuple.goal, row.tuple.observation) for row in rows]
    embedder.embed([text for state in states for text in state])
    memory.retrieve(*states[0], 5)  # builds the snapshot's index

    embedding = []
    for number in range(50):
        started = time.perf_counter()
        embedder.embed([f"{states[number % len(states)][1]} {number}"])
        embedding.append(time.perf_counter() - started)
    report("embed one new text", embedding)
    for k in arguments.k:
        seconds = []
        for goal, observation in states:
            started = time.perf_counter()
            memory.retrieve(goal, observation, k)
            seconds.append(time.perf_counter() - started)
        report(f"retrieve k={k}", seconds)
        ratio = np.median(embedding) / np.median(seconds)
        print(f"  embedding takes {ratio:.1f} times as long")


def report(what: str, seconds: list[float]) -> None:
    """Print the median and 95th percentile of `seconds` in milliseconds."""
    median, high = np.percentile(seconds, [50, 95]) * 1000
    print(f"{what}: median {median:.2f} ms, 95th percentile {high:.2f} ms")


if __name__ == "__main__":
    main()
