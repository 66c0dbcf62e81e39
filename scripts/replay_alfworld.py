"""Replay recorded expert episodes in an engine, and start every game; print the figures.

    python scripts/replay_alfworld.py ../shared/data/alfworld [--engine official] [--games]

Exit status 1 if any observation or end differs, or any game does not start.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.envs import formats
from ldm.errors import LdmError
from ldm.types import Task, Trajectory
from ldm.worlds.alfworld import ALFWorld, ALFWorldOptions
from tools.alfworld.replay import replay_official_games, world


def episodes(file: Path) -> list[Trajectory]:
    """Return the episodes of a file; exit if one is invalid."""
    trajectories = []
    for one in formats.read(file, "alfworld-conversations"):
        if not isinstance(one, Trajectory):
            sys.exit(str(one))
        trajectories.append(one)
    return trajectories


def start_some(options: ALFWorldOptions, tasks: Sequence[Task], official: bool) -> list[str]:
    """Return what went wrong when starting one worker's share of the games."""
    env = world(options, official=official)
    failures = []
    for task in tasks:
        try:
            opening = env.reset(task).observation
        except LdmError as error:
            failures.append(f"{task.id}: {error}")
            continue
        if not opening.endswith(f"\nYour task is to: {task.goal}"):
            failures.append(f"{task.id}: unexpected opening {opening!r}")
    env.close()
    return failures


def main() -> None:
    """Parse the arguments, replay, start, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", help="the folder with json_2.1.1 and replay_episodes.jsonl")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=0, help="number of episodes; 0: all")
    parser.add_argument("--games", action="store_true", help="also start every game of the data")
    parser.add_argument("--engine", choices=("fast", "official"), default="fast")
    arguments = parser.parse_args()
    options, official = ALFWorldOptions(data=arguments.data), arguments.engine == "official"
    pool = Parallel(n_jobs=arguments.workers)

    start = time.perf_counter()
    recorded = episodes(Path(arguments.data) / "replay_episodes.jsonl")
    recorded = recorded[: arguments.episodes or None]
    shares = [recorded[i :: arguments.workers] for i in range(arguments.workers)]
    answers = pool(
        delayed(replay_official_games)(options, share, official=official) for share in shares
    )
    differences = list(chain.from_iterable(answers))
    steps = sum(len(trajectory.steps) for trajectory in recorded)
    seconds = time.perf_counter() - start
    print(
        f"episodes {len(recorded)}, steps {steps}, differences {len(differences)}, {seconds:.0f} s"
    )
    for difference in differences[:20]:
        print(difference)
    failures: list[str] = []
    if arguments.games:
        start = time.perf_counter()
        env = ALFWorld(options)
        tasks = [*env.tasks("train"), *env.tasks("valid_seen")]
        games = [tasks[i :: arguments.workers] for i in range(arguments.workers)]
        failures = list(chain.from_iterable(pool(delayed(start_some)(options, s) for s in games)))
        seconds = time.perf_counter() - start
        print(f"games {len(tasks)}, started {len(tasks) - len(failures)}, {seconds:.0f} s")
        print("\n".join(failures[:20]))
    sys.exit(bool(differences or failures))


if __name__ == "__main__":
    main()
