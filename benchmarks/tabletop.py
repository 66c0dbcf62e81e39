"""Measure the tabletop: the expert by kind and controller, accuracy, replays, forks, steps.

python benchmarks/tabletop.py
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.types import Trajectory
from ldm.worlds.tabletop import Tabletop, TabletopOptions
from ldm.worlds.tabletop.actions import Move, normal
from ldm.worlds.tabletop.environment import game
from ldm.worlds.tabletop.kinds import KINDS
from ldm.worlds.tabletop.physics import version
from tools.tabletop.expert import attempt

HASH_SEEDS = ("0", "1", "12345")
ROUNDS = 5


def main() -> None:
    """Print all figures; exit with 1 if exact episodes fail or anything is played differently."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--numbers", type=int, default=100, help="scenes of each kind")
    parser.add_argument("--times", action="store_true", help="only the times")
    parser.add_argument("--digest", action="store_true", help="the part under a hash seed")
    arguments = parser.parse_args()
    if arguments.digest:
        print(digest(arguments.numbers))
        return
    if arguments.times:
        times()
        return
    print(f"MuJoCo {version()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    solved = {}
    for controller in ("exact", "noisy"):
        print(
            f"\n| {controller} | solved | score | moves | off at most, mm |\n|---|---|---|---|---|"
        )
        env = Tabletop(TabletopOptions(controller=controller))
        played = {kind: episodes(env, kind, arguments.numbers) for kind in KINDS}
        solved[controller] = sum(one.success for of in played.values() for one in of)
        for kind, of in played.items():
            off = (
                f"{1000 * max(deviation(env, one) for one in of):.2f}" if env_is_exact(env) else ""
            )
            print(f"| {kind} | {sum(one.success for one in of)} of {len(of)} | "
                  f"{mean(one.score for one in of):.3f} | {mean(len(one.steps) for one in of):.1f} "
                  f"| {off} |")  # fmt: skip
    digests = {digested(seed) for seed in HASH_SEEDS}
    print(f"\nstates and texts under PYTHONHASHSEED {', '.join(HASH_SEEDS)}: "
          f"{'the same bytes' if len(digests) == 1 else 'different'}, {digests.pop()}")  # fmt: skip
    times()
    sys.exit(solved["exact"] < arguments.numbers * len(KINDS) or bool(digests))


def episodes(env: Tabletop, kind: str, numbers: int) -> list[Trajectory]:
    """Return the expert's episodes of the first scenes of a kind."""
    return [attempt(env, game("train", kind, number).task) for number in range(numbers)]


def env_is_exact(env: Tabletop) -> bool:
    """Return whether the hand goes where it aims."""
    return env.options.controller == "exact"


def deviation(env: Tabletop, episode: Trajectory) -> float:
    """Replay an episode; return how far a thing came to rest from where the hand let it go.

    Exit if an answer differs.
    """
    one = game("train", episode.task.kind, int(episode.task.source.partition(":")[2]))
    answers, worst = [env.reset(episode.task).observation], 0.0
    for step in episode.steps:
        move = one.kind.understand(normal(step.action), one.scene, env.poses)
        answers.append(env.step(step.action).observation)
        if isinstance(move, Move):
            worst = max(worst, env.poses[move.thing].distance(move.target))
    if answers != [episode.opening, *(step.observation for step in episode.steps)]:
        sys.exit(f"A replay of {episode.task.id} differs.")
    return worst


def digest(numbers: int) -> str:
    """Return a digest of all texts and states of some noisy episodes."""
    env, hasher = Tabletop(TabletopOptions(controller="noisy")), hashlib.sha256()
    for kind in KINDS:
        for episode in episodes(env, kind, numbers):
            hasher.update(repr(episode).encode())
            hasher.update(repr(env.poses).encode())
    return hasher.hexdigest()[:16]


def digested(seed: str) -> str:
    """Return the digest in a process with another hash seed."""
    command = [sys.executable, __file__, "--digest", "--numbers", "10"]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()


def times() -> None:
    """Print the median CPU times of a reset, a step by kind, and a fork: others may be at work."""
    env, resets = Tabletop(), []
    for kind in KINDS:
        steps = []
        for number in range(20):
            episode = attempt(env, game("train", kind, number).task)
            start = time.process_time()
            env.reset(episode.task)
            clock = [time.process_time()]
            resets.append(clock[0] - start)
            for step in episode.steps:
                env.step(step.action)
                clock.append(time.process_time())
            steps += [after - before for before, after in pairwise(clock)]
        print(
            f"a step of {kind}: {1e3 * median(steps):.1f} ms of CPU time (median of {len(steps)})"
        )
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(10_000):
            env.fork()
        rounds.append((time.process_time() - start) / 10_000)
    reset, fork = 1e3 * median(resets), 1e6 * median(rounds)
    print(f"a reset {reset:.1f} ms, a fork {fork:.2f} µs (medians of CPU time)")


if __name__ == "__main__":
    main()
