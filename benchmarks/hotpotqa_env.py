"""Measure HotpotQA: recorded official steps by kind, random actions, forks, steps, hash seeds.

python benchmarks/hotpotqa_env.py ../shared/specs/hotpotqa/golden ../shared/data/hotpotqa
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.worlds.hotpotqa import HotpotQA, HotpotQAOptions
from tools.hotpotqa.goldens import compare

SPLITS = ("demo_test", "dev_hard")
HASH_SEEDS = ("0", "1", "12345")
RANDOM_ACTIONS = 10_000
ROUNDS = 5


def main() -> None:
    """Print all figures; exit with 1 if a recorded step or a hash seed gives something else."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("golden", type=Path, help="folder of the golden outputs")
    parser.add_argument("data", type=Path, help="folder of the official questions")
    parser.add_argument("--walk", action="store_true", help="the part that runs under a hash seed")
    arguments = parser.parse_args()
    env = HotpotQA(HotpotQAOptions(data=str(arguments.data)))
    if arguments.walk:
        print(walk(env)[0])
        return
    counts = Counter((one.kind, one.category) for one in compare(arguments.golden))
    print("| kind of episode | equal | finish | backslash | different |\n|---|---|---|---|---|")
    categories = ("equal", "finish", "backslash", "different")
    for kind in [*sorted({kind for kind, _ in counts}), "all"]:
        row = [
            sum(n for (k, c), n in counts.items() if c == category and kind in (k, "all"))
            for category in categories
        ]
        print(f"| {kind} | {' | '.join(map(str, row))} |")
    digest, seconds = walk(env)
    digests = {digest, *(walked(arguments, seed) for seed in HASH_SEEDS)}
    print(f"\n{RANDOM_ACTIONS:,} random actions: no error; digest {digest}, the same under "
          f"PYTHONHASHSEED {', '.join(HASH_SEEDS)}: {len(digests) == 1}")  # fmt: skip
    print(f"a step {1e6 * seconds:.1f} µs, a fork {1e6 * fork_time(env):.2f} µs (medians)")
    different = sum(n for (_, category), n in counts.items() if category == "different")
    sys.exit(bool(different or len(digests) > 1))


def walk(env: HotpotQA) -> tuple[str, float]:
    """Return a digest of RANDOM_ACTIONS answers, and the median time of a step in seconds."""
    rng, digest, times = random.Random(7), hashlib.sha256(), []
    tasks = [task for split in SPLITS for task in env.tasks(split)]
    collections = [env._open(split).collection for split in SPLITS]
    titles = [one[place][0] for one in collections for place in range(len(one))]
    words = ["the", "born", "in", "", "[", "Who?", "\\", "\n", "é", "&", "may refer to:"]
    digest.update(json.dumps(env.protocol()).encode())
    env.reset(tasks[0])
    for number in range(RANDOM_ACTIONS):
        verb = rng.choices(("search", "lookup", "think", "finish", "go"), (50, 35, 5, 5, 5))[0]
        pieces = titles if rng.random() < 0.5 else words
        action = f"{verb}[{' '.join(rng.choices(pieces, k=rng.choice((1, 1, 1, 2, 3))))}]"
        start = time.perf_counter()
        step = env.step(action)
        times.append(time.perf_counter() - start)
        digest.update(repr(step).encode("utf-8", "surrogatepass"))
        if step.done:
            env.reset(tasks[number % len(tasks)])
    return digest.hexdigest()[:16], median(times)


def walked(arguments: argparse.Namespace, seed: str) -> str:
    """Return the digest of the same walk in a process with another hash seed."""
    command = [sys.executable, __file__, str(arguments.golden), str(arguments.data), "--walk"]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()


def fork_time(env: HotpotQA) -> float:
    """Return the time of a fork in seconds, the median of several rounds."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(1_000):
            env.fork()
        rounds.append((time.perf_counter() - start) / 1_000)
    return median(rounds)


if __name__ == "__main__":
    main()
