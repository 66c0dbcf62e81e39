"""The fast ALFWorld engine against the official one: same games, same commands, one process.

    python benchmarks/alfworld_engine.py ../shared/data/alfworld [--games 20] [--steps 20]

Prints medians of milliseconds for loading with the first reset, for another reset and for a step,
their ratios, the microseconds of a fork and the bytes of a live game. Needs ldm-memory[alfworld].
"""

from __future__ import annotations

import argparse
import random
import time
import tracemalloc
from pathlib import Path
from statistics import median

from ldm.envs.alfworld.engine import Engine
from ldm.envs.alfworld.fast import FastEngine
from ldm.envs.alfworld.games import Game, data_root, scan_split
from ldm.envs.alfworld.official import OfficialEngine

Times = dict[str, list[float]]


def walk(game: Game, steps: int, seed: int) -> list[str]:
    """Admissible commands to give, found with the fast engine."""
    rng = random.Random(seed)
    engine = FastEngine()
    now = engine.start(game)
    commands = []
    for _ in range(steps):
        commands.append(rng.choice(now.commands))
        now = engine.step(commands[-1])
    return commands


def play(engine: Engine, game: Game, commands: list[str], times: Times) -> None:
    """Load, reset and step once; the seconds of each are added to `times`."""

    def timed(name: str, began: float) -> None:
        times.setdefault(name, []).append(time.perf_counter() - began)

    for name in ("load and reset", "reset"):
        began = time.perf_counter()
        engine.start(game)
        timed(name, began)
    for command in commands:
        began = time.perf_counter()
        engine.step(command)
        timed("step", began)


def fork_seconds(game: Game, count: int = 10_000) -> float:
    """Seconds of one fork."""
    engine = FastEngine()
    engine.start(game)
    began = time.perf_counter()
    for _ in range(count):
        engine.fork()
    return (time.perf_counter() - began) / count


def live_bytes(games: list[Game]) -> tuple[float, float]:
    """Bytes of a started game, and of a fork of it that went one step on."""
    tracemalloc.start()
    engines = [FastEngine() for _ in games]
    for engine, game in zip(engines, games, strict=True):
        engine.start(game)
    started = tracemalloc.get_traced_memory()[0]
    twins = [engine.fork() for engine in engines]
    for twin in twins:
        twin.step(next(c for c in twin.step("look").commands if c.startswith("go to ")))
    forked = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return started / len(games), (forked - started) / len(games)


def main() -> None:
    """Play the games in turns in both engines and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, help="the folder with json_2.1.1")
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    found = [g for g in scan_split(data_root(arguments.data), "valid_seen") if isinstance(g, Game)]
    games = found[:: max(1, len(found) // arguments.games)][: arguments.games]
    fast: Times = {}
    official: Times = {}
    slow_engine = OfficialEngine()
    for number, game in enumerate(games):
        commands = walk(game, arguments.steps, number)
        play(slow_engine, game, commands, official)
        play(FastEngine(), game, commands, fast)
    print(f"{len(games)} games, {arguments.steps} steps each")
    print(f"{'':16}{'official ms':>12}{'fast ms':>10}{'ratio':>8}")
    for name, values in fast.items():
        slow, quick = 1000 * median(official[name]), 1000 * median(values)
        print(f"{name:16}{slow:12.1f}{quick:10.3f}{slow / quick:8.0f}")
    started, forked = live_bytes(games)
    print(f"fork {1e6 * fork_seconds(games[0]):.1f} µs")
    print(f"memory of a live game {started / 1024:.0f} KiB, of a fork {forked / 1024:.1f} KiB")


if __name__ == "__main__":
    main()
