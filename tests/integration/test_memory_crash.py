"""A killed change of a memory is complete or absent, and repeated it is complete."""

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from ldm import records
from ldm.memory import build, environments, generations, inspect
from ldm.memory.growing import GrowingMemory
from ldm.memory.packs import export_pack
from ldm.memory.record import MARK
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.integration import forks
from tests.integration.crash import ATTEMPTS, building, check_resumed, importing
from tests.integration.forks import QUICK
from tests.toy import ToyOptions, expert_trajectories


@pytest.mark.process
def test_resuming_a_killed_build_gives_what_an_undisturbed_one_gives(tmp_path: Path) -> None:
    data = tmp_path / "data" / "toy.jsonl"
    records.write(data, expert_trajectories(options=ToyOptions(tasks=40)))
    command = building(str(data), "--batch-size", "5", program=QUICK)
    check_resumed(command, tmp_path, kills=4, seed=1)


@pytest.mark.process
def test_a_killed_import_of_trajectories_leaves_a_whole_file_or_none(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    records.write(source, expert_trajectories(options=ToyOptions(tasks=40)) * 25)
    check_resumed(importing(source, QUICK), tmp_path, kills=3, seed=1)


#: Changes of a memory: the command line, with PLACE for the memory's directory.
CHANGES: dict[str, tuple[str, ...]] = {
    "forget": ("memory", "forget", "--memory", "PLACE", "--origin", "expert", "--tasks", "TASK"),
    "purge": ("memory", "forget", "--memory", "PLACE", "--tasks", "TASK", "--purge"),
    "rollback": ("memory", "rollback", "--memory", "PLACE", "0", "--yes"),
    "import": ("memory", "import", "FILE", "--memory", "PLACE"),
    "fold": ("memory", "fold", "--memory", "PLACE"),
}


def prepared(change: str, folder: Path) -> Path:
    """Return a memory of two generations that the change can be made to."""
    place = folder / "memory"
    episodes = expert_trajectories(options=ToyOptions(tasks=8))
    for trajectories in (episodes[:6], episodes):
        build(str(place), trajectories, BagOfWords(), OfflineReasoner)
    if change == "fold":
        with GrowingMemory.open(place, "toy", embedder=BagOfWords()) as memory:
            for episode in expert_trajectories("test")[:3]:
                memory.add(episode)
    if change == "import":
        export_pack(str(place), "toy", folder / "exported.ldmpack")
        shutil.rmtree(place)
    return place


def state(place: Path | str) -> tuple[str, ...]:
    """Return what a reader sees: the digests of all generations, each by its content."""
    if isinstance(place, Path) and not (place / MARK).exists():
        return ()
    if "toy" not in environments(str(place)):
        return ()
    digests = []
    for generation in generations(str(place), "toy"):
        contents = inspect(str(place), "toy", generation.number)
        assert contents.rows.digest(generation, contents.batches) == generation.digest
        digests.append(generation.digest)
    return tuple(digests)


def killed_often(
    location: Path | str,
    fresh: Callable[[], None],
    command: Sequence[str],
    kills: int,
    *,
    seed: str,
    repeated: int,
) -> tuple[int, int]:
    """Kill a change of a memory `kills` times before it has ended, each at a random moment.

    What a reader sees afterwards is the memory before or after, and the command then completes it.
    fresh: puts the memory as it was before at the location.
    repeated: the exit status of the command where it was done already.

    Returns how often the command had not ended when it was killed, and how often it was done.
    """
    fresh()
    before = state(location)
    began = time.monotonic()
    forks.run(command)
    duration = time.monotonic() - began
    after, done, running = state(location), 0, 0
    assert after != before
    generator = random.Random(seed)
    for number in range(kills * ATTEMPTS):
        if running == kills:
            break
        fresh()
        with forks.started(command) as process:
            moment = generator.uniform(0.3, 1.0) * duration
            time.sleep(moment)
            if process.poll() is None:
                running += 1
            else:  # the machine is faster now
                duration = min(duration, moment)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        current = state(location)
        assert current in (before, after), (seed, number)
        done += current == after
        again = forks.run(command, check=False)
        assert again.returncode == (repeated if current == after else 0), again
        assert state(location) == after, (seed, number)
        problems = verify(str(location), "toy")
        assert all(one.startswith("Chroma: ") for one in problems), (seed, problems)  # unpublished
    return running, done


def killed(change: str, folder: Path, kills: int) -> tuple[int, int]:
    """Kill a change of a memory in a directory as `killed_often` does."""
    folder.mkdir(parents=True)
    base, place = prepared(change, folder), folder / "place"
    before = state(base)
    task = inspect(str(base), "toy").rows[0].tuple.task_id if before else ""
    named = {"TASK": task, "FILE": str(folder / "exported.ldmpack"), "PLACE": str(place)}

    def fresh() -> None:
        shutil.rmtree(place, ignore_errors=True)
        if before:
            shutil.copytree(base, place)

    command = [*QUICK, *(named.get(word, word) for word in CHANGES[change])]
    repeated = int(change in ("import", "purge"))
    return killed_often(place, fresh, command, kills, seed=change, repeated=repeated)


@pytest.mark.process
@pytest.mark.parametrize("change", CHANGES)
def test_a_killed_change_is_complete_or_absent(change: str, tmp_path: Path) -> None:
    killed(change, tmp_path / change, kills=2)


if __name__ == "__main__":  # python -m tests.integration.test_memory_crash FOLDER KILLS
    at, number = Path(sys.argv[1]), int(sys.argv[2])
    completed = {f"{name}, directory": killed(name, at / name, number)[1] for name in CHANGES}
    forks.stop()
    for name, count in completed.items():
        print(f"{name}: {number} kills, complete or absent; {count} were complete")  # noqa: T201 - a command
