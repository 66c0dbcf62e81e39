"""How many goals of noisy plans the goal parser of DEPS recovers, and how fast.

    python benchmarks/deps_parser.py --plans 10000

Plans of random goals of an environment, in the forms of the parser's list, each with 0 to 3 faults
(quotes missing or mixed, capitals, fences, namespaces, blanks for underscores, plurals, code and
chatter around), and as many with random bytes on top. No model is called, and nothing evaluated.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.deps.parser import Parser, Vocabulary
from ldm.envs import load_env
from tools.noisy_plans import noisy_plan, recovered


def main() -> None:
    """Print a line for each number of faults."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--env", default="minecraft")
    options.add_argument("--plans", type=int, default=10_000, help="of each sort")
    chosen = options.parse_args()
    vocabulary = Vocabulary.of(load_env(chosen.env).card)  # type: ignore[attr-defined]
    parser = Parser(vocabulary)
    items = {verb: sorted(own) for verb, own in vocabulary.items.items() if verb != "explore"}
    print("faults  random bytes   goals  recovered  in the plan too many    µs a plan")
    for faults in (0, 1, 2, 3):
        for spoilt in (False, True):
            line = _line(parser, items, faults, spoilt, chosen.plans)
            print(f"{faults:6}  {'yes' if spoilt else 'no':>12}  {line}")


def _line(
    parser: Parser, items: dict[str, list[str]], faults: int, spoilt: bool, plans: int
) -> str:
    written = read = extra = 0
    seconds = 0.0
    for number in range(plans):
        goals, text = noisy_plan(number, items, faults, spoilt=spoilt)
        started = time.perf_counter()
        goals_read = parser.plan(text).goals
        seconds += time.perf_counter() - started
        right = recovered(goals, goals_read)
        written, read, extra = written + len(goals), read + right, extra + len(goals_read) - right
    share = 100 * read / written
    return f"{written:6}  {share:8.2f}%  {extra:20}  {1e6 * seconds / plans:11.0f}"


if __name__ == "__main__":
    main()
