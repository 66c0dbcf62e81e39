"""What refinement is worth on ALFWorld's 140 valid_seen games, and what its parts are worth.

    python benchmarks/refinement.py ../shared/data/alfworld MEMORY --out OUT [--tasks 60] [--only …]

MEMORY is a memory of generation 0 and stays as it is; every setting refines a copy below OUT. What
is there already is not done again. A goal that the ground process solves adds nothing in any
setting, so that after the full run of a seed only the others are explored again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ldm.eval import Difference, difference, results, summarize
from ldm.explore import read_explored_goals
from ldm.runs import open_run

#: Name → (seed of the goals, options of `ldm refine`).
SETTINGS: dict[str, tuple[int, tuple[str, ...]]] = {
    "width 4 (the paper's)": (0, ()),
    "another 60 goals": (1, ()),
    "width 1": (0, ("--width", "1")),
    "width 2": (0, ("--width", "2")),
    "width 8": (0, ("--width", "8")),
    "no concentration test": (0, ("--concentration", "2")),
    "whole trajectories": (0, ("--add", "whole")),
    "random trajectories": (0, ("--add", "random")),
}
COLUMNS = (
    *("setting", "goals", "trees", "nodes", "steps", "improved", "tuples", "s"),
    *("success", "difference"),
)
LDM = (sys.executable, "-c", "from ldm.cli.app import main; main()")


def main() -> None:
    """Refine, evaluate, print a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("memory", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", default="60")
    parser.add_argument("--only", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    before = evaluated(asked.out / "before", asked.memory, asked.data)
    print(f"before: {told(before['run'])}")
    print(
        "| setting | goals | trees | nodes | steps | improved | tuples | s | success | difference |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in asked.only:
        found = refined(name, asked)
        place = asked.out / name.replace(" ", "-")
        after = evaluated(place, place / "memory", asked.data)
        pair = difference(results(the_run(after["run"])), results(the_run(before["run"])))
        cells = [found[k] for k in ("goals", "trees", "nodes", "steps", "improved", "tuples")]
        row = [name, *cells, f"{found['wall']:.0f}", told(after["run"]), paired(pair)]
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def refined(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """The report of a setting's refinement, with its wall time."""
    seed, options = SETTINGS[name]
    place = asked.out / name.replace(" ", "-")
    report = place / "refine.json"
    if not report.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        shutil.copytree(asked.memory, place / "memory")
        goals = asked.tasks
        full = next(n for n, (s, o) in SETTINGS.items() if s == seed and not o)
        if options:
            goals = str(unsolved(asked.out / full.replace(" ", "-"), place / "goals.txt"))
        began = time.perf_counter()
        found = ldm(
            *("refine", "--env", "alfworld", "--split", "train", "--data", str(asked.data)),
            *("--tasks", goals, "--seed", str(seed), "--memory", str(place / "memory")),
            *("--runs", str(place / "runs"), *options),
        )
        found["wall"] = time.perf_counter() - began
        report.write_text(json.dumps(found), encoding="utf-8")
    kept: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return kept


def unsolved(place: Path, file: Path) -> Path:
    """A file with the goals that the ground process of a full run did not solve."""
    run = json.loads((place / "refine.json").read_text(encoding="utf-8"))["run"]
    ids = [one.task.id for one in read_explored_goals(the_run(run)) if one.trees[0].nodes]
    file.write_text("\n".join(ids) + "\n", encoding="utf-8")
    return file


def evaluated(place: Path, memory: Path, data: Path) -> dict[str, Any]:
    """The report of the evaluation with a memory's newest generation."""
    report = place / "eval.json"
    if not report.exists():
        place.mkdir(parents=True, exist_ok=True)
        found = ldm(
            *("eval", "--env", "alfworld", "--split", "valid_seen", "--data", str(data)),
            *("--memory", str(memory), "--runs", str(place / "evaluations")),
        )
        report.write_text(json.dumps(found), encoding="utf-8")
    kept: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return kept


def ldm(*arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    done = subprocess.run(  # noqa: S603 - our own command
        [*LDM, *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def the_run(directory: str) -> Any:
    """A recorded run."""
    return open_run(directory, Path())


def told(directory: str) -> str:
    """The success of a run with its interval."""
    overall = summarize(results(the_run(directory))).overall
    low, high = overall.interval or (0.0, 0.0)
    return f"{100 * (overall.success_rate or 0):.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def paired(found: Difference) -> str:
    """A paired difference with McNemar's test."""
    low, high = found.interval or (found.mean, found.mean)
    return (
        f"{100 * found.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f}), "
        f"{found.only_first}:{found.only_second}, p = {found.p_value:.2f}"
    )


if __name__ == "__main__":
    main()
