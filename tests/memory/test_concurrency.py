"""Readers beside a writer see whole generations; of two writers one is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, build, extend, generations, hide, inspect, locks, rollback
from ldm.memory.store import reading, writing
from ldm.reasoner.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.conftest import Places
from tests.toy import expert_trajectories

#: Opens the memory until a file is there, and prints the digests that it sees: each must be that of
#: a whole generation, by its content.
READER = """
import sys
from pathlib import Path
from ldm.memory import Memory, inspect
from tests.embedder import BagOfWords
place, stop = sys.argv[1:]
while not Path(stop).exists():
    memory = Memory.open(place, "toy", embedder=BagOfWords())
    assert len(memory) == memory.record.tuples
    assert memory.rows.columns.digest(memory.record, memory.batches) == memory.record.digest
    assert memory.retrieve("put the fig in the basket", "You hold the fig.")
    print(memory.record.digest, flush=True)
"""


def read_beside_a_writer(place: str, readers: int, rounds: int) -> int:
    """Add, hide and roll back `rounds` times beside reading processes; return how often they read.

    Each round waits until another reader has read once more.
    """
    stop = Path(place).with_name("stop")
    command = [sys.executable, "-c", READER, place, str(stop)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(readers)]  # type: ignore[call-overload]
    base = inspect(place, "toy")
    digests, seen = {base.generation.digest}, []
    added = replace(base.rows[0].tuple, action="wait", generation=1)
    try:
        for done in range(rounds):
            newest = generations(place, "toy")[-1]
            if newest.number == 0:
                row = replace(base.rows[0], tuple=added)
                later = extend(place, newest, [row], BagOfWords(), tasks=(), settings={})
            elif newest.number < 3:
                one = next(iter(inspect(place, "toy").recallable()))
                later = hide(place, newest, [one], settings={})
            else:
                rollback(place, "toy", 0)
                later = generations(place, "toy")[-1]
            digests.add(later.digest)
            seen.append(processes[done % readers].stdout.readline().strip())
    finally:
        stop.touch()
        outputs = [process.communicate(timeout=120) for process in processes]
    for out, error in outputs:
        assert not error, error
        seen += out.split()
    assert {process.returncode for process in processes} == {0}
    assert {*seen} <= digests
    return len(seen)


@pytest.fixture
def copy(toy: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(toy, tmp_path / "memory"))


@pytest.mark.process
def test_readers_beside_a_writer_see_whole_generations(copy: str) -> None:
    assert read_beside_a_writer(copy, readers=2, rounds=8) >= 8


def test_readers_go_by_what_was_published_while_a_writer_is_at_work(copy: str) -> None:
    before = inspect(copy, "toy")
    with writing(copy) as store:
        store.drop_after("toy", -1)  # nothing is left in Chroma
        assert inspect(copy, "toy").rows == before.rows
        assert generations(copy, "toy") == (before.generation,)
    assert generations(copy, "toy") == ()


def test_an_older_generation_is_read_from_the_newest_snapshot(at: Places) -> None:
    copy = at()
    build(copy, expert_trajectories(), BagOfWords(), OfflineReasoner)
    base = inspect(copy, "toy")
    row = base.rows[0]
    later = replace(row.tuple, action="wait", generation=1)
    new = replace(row, tuple=later)
    extend(copy, base.generation, [new], BagOfWords(), tasks=(), settings={})
    assert len(inspect(copy, "toy").rows) == len(base.rows) + 1
    earlier = inspect(copy, "toy", 0)
    assert earlier.rows == base.rows
    assert earlier.generation == base.generation
    with reading(copy) as store:
        assert store.load("toy", 0).rows == earlier.rows


def test_the_writer_is_named_with_its_age(copy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.05)
    with writing(copy), pytest.raises(MemoryStoreError, match=r"process \d+ on .*, for \d+ s"):
        build(copy, expert_trajectories(), BagOfWords(), OfflineReasoner, rebuild=True)
    assert not locks.is_held(copy)


def test_refreshing_gives_the_newest_generation(at: Places) -> None:
    copy = at()
    build(copy, expert_trajectories(), BagOfWords(), OfflineReasoner)
    memory = Memory.open(copy, "toy", embedder=BagOfWords())
    assert memory.refresh() is memory
    one = memory.rows[0].tuple.id
    hide(copy, memory.record, [one], settings={})
    newer = memory.refresh()
    assert newer.record.hidden == (one,)
    assert memory.record.hidden == ()
    with pytest.raises(ValueError, match="opened from a location"):
        memory.with_rows(()).refresh()


if __name__ == "__main__":  # python -m tests.memory.test_concurrency PLACE READERS ROUNDS
    location = sys.argv[1]
    build(location, expert_trajectories(), BagOfWords(), OfflineReasoner)
    print(  # noqa: T201 - a command
        read_beside_a_writer(location, *map(int, sys.argv[2:])), "readings, none torn"
    )
