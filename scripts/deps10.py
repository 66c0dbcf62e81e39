"""Write a list of ALFWorld games for DEPS' ten tasks (arXiv 2302.01560, Table 5).

    python scripts/deps10.py ../shared/data/alfworld --split valid_seen > deps10.txt
    ldm eval --env alfworld --split valid_seen --tasks deps10.txt --agent deps --llm MODEL

Up to five games of the split for each, with the object and the place of the task where there are
any, else games of its kind, which a comment line says; those whose rooms have nearly as many
places as the paper's come first. With --run it prints a finished run by kind, and the mean that
Table 6 has: by the number of tasks of each kind.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.errors import LdmError
from ldm.run.runner import results
from ldm.run.runtime import DEFAULT_RUNS
from ldm.runs import open_run
from ldm.worlds.alfworld import ALFWorld, ALFWorldOptions
from tools.alfworld.deps10 import WEIGHTS, choices, listing, places_in


def main() -> None:
    """Print the list, or a run's rates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", nargs="?", help="ALFWorld's data; not needed for demo splits")
    parser.add_argument("--split", default="valid_seen")
    parser.add_argument("--run", help="a finished run, to report by Table 6's weights")
    chosen = parser.parse_args()
    try:
        print(_rates(chosen.run) if chosen.run else _list(chosen.data, chosen.split), end="")
    except LdmError as error:
        sys.exit(f"{error.message} {error.remedy}")


def _list(data: str | None, split: str) -> str:
    env = ALFWorld(ALFWorldOptions(data=data))
    chosen = list(choices(env.tasks(split), lambda task: places_in(env.reset(task).observation)))
    env.close()
    return listing(chosen)


def _rates(run: str) -> str:
    by_kind: dict[str, list[bool]] = {}
    for result in results(open_run(run, DEFAULT_RUNS)):
        by_kind.setdefault(result.task.kind, []).append(result.success)
    rates = {kind: _rate(by_kind[kind]) for kind in WEIGHTS if kind in by_kind}
    lines = [f"{kind:6} {len(by_kind[kind]):3} games {rate:6.1f} %" for kind, rate in rates.items()]
    weight = sum(WEIGHTS[kind] for kind in rates)
    mean = sum(WEIGHTS[kind] * rate for kind, rate in rates.items()) / weight if weight else 0.0
    note = "" if len(rates) == len(WEIGHTS) else f" (of {len(rates)} of {len(WEIGHTS)} kinds)"
    return "\n".join([*lines, f"mean, weighted as in Table 6: {mean:.1f} %{note}"]) + "\n"


def _rate(successes: Sequence[bool]) -> float:
    return 100 * sum(successes) / len(successes)


if __name__ == "__main__":
    main()
