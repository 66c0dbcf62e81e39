"""A growing memory in several processes: killed, forked, idle, and started at one time."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ldm.memory import inspect
from ldm.memory.verifying import verify
from tests.conftest import CHECKOUT
from tests.memory.desk import episode, opened, told

pytestmark = pytest.mark.process
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
#: Adds episodes for ever, and says after each that it is there.
ADDING = """
import sys
from tests.memory.desk import episode, fold_here, opened
from ldm.memory.growing import GrowingMemory
GrowingMemory._start_folding = fold_here
memory = opened(sys.argv[1], batch_size=4)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    memory.add(episode(number))
    print(number, flush=True)
"""


def started(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)


@pytest.mark.usefixtures("folds_here")
def test_a_killed_process_loses_nothing_that_it_added(place: Path) -> None:
    generator, reported = random.Random(5), set[int]()
    for start in (0, 1_000, 2_000):
        with started(ADDING, place, start, start + 900) as process:
            assert process.stdout is not None
            for _ in range(5):
                reported.add(int(process.stdout.readline()))
            time.sleep(generator.uniform(0, 0.3))
            os.kill(process.pid, signal.SIGKILL)
            reported.update(map(int, process.stdout.read().split()))
        memory = opened(place, batch_size=4)
        present = {one.tuple.goal for one in memory.recall("answer", "asked", k=100_000)}
        assert {f"answer question {number}" for number in reported} <= present
    memory.fold()
    assert verify(str(place), "desk") == []
    rows = inspect(str(place), "desk").rows
    assert len({row.tuple.id for row in rows}) == len(rows) == len(memory)


@pytest.mark.usefixtures("folds_here")
def test_processes_add_beside_each_other_while_an_idle_one_looks_on(place: Path) -> None:
    idle = opened(place)
    processes = [started(ADDING, place, start, start + 12) for start in (0, 100)]
    for process in processes:
        assert process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0]
    assert len(idle) == 48
    newest = idle.fold()
    assert newest is not None
    assert newest.tuples == 48


#: Several threads record and recall as soon as the process has started and forms its first batch.
FIRST = """
import sys, threading
from tests.memory.desk import opened, told
memory, errors = opened(sys.argv[1], batch_size=4), []
def work(thread):
    try:
        told(memory, f"goal {thread}", ("seen", "act"), score=thread % 2)
        memory.feedback(memory.recall(f"goal {thread}", "seen"), 1)
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
memory.close()
print(errors, len(memory))
"""


@pytest.mark.slow
def test_fresh_processes_form_their_first_batch_beside_threads(place: Path) -> None:
    processes = [started(FIRST, place / str(number)) for number in range(20)]
    outputs = {process.communicate(timeout=300)[0].strip() for process in processes}
    assert outputs == {"[] 4"}


def in_a_fork(work: Callable[[], object], limit: float = 30.0) -> int:
    """Do something in a fork of this process; return its exit status, -9 if it hangs."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -9


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.usefixtures("folds_here")
def test_a_fork_uses_the_memory_whatever_threads_do(place: Path) -> None:
    memory = opened(place, batch_size=4)
    for number in range(6):
        memory.add(episode(number))
    stop = threading.Event()

    def busy() -> None:
        number = 100
        while not stop.is_set():
            memory.add(episode(number))
            number += 1
            time.sleep(0.02)  # thousands would be learnt from

    thread = threading.Thread(target=busy)
    thread.start()
    try:

        def work() -> None:
            memory.batch_size = 1_000  # batches have processes of their own; OpenMP hangs in forks
            pid = os.getpid()
            running = memory.begin(f"goal of {pid}")
            running.step("seen", "act")
            running.finish(1)
            assert memory.recall(f"goal of {pid}", "seen")[0].tuple.action == "act"
            opened(place).recall("answer question 1", "asked 1")
            memory.feedback(memory.recall("answer question 1", "asked 1"), 1.0)

        statuses = [in_a_fork(work) for _ in range(4)]
    finally:
        stop.set()
        thread.join()
    assert statuses == [0, 0, 0, 0]
    goals = {one.tuple.goal for one in memory.recall("goal of", "seen", k=100_000)}
    assert sum(goal.startswith("goal of ") for goal in goals) == 4


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.slow
def test_a_fork_forms_a_batch_after_its_parent_did(place: Path) -> None:
    memory = opened(place, batch_size=2)
    for number in range(2):
        told(memory, f"goal {number}", ("seen", "act"))
    memory.close()

    def work() -> None:
        for number in range(2, 4):
            told(memory, f"goal {number}", ("seen", "act"))
        memory.close()
        assert memory.pending == 0

    assert in_a_fork(work, 60) == 0
    assert (len(memory), memory.pending) == (4, 0)
