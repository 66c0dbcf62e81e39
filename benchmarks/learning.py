"""Measure what refinements add to a memory of few recorded episodes, round after round.

    python benchmarks/learning.py ../shared/data/alfworld --out OUT [--starts 2 4 10]
        [--seeds 0 1 2] [--rounds 3] [--without gate practice …] [--workers 2]

From the recorded expert episodes some are drawn of each task kind; the 180 training games are
refined on, round after round, and the 140 games of valid_seen are played after each. Nothing is
learnt from valid_seen, and no training game is among the recorded ones (`ldm` checks both).
Existing results below OUT are reused, so that an interrupted benchmark goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm import records
from ldm.eval import Difference, difference, results, summarize
from ldm.experiments import read_trajectories
from ldm.explore import read_explored_goals
from ldm.runs import Run, open_run
from ldm.types import Trajectory, stable_seed

#: What can be taken away → options of `ldm refine`.
PARTS: dict[str, tuple[str, ...]] = {
    "gate": ("--gate", "off", "--explorer", "best-first"),
    "practice": ("--no-practice",),
    "scope": ("--reach", "0"),
    "explorer": ("--explorer", "tree"),
    "rollouts": ("--explorer", "rollouts"),
}
LDM = (sys.executable, "-c", "from ldm.cli.app import main; main()")


@dataclass(frozen=True, slots=True)
class Series:
    """A memory of `episodes` recorded episodes a kind, drawn by `seed`, and its refinements.

    without: the part that is taken away, "" for none.
    """

    episodes: int
    seed: int
    without: str
    folder: Path
    arguments: argparse.Namespace

    def rows(self) -> Iterator[str]:
        """Build, refine and evaluate; yield a line of the table after each round."""
        self._build()
        start = self._evaluated(0)
        yield self._line("before", start, start, ())
        for number in range(1, self.arguments.rounds + 1):
            report = self._refined(number)
            run = self._evaluated(number)
            yield self._line(f"round {number}", run, start, self._exploration(report))

    def _build(self) -> None:
        if (self.folder / "train.jsonl").exists():
            return
        chosen: list[Trajectory] = []
        recorded = read_trajectories(self.arguments.data / "expert_trajectories_train.jsonl")
        for kind in sorted({trajectory.task.kind for trajectory in recorded}):
            of_kind = sorted((t for t in recorded if t.task.kind == kind), key=lambda t: t.id)
            generator = random.Random(stable_seed(self.seed, kind))
            chosen += generator.sample(of_kind, self.episodes)
        self.folder.mkdir(parents=True, exist_ok=True)
        records.write(self.folder / "chosen.jsonl", chosen)
        ldm("build-memory", self.folder / "chosen.jsonl", "--memory", self._memory, "--rebuild")
        (self.folder / "chosen.jsonl").rename(self.folder / "train.jsonl")

    @property
    def _memory(self) -> Path:
        return self.folder / "memory"

    def _refined(self, number: int) -> dict[str, Any]:
        """Return the report of round `number`, with its wall time."""

        def refine() -> dict[str, Any]:
            generations = ldm("memory", "log", "--memory", self._memory)
            if len(generations) > number:  # an earlier attempt that was not reported
                ldm_text("memory", "rollback", number - 1, "--memory", self._memory)
            start = time.perf_counter()
            report: dict[str, Any] = ldm(
                *("refine", "--env", "alfworld", "--split", "train", "--tasks", 180),
                *("--reuse-goals", "--data", self.arguments.data, "--memory", self._memory),
                *("--runs", self.folder / "runs", "--workers", self.arguments.workers),
                *(PARTS[self.without] if self.without else ()),
            )
            return report | {"wall": round(time.perf_counter() - start)}

        return self._stored(f"refine-{number}.json", refine)

    def _evaluated(self, number: int) -> Run:
        """Return the evaluation of generation `number` on valid_seen."""

        def evaluate() -> dict[str, Any]:
            report: dict[str, Any] = ldm(
                *("eval", "--env", "alfworld", "--split", "valid_seen", "--agent", "ldm"),
                *("--data", self.arguments.data, "--memory", self._memory),
                *("--generation", number, "--runs", self.folder / "evaluations"),
                *("--workers", self.arguments.workers),
            )
            return report

        return recorded(self._stored(f"eval-{number}.json", evaluate)["run"])

    def _stored(self, name: str, make: Any) -> dict[str, Any]:
        path = self.folder / name
        if not path.exists():
            path.write_text(json.dumps(make()), encoding="utf-8")
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return stored

    def _exploration(self, report: dict[str, Any]) -> tuple[str, ...]:
        """Return cells on the training goals: solved by the ground process, by exploration."""
        explored = read_explored_goals(recorded(report["run"]))
        ground = sum(one.trees[0].ground.success for one in explored if one.trees)
        missed = [one.trees[0] for one in explored if one.trees and not one.trees[0].ground.success]
        solved = sum(tree.best_score >= 1 for tree in missed)
        gain = report["gate"]["gain"]
        text = (
            f"{100 * gain[0]:+.1f} ({100 * gain[1]:+.1f} to {100 * gain[2]:+.1f})" if gain else ""
        )
        return (
            f"{ground} of {len(explored)}",
            f"{solved} of {len(missed)}",
            text,
            f"{report['wall']}",
        )

    def _line(self, name: str, run: Run, start: Run, exploration: Sequence[str]) -> str:
        overall = summarize(results(run)).overall
        low, high = overall.interval or (0.0, 0.0)
        success = f"{100 * (overall.success_rate or 0):.1f} % ({100 * low:.1f}–{100 * high:.1f})"
        pair = "" if run == start else paired(difference(results(run), results(start)))
        what = f"{self.episodes} a kind, seed {self.seed}"
        cells = (what, self.without, name, *(exploration or ("", "", "", "")), success, pair)
        return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a Markdown table, a line for each memory as soon as it was evaluated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--starts", type=int, nargs="*", default=[2, 4, 10])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[""], choices=["", *PARTS])
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    print("| start | without | memory | ground | explored | gain | s | valid_seen | difference |")
    print("|---|---|---|---|---|---|---|---|---|")
    for without in arguments.without:
        for seed in arguments.seeds:
            for episodes in arguments.starts:
                name = "-".join(filter(None, (str(episodes), str(seed), without)))
                series = Series(episodes, seed, without, arguments.out / name, arguments)
                for line in series.rows():
                    print(line, flush=True)


def paired(pair: Difference) -> str:
    """Return a paired difference with McNemar's test, as text."""
    low, high = pair.interval or (pair.mean, pair.mean)
    return (
        f"{100 * pair.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f}), "
        f"{pair.only_first}:{pair.only_second}, p = {pair.p_value:.2g}"
    )


def recorded(directory: str) -> Run:
    """Return a recorded run."""
    return open_run(directory, Path())


def ldm(*arguments: object) -> Any:
    """Run a command of ldm and return its JSON output."""
    return json.loads(ldm_text(*arguments, "--json"))


def ldm_text(*arguments: object) -> str:
    """Run a command of ldm and return its output."""
    process = subprocess.run(  # noqa: S603 - our own command
        [*LDM, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True
    )
    return process.stdout


if __name__ == "__main__":
    main()
