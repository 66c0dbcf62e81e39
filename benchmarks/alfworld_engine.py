"""Compare the speed of ALFWorld's fast and official engines on the same games and commands.

    python benchmarks/alfworld_engine.py ../shared/data/alfworld [--games 20] [--steps 20]

Prints the median milliseconds for loading with the first reset, for another reset and for a step,
their ratios, the microseconds of a fork and the bytes of a live game.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import tracemalloc
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.worlds.alfworld.feedback import FastEngine
from ldm.worlds.alfworld.games import Game, data_root, scan_split
from tools.alfworld.official_engine import OfficialEngine

Times = dict[str, list[float]]


def walk(game: Game, steps: int, seed: int) -> list[str]:
    """Return the commands of a random walk, generated with the fast engine."""
    rng = random.Random(seed)
    engine = FastEngine()
    now = engine.start(game)
    commands = []
    for _ in range(steps):
        commands.append(rng.choice(now.commands))
        now = engine.step(commands[-1])
    return commands


def play(
    engine: FastEngine | OfficialEngine, game: Game, commands: list[str], times: Times
) -> None:
    """Load, reset and step once; add the seconds of each to `times`."""

    def record(name: str, start: float) -> None:
        times.setdefault(name, []).append(time.perf_counter() - start)

    for name in ("load and reset", "reset"):
        start = time.perf_counter()
        engine.start(game)
        record(name, start)
    for command in commands:
        start = time.perf_counter()
        engine.step(command)
        record("step", start)


def fork_seconds(game: Game, count: int = 10_000) -> float:
    """Return the seconds that one fork takes."""
    engine = FastEngine()
    engine.start(game)
    start = time.perf_counter()
    for _ in range(count):
        engine.fork()
    return (time.perf_counter() - start) / count


def live_bytes(games: list[Game]) -> tuple[float, float]:
    """Return the bytes of a started game, and of a fork that is one step further."""
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
    """Play the games alternately in both engines and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, help="the folder with json_2.1.1")
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    entries = scan_split(data_root(arguments.data), "valid_seen")
    games = [entry for entry in entries if isinstance(entry, Game)]
    games = games[:: max(1, len(games) // arguments.games)][: arguments.games]
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
