"""Compare the recalls of two memories that differ in how they keep vectors.

    ldm eval --env alfworld --split valid_seen --agent ldm --memory m --runs runs
    cp -r m m16 && ldm memory compact --memory m16 --vectors float16
    python benchmarks/vectors.py m m16 --states runs/RUN/trajectories.jsonl

Every step of the run is asked of both memories. Prints the share of steps with equal recalls, how
many recalls differ, how ranks and similarities change, the bytes of the vectors, and what a process
occupies after all recalls.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ldm import records
from ldm.embed import load_embedder
from ldm.memory import Memory
from ldm.types import Trajectory


def states_of(path: Path) -> tuple[str, list[tuple[str, str]]]:
    """Return the environment of a run, and goal and observation of each of its steps."""
    trajectories = records.read(path, Trajectory)
    states = [(t.task.goal, observation) for t in trajectories for _, observation, _ in t.states()]
    return trajectories[0].task.env, states


def resident() -> dict[str, float]:
    """Return the MiB that this process occupies, and how much of that are mapped files."""
    text = Path("/proc/self/status").read_text()
    sizes = {name: int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("VmRSS", "RssFile")}  # type: ignore[index]
    return {name: size / 1024 for name, size in sizes.items()}


def recalled(place: str, states: Path, k: int) -> dict[str, Any]:
    """Return the ids and similarities of the recalls in each state."""
    env, listed = states_of(states)
    embedder = load_embedder()
    embedder.embed([text for state in listed for text in state])
    before = resident()
    memory = Memory.open(place, env, embedder=embedder)
    recalls = [memory.retrieve(*state, k) for state in listed]
    after = resident()
    return {
        "recalls": [[(one.id, one.similarity) for one in part] for part in recalls],
        "mib": {name: round(after[name] - before[name], 1) for name in after},
        "vectors": sum(p.stat().st_size for p in Path(place).glob("snapshots/*/*/vectors.npy")),
    }


def compared(one: list[Any], other: list[Any], k: int) -> dict[str, float]:
    """Compare the first `k` recalls of each state."""
    pairs = [([*map(tuple, a[:k])], [*map(tuple, b[:k])]) for a, b in zip(one, other, strict=True)]
    ids = [([name for name, _ in a], [name for name, _ in b]) for a, b in pairs]
    shared = [{*a} & {*b} for a, b in ids]
    moved = [
        abs(a.index(name) - b.index(name))
        for (a, b), c in zip(ids, shared, strict=True)
        for name in c
    ]
    differences = [
        abs(dict(a)[name] - dict(b)[name])
        for (a, b), c in zip(pairs, shared, strict=True)
        for name in c
    ]
    return {
        "same_order": float(np.mean([a == b for a, b in ids])),
        "same_set": float(np.mean([{*a} == {*b} for a, b in ids])),
        "same_recalls": sum(map(len, shared)) / sum(len(a) for a, _ in ids),
        "moved_recalls": float(np.mean(np.array(moved) > 0)),
        "ranks_moved_most": max(moved),
        "similarity_differs_most": max(differences),
    }


def main() -> None:
    """Ask each memory in a process of its own, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("memories", nargs="+")
    parser.add_argument("--states", type=Path, required=True, help="trajectories.jsonl of a run")
    parser.add_argument("--k", type=int, nargs="+", default=[5, 60])
    arguments = parser.parse_args()
    if len(arguments.memories) == 1:
        print(json.dumps(recalled(arguments.memories[0], arguments.states, max(arguments.k))))
        return
    results = []
    for place in arguments.memories:
        command = [sys.executable, __file__, place, "--states", str(arguments.states)]
        command += ["--k", *map(str, arguments.k)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - this file
        results.append(json.loads(done.stdout))
        print(place, {name: results[-1][name] for name in ("vectors", "mib")})
    print(f"{len(results[0]['recalls'])} states")
    for k in arguments.k:
        figures = compared(results[0]["recalls"], results[1]["recalls"], k)
        print(f"of {k}:", {name: round(value, 6) for name, value in figures.items()})


if __name__ == "__main__":
    main()
