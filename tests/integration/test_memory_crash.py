"""A killed build loses nothing that it computed and doubles nothing."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ldm import records
from ldm.memory import environments, generations, inspect
from ldm.memory.exchange import export
from ldm.memory.rewriting import compact
from ldm.memory.store import DATABASE
from ldm.memory.verifying import verify
from tests.integration.crash import building, kill_and_resume
from tests.stored.make import unpack
from tests.toy import ToyOptions, expert_trajectories


@pytest.mark.process
def test_resuming_a_killed_build_gives_what_an_undisturbed_one_gives(tmp_path: Path) -> None:
    data = tmp_path / "data" / "toy.jsonl"
    records.write(data, expert_trajectories(options=ToyOptions(tasks=40)))
    quick = (sys.executable, "-m", "tests.integration.quick")
    command = building(str(data), "--batch-size", "5", program=quick)
    attempts = kill_and_resume(command, tmp_path, kills=4, seed=1)
    assert all(attempt.same for attempt in attempts), attempts
    assert not all(attempt.finished for attempt in attempts)


QUICK = (sys.executable, "-m", "tests.integration.quick")
STORED = Path(__file__).parents[1] / "stored" / "v0_1"
#: Changes of a memory: the command line, with PLACE for the memory's directory.
CHANGES: dict[str, tuple[str, ...]] = {
    "forget": ("memory", "forget", "--memory", "PLACE", "--origin", "expert", "--task", "TASK"),
    "purge": ("memory", "forget", "--memory", "PLACE", "--task", "TASK", "--purge"),
    "compact": ("memory", "compact", "--memory", "PLACE"),
    "migrate": ("memory", "migrate", "--memory", "PLACE"),
    "rollback": ("memory", "rollback", "--memory", "PLACE", "0"),
    "import": ("memory", "import", "FILE", "--memory", "PLACE"),
}


def prepared(change: str, folder: Path) -> Path:
    """Return a memory that the change can be made to."""
    unpack(STORED, folder)
    place = folder / ".ldm" / "memory"
    if change == "import":
        export(str(place), "toy", folder / "exported.jsonl")
        shutil.rmtree(place)
    elif change != "migrate":
        compact(str(place))
    return place


def state(place: Path) -> tuple[str, ...]:
    """Return what a reader sees: the digests of all generations, each by its content."""
    if not (place / DATABASE).exists() or "toy" not in environments(str(place)):
        return ()
    digests = []
    for generation in generations(str(place), "toy"):
        contents = inspect(str(place), "toy", generation.number)
        assert contents.rows.columns.digest(generation, contents.batches) == generation.digest
        digests.append(generation.digest)
    return tuple(digests)


def killed(change: str, folder: Path, kills: int) -> int:
    """Kill the change `kills` times, each at a random moment; return how often it was done by then.

    What a reader sees afterwards is the memory before or after, and the command then completes it.
    """
    folder.mkdir(parents=True)
    base = prepared(change, folder)
    before = state(base)
    task = inspect(str(base), "toy").rows[0].tuple.task_id if before else ""
    named = {"TASK": task, "FILE": str(folder / "exported.jsonl")}

    def command(place: Path) -> list[str]:
        return [*QUICK, *({**named, "PLACE": str(place)}.get(w, w) for w in CHANGES[change])]

    def copy(name: str) -> Path:
        return Path(shutil.copytree(base, folder / name)) if before else folder / name

    whole = copy("whole")
    started = time.monotonic()
    subprocess.run(command(whole), check=True, capture_output=True)
    duration = time.monotonic() - started
    after, done = state(whole), 0
    generator = random.Random(change)
    for number in range(kills):
        place = copy(f"kill-{number}")
        with subprocess.Popen(
            command(place),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            time.sleep(generator.uniform(0.3, 1.0) * duration)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        seen = state(place)
        assert seen in (before, after), (change, number)
        done += seen == after != before
        again = subprocess.run(command(place), check=False, capture_output=True, text=True)
        repeated = change == "import" and seen == after  # it is refused where there is a memory
        assert again.returncode == int(repeated or (change == "purge" and seen == after)), again
        assert state(place) == after, (change, number)
        problems = verify(str(place), "toy")
        assert all(problem.startswith("left over") for problem in problems), (change, problems)
        shutil.rmtree(place)
    return done


@pytest.mark.process
@pytest.mark.parametrize("change", CHANGES)
def test_a_killed_change_is_complete_or_absent(change: str, tmp_path: Path) -> None:
    killed(change, tmp_path / change, kills=2)


if __name__ == "__main__":  # python -m tests.integration.test_memory_crash FOLDER KILLS
    for name in CHANGES:
        completed = killed(name, Path(sys.argv[1]) / name, int(sys.argv[2]))
        print(  # noqa: T201 - a command
            f"{name}: {sys.argv[2]} kills, complete or absent; {completed} were complete"
        )
