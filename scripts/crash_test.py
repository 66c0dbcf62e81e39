"""Kill a command at random moments, resume it, and compare with an uninterrupted run.

    python scripts/crash_test.py eval --kills 20
    python scripts/crash_test.py comparison --kills 20
    python scripts/crash_test.py build-memory --kills 20
    python scripts/crash_test.py llm --kills 20
    python scripts/crash_test.py refine --kills 30
    python scripts/crash_test.py all --kills 13

`all` kills seven commands so often each, kills that came too late not counted, with an embedder and
an environment that take no time. Every second kill hits only the first process, so that its workers
outlive it for a moment.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.memory import build
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.integration.crash import (
    ROOT,
    Command,
    asking,
    building,
    evaluation,
    importing,
    kill_and_resume,
    refinement,
)
from tests.integration.test_memory_crash import killed
from tests.llm.server import Behaviour, FakeServer
from tests.toy import ToyOptions, expert_trajectories

COMMANDS: dict[str, Command] = {
    "build-memory": building(str(ROOT / "data" / "trajectories" / "alfworld"), "--batch-size", "4"),
    "eval": evaluation(
        *("--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "2"),
        *("--env.tasks", "60", "--env.delay", "0.004"),
    ),
    "comparison": evaluation(
        *("--env", "tests.toy:ToyEnv", "--agent", "random,tests.integration.agents:Adept"),
        *("--repeat", "2", "--workers", "2", "--env.delay", "0.004"),
        count=4,
    ),
}


def refining(place: Path) -> Command:
    """Return a refinement of a memory of four toy episodes, which takes a few seconds."""
    episodes = expert_trajectories(options=ToyOptions(tasks=4, shelves=8))
    build(str(place / "base"), episodes, BagOfWords(), OfflineReasoner)
    shed = ("--env.tasks", "40", "--env.shelves", "8", "--depth", "12", "--workers", "1")
    quick = (sys.executable, "-m", "tests.integration.quick")
    return refinement(place / "base", "--env", "tests.toy:ToyEnv", *shed, program=quick)


def kill_all(place: Path, kills: int, seed: int) -> bool:
    """Kill all that writes; print a line for each command, and return whether all was right."""
    quick = (sys.executable, "-m", "tests.integration.quick")
    toy, many = place / "toy.jsonl", place / "many.jsonl"
    episodes = expert_trajectories(options=ToyOptions(tasks=40))
    records.write(toy, episodes)
    records.write(many, episodes * 100)
    commands = {
        "ldm build-memory": building(str(toy), "--batch-size", "5", program=quick),
        "ldm refine": refining(place),
        "ldm eval, 2 workers": COMMANDS["eval"],
        "ldm import": importing(many),
    }
    total, right = 0, True
    for name, command in commands.items():
        folder = place / name.replace(" ", "-")
        folder.mkdir()
        attempts = kill_and_resume(command, folder, kills=kills, seed=seed)
        running, same = sum(not one.finished for one in attempts), all(one.same for one in attempts)
        total, right = total + running, right and same
        print(f"{name}: {running} kills, {'identical' if same else 'DIFFERENT'}", flush=True)
    for change in ("import", "forget", "purge"):
        running, done = killed(change, place / change, kills)  # raises where it is wrong
        total += running
        print(f"ldm memory {change}: {running} kills, complete ({done}) or absent", flush=True)
    print(f"{total} kills before the command had ended.")
    return right


def main() -> None:
    """Print a line per kill; exit with 1 if an outcome differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=sorted([*COMMANDS, "llm", "refine", "all"]))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.command == "all":
        with tempfile.TemporaryDirectory() as folder:
            sys.exit(not kill_all(Path(folder), arguments.kills, arguments.seed))
    behaviour = Behaviour(latency=0.05, idempotent=True)
    with tempfile.TemporaryDirectory() as place, FakeServer(behaviour) as server:
        # With a model, an outcome also differs if a recorded call is sent again, or if a call is
        # billed twice.
        command = COMMANDS.get(arguments.command) or (
            refining(Path(place))
            if arguments.command == "refine"
            else asking(server, "--workers", "4")
        )
        attempts = kill_and_resume(command, Path(place), kills=arguments.kills, seed=arguments.seed)
    unit = "requests" if arguments.command == "llm" else "s"
    for number, attempt in enumerate(attempts, start=1):
        action = "finished before" if attempt.finished else "killed after"
        target = "all processes" if attempt.group else "the first process"
        outcome = "identical" if attempt.same else "DIFFERENT"
        print(f"{number:2}  {action} {attempt.moment:7.2f} {unit}, {target:17}  {outcome}")
    if arguments.command == "llm":
        repeated, early = server.outcomes["repeated"], server.outcomes["409"]
        print(f"{repeated} answers repeated by Idempotency-Key, {early} requests too early.")
    same = sum(attempt.same for attempt in attempts)
    print(f"{same} of {len(attempts)} outcomes are identical to those of an uninterrupted run.")
    sys.exit(same != len(attempts))


if __name__ == "__main__":
    main()
