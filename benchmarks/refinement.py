"""Measure the paper's refinement, and its parts, on ALFWorld's 140 valid_seen games.

    python benchmarks/refinement.py ../shared/data/alfworld MEMORY --out OUT [--tasks 60] [--only …]

MEMORY is a memory of generation 0 and is not modified; every setting refines a copy below OUT.
Existing results are reused. A goal that the ground process solves adds nothing in any setting, so
that after the full run of a seed only the other goals are explored again.
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

from ldm.explore.refine import read_explored_goals
from ldm.run.runner import results
from ldm.run.statistics import Difference, difference, summarize
from ldm.runs import open_run

#: Setting → (seed of the goals, options of `ldm refine`).
SETTINGS: dict[str, tuple[int, tuple[str, ...]]] = {
    "width 4 (the paper's)": (0, ()),
    "another 60 goals": (1, ()),
    "width 1": (0, ("--width", "1")),
    "width 2": (0, ("--width", "2")),
    "width 8": (0, ("--width", "8")),
    "no concentration test": (0, ("--search.concentration", "2")),
}
COLUMNS = (
    *("setting", "goals", "trees", "nodes", "steps", "improved", "tuples", "s"),
    *("success", "difference"),
)
LDM = (sys.executable, "-c", "from ldm.cli.app import main; main()")


def main() -> None:
    """Refine, evaluate and print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("memory", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--only", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    before = evaluate(arguments.out / "before", arguments.memory, arguments.data)
    print(f"before: {success_text(before['run'])}")
    print(
        "| setting | goals | trees | nodes | steps | improved | tuples | s | success | difference |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in arguments.only:
        refinement = refine(name, arguments)
        folder = arguments.out / name.replace(" ", "-")
        after = evaluate(folder, folder / "memory", arguments.data)
        pair = difference(results(recorded_run(after["run"])), results(recorded_run(before["run"])))
        cells = [refinement[k] for k in ("goals", "trees", "nodes", "steps", "improved", "tuples")]
        seconds = f"{refinement['wall']:.0f}"
        row = [name, *cells, seconds, success_text(after["run"]), difference_text(pair)]
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def refine(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the report of a setting's refinement, with its wall time."""
    seed, options = SETTINGS[name]
    folder = arguments.out / name.replace(" ", "-")
    report = folder / "refine.json"
    if not report.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copytree(arguments.memory, folder / "memory")
        goals = "--limit", str(arguments.tasks)
        full = next(n for n, (s, o) in SETTINGS.items() if s == seed and not o)
        if options:
            known = arguments.out / full.replace(" ", "-")
            goals = "--tasks", str(unsolved(known, folder / "goals.txt"))
        start = time.perf_counter()
        outcome = ldm(
            *("refine", "--env", "alfworld", "--split", "train", "--data", str(arguments.data)),
            *goals,
            *("--seed", str(seed), "--memory", str(folder / "memory")),
            *("--runs", str(folder / "runs"), "--gate", "off", *options),
        )
        outcome["wall"] = time.perf_counter() - start
        report.write_text(json.dumps(outcome), encoding="utf-8")
    stored: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return stored


def unsolved(folder: Path, file: Path) -> Path:
    """Write the goals that the ground process of a full run did not solve; return the file."""
    run = json.loads((folder / "refine.json").read_text(encoding="utf-8"))["run"]
    ids = [one.task.id for one in read_explored_goals(recorded_run(run)) if one.trees[0].nodes]
    file.write_text("\n".join(ids) + "\n", encoding="utf-8")
    return file


def evaluate(folder: Path, memory: Path, data: Path) -> dict[str, Any]:
    """Return the report of the evaluation with a memory's newest generation."""
    report = folder / "eval.json"
    if not report.exists():
        folder.mkdir(parents=True, exist_ok=True)
        outcome = ldm(
            *("eval", "--env", "alfworld", "--split", "valid_seen", "--data", str(data)),
            *("--memory", str(memory), "--runs", str(folder / "evaluations")),
        )
        report.write_text(json.dumps(outcome), encoding="utf-8")
    stored: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return stored


def ldm(*arguments: str) -> dict[str, Any]:
    """Run a command of ldm and return its JSON output."""
    process = subprocess.run(  # noqa: S603 - our own command
        [*LDM, *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    outcome: dict[str, Any] = json.loads(process.stdout)
    return outcome


def recorded_run(directory: str) -> Any:
    """Return a recorded run."""
    return open_run(directory, Path())


def success_text(directory: str) -> str:
    """Return the success rate of a run with its interval, as text."""
    overall = summarize(results(recorded_run(directory))).overall
    low, high = overall.interval or (0.0, 0.0)
    return f"{100 * (overall.success_rate or 0):.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def difference_text(paired: Difference) -> str:
    """Return a paired difference with McNemar's test, as text."""
    low, high = paired.interval or (paired.mean, paired.mean)
    return (
        f"{100 * paired.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f}), "
        f"{paired.only_first}:{paired.only_second}, p = {paired.p_value:.2f}"
    )


if __name__ == "__main__":
    main()
