"""Readers beside writers see whole generations; one writer waits for another, for a while."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.memory import build, extend, generations, hide, inspect, record, rollback
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.toy import expert_trajectories

#: Opens the memory until a file is there, and prints the digests that it sees: each must be that of
#: a whole generation, by its content.
READER = """
import sys
import time
from pathlib import Path
from ldm.memory import Memory, inspect
from tests.embedder import BagOfWords
place, stop = sys.argv[1:]
while not Path(stop).exists():
    memory = Memory.open(place, "toy", embedder=BagOfWords())
    assert len(memory) == memory.record.tuples
    assert memory.rows.digest(memory.record, memory.batches) == memory.record.digest
    assert memory.retrieve("put the fig in the basket", "You hold the fig.")
    print(memory.record.digest, flush=True)
    time.sleep(0.05)  # what is looked at needs the processor, too
"""

#: Builds another environment's memory in the same place, again and again until a file is there.
SECOND_WRITER = """
import sys
import time
from dataclasses import replace
from pathlib import Path
from ldm.memory import build, record
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.toy import expert_trajectories
place, stop = sys.argv[1:]
record.PATIENCE = 120
episodes = [replace(e, task=replace(e.task, env="other")) for e in expert_trajectories()]
while not Path(stop).exists():
    build(place, episodes, BagOfWords(), OfflineReasoner, rebuild=True)
    time.sleep(0.1)  # the other writer's turn
"""


def read_beside_writers(place: str, readers: int, rounds: int) -> int:
    """Add, hide and roll back `rounds` times beside another writer and reading processes.

    Each round waits until another reader has read once more. Returns how often they read.
    """
    stop = Path(place).with_name("stop")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([sys.executable, "-c", code, place, str(stop)], **pipes)  # type: ignore[call-overload]
        for code in (*[READER] * readers, SECOND_WRITER)
    ]
    base = inspect(place, "toy")
    digests, reports = {base.generation.digest}, []
    added = replace(base.rows[0].tuple, action="wait", generation=1)
    patch = pytest.MonkeyPatch()
    patch.setattr(record, "PATIENCE", 120)
    try:
        for done in range(rounds):
            newest = generations(place, "toy")[-1]
            if newest.number == 0:
                row = replace(base.rows[0], tuple=added)
                later = extend(place, newest, [row], BagOfWords(), tasks=(), settings={})
            elif newest.number < 3:
                one = next(iter(inspect(place, "toy").recallable.ids))
                later = hide(place, newest, [one], settings={})
            else:
                rollback(place, "toy", 0)
                later = generations(place, "toy")[-1]
            digests.add(later.digest)
            reports.append(processes[done % readers].stdout.readline().strip())
    finally:
        patch.undo()
        stop.touch()
        # not communicate(): it leaves out what readline() has read ahead
        outputs = []
        for process in processes:
            with process:
                outputs.append((process.stdout.read(), process.stderr.read()))
    for out, error in outputs:
        assert not error, error
        reports += out.split()
    assert {process.returncode for process in processes} == {0}
    assert {*reports} <= digests
    return len(reports)


@pytest.mark.process
def test_readers_beside_two_writers_see_whole_generations(copy: str) -> None:
    assert read_beside_writers(copy, readers=2, rounds=6) >= 6


#: Writes rows of its own, each a generation after the newest one, however often it is too late.
EXTENDING = """
import sys
from dataclasses import replace
from ldm.errors import MemoryStoreError
from ldm.memory import extend, generations, inspect, record
from tests.embedder import BagOfWords
place, mine = sys.argv[1:]
record.PATIENCE = 60
for number in range(4):
    for attempt in range(1000):
        contents = inspect(place, "toy")
        row, later = contents.rows[0], contents.generation.number + 1
        one = replace(row.tuple, action=f"wait {mine} {number}", generation=later)
        added = [replace(row, tuple=one)]
        try:
            extend(place, contents.generation, added, BagOfWords(), tasks=(), settings={})
            break
        except MemoryStoreError as error:
            assert "has changed" in error.message, error
    else:
        raise AssertionError("never")
"""


@pytest.mark.process
def test_two_writers_lose_nothing(copy: str) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", EXTENDING, copy, name]) for name in ("a", "b")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(generations(copy, "toy")) == 9
    actions = {row.tuple.action for row in inspect(copy, "toy").rows}
    assert {f"wait {name} {number}" for name in "ab" for number in range(4)} <= actions


if __name__ == "__main__":  # python -m tests.memory.test_concurrency PLACE READERS ROUNDS
    location = sys.argv[1]
    build(location, expert_trajectories(), BagOfWords(), OfflineReasoner)
    print(  # noqa: T201 - a command
        read_beside_writers(location, *map(int, sys.argv[2:])), "readings, none torn"
    )
