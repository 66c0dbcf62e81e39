"""Evaluate the same tasks with one, two and four workers and on a local Ray, and compare all steps.

    python benchmarks/workers.py --memory .ldm/memory --episodes 140

Every way is a command of its own, started anew; the last one is a Ray cluster of two nodes on this
machine, of which one is killed when a third of the tasks are recorded. What they record has to be
the same, times aside: episodes.jsonl but for the seconds, trajectories.jsonl byte for byte. Prints
the wall time of each, and the seconds that its episodes took together; exits with status 1 where
records differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.integration.ray_nodes import Nodes, two_nodes

WAYS = {
    "1 worker": ("--workers", "1"),
    "2 workers": ("--workers", "2"),
    "4 workers": ("--workers", "4"),
    "Ray, 1 worker": ("--workers", "1", "--backend", "ray"),
    "Ray, 2 workers": ("--workers", "2", "--backend", "ray"),
}
KILLED = "Ray, 2 nodes, 1 killed"


@dataclass(frozen=True)
class Outcome:
    """What a way recorded, and how long it took. playing: the seconds of all its episodes."""

    wall: float
    playing: float
    episodes: tuple[str, ...]
    trajectories: bytes


def played(place: Path, options: Sequence[str], tasks: int, nodes: Nodes | None = None) -> Outcome:
    """Evaluate below `place`; return what was recorded. nodes: where, one of them being killed."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "ldm", "eval", *options, "--runs", str(place)]
    env = {**nodes.environment, "RAY_ADDRESS": nodes.address} if nodes else None
    process = subprocess.Popen(  # noqa: S603 - ldm itself
        command, stdout=subprocess.DEVNULL, env=env
    )
    if nodes:
        while process.poll() is None and recorded(place) < tasks / 3:
            time.sleep(0.02)
        print(f"a node is killed after {recorded(place)} episodes")
        nodes.kill_one()
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed")
    wall = time.perf_counter() - started
    (run,) = (path.parent for path in place.glob("*/run.json"))
    episodes = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    playing = sum(episode.pop("seconds") for episode in episodes)
    lines = tuple(json.dumps(episode, sort_keys=True) for episode in episodes)
    return Outcome(wall, playing, lines, (run / "trajectories.jsonl").read_bytes())


def recorded(place: Path) -> int:
    """Return how many episodes are recorded and not merged yet."""
    return sum(part.read_bytes().count(b"\n") for part in place.glob("*/parts/*.jsonl"))


def main() -> int:
    """Play, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="alfworld")
    parser.add_argument("--split", default="demo_test")
    parser.add_argument("--memory", default=".ldm/memory")
    parser.add_argument("--episodes", type=int, default=140)
    arguments = parser.parse_args()
    options = [
        *("--env", arguments.env, "--split", arguments.split),
        *("--memory", arguments.memory, "--limit", str(arguments.episodes)),
    ]
    first: Outcome | None = None
    same = True
    with tempfile.TemporaryDirectory() as folder:
        for number, (way, more) in enumerate([*WAYS.items(), (KILLED, ())]):
            load = os.getloadavg()[0]
            place = Path(folder) / str(number)
            if way == KILLED:
                with two_nodes(Path.home()) as nodes:
                    where = ("--backend", "ray")
                    outcome = played(place, [*options, *where], arguments.episodes, nodes)
            else:
                outcome = played(place, [*options, *more], arguments.episodes)
            first = first or outcome
            equal = (outcome.episodes, outcome.trajectories) == (first.episodes, first.trajectories)
            same = same and equal
            print(
                f"{way:22} {len(outcome.episodes):4} episodes {outcome.wall:6.1f} s wall, "
                f"{outcome.playing:6.1f} s playing, load {load:4.1f} before: "
                f"{'the same' if equal else 'NOT the same'}",
                flush=True,
            )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
