"""Kill a command at random moments, resume it, and compare with an undisturbed run.

    python scripts/crash_test.py eval --kills 20
    python scripts/crash_test.py build-memory --kills 20
    python scripts/crash_test.py llm --kills 20
    python scripts/crash_test.py refine --kills 30

Every second kill takes the first process alone, so that its workers outlive it for a moment.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.memory import build
from ldm.reasoner.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.integration.crash import (
    ROOT,
    Command,
    asking,
    building,
    evaluation,
    kill_and_resume,
    refinement,
)
from tests.llm.server import Behaviour, FakeServer
from tests.toy import ToyOptions, expert_trajectories

COMMANDS: dict[str, Command] = {
    "build-memory": building(str(ROOT / "data" / "trajectories"), "--batch-size", "4"),
    "eval": evaluation(
        *("--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "2"),
        *("--set", "env.tasks=60", "--set", "env.delay=0.004"),
    ),
}


def refining(place: Path) -> Command:
    """A refinement of a memory of four toy episodes, which takes some seconds."""
    known = expert_trajectories(options=ToyOptions(tasks=4, shelves=8))
    build(str(place / "base"), known, BagOfWords(), OfflineReasoner)
    shed = ("--set", "env.tasks=40", "--set", "env.shelves=8", "--depth", "12", "--workers", "1")
    quick = (sys.executable, "-m", "tests.integration.quick")
    return refinement(place / "base", "--env", "tests.toy:ToyEnv", *shed, program=quick)


def main() -> None:
    """Print a line a kill; exit with 1 where an outcome differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=sorted([*COMMANDS, "llm", "refine"]))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    behaviour = Behaviour(latency=0.05, idempotent=True)
    with tempfile.TemporaryDirectory() as place, FakeServer(behaviour) as server:
        # With a model, an outcome also differs where a call that was recorded is made again, and
        # where one is billed twice.
        command = COMMANDS.get(asked.command) or (
            refining(Path(place)) if asked.command == "refine" else asking(server, "--workers", "4")
        )
        attempts = kill_and_resume(command, Path(place), kills=asked.kills, seed=asked.seed)
    unit = "requests" if asked.command == "llm" else "s"
    for number, attempt in enumerate(attempts, start=1):
        killed = "finished before" if attempt.finished else "killed after"
        whom = "all processes" if attempt.group else "the first process"
        outcome = "identical" if attempt.same else "DIFFERENT"
        print(f"{number:2}  {killed} {attempt.moment:7.2f} {unit}, {whom:17}  {outcome}")
    if asked.command == "llm":
        spared, early = server.outcomes["repeated"], server.outcomes["409"]
        print(f"{spared} answers given again under their Idempotency-Key, {early} asked too early.")
    same = sum(attempt.same for attempt in attempts)
    print(f"{same} of {len(attempts)} outcomes are identical to an undisturbed run's.")
    sys.exit(same != len(attempts))


if __name__ == "__main__":
    main()
