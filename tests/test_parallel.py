"""Many items in threads of one process; `tests/run/test_engine.py` has them in processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field

import pytest
from pydantic_core import SchemaValidator, core_schema

from ldm.errors import BudgetSpent, LdmError
from ldm.parallel import interruptible, map_concurrently, map_in_threads, raise_if_interrupted


@dataclass(frozen=True)
class Done:
    index: int
    made_by: str


@dataclass
class Log:
    """What the workers of one map did."""

    built: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    most: int = 0
    busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Build:
    """Workers that share a log. fail: raised at the item 5. slow: seconds that an item takes."""

    log: Log = field(hash=False)
    fail: BaseException | None = None
    slow: float = 0.005

    def __call__(self) -> Work:
        self.log.built.append(threading.current_thread().name)
        return Work(self)


class Work:
    def __init__(self, build: Build) -> None:
        self.build = build

    def __call__(self, item: int) -> Done:
        log = self.build.log
        with log.lock:
            log.begun.append(item)
            log.busy += 1
            log.most = max(log.most, log.busy)
        if item == 5 and self.build.fail is not None:
            raise self.build.fail
        time.sleep(self.build.slow)
        with log.lock:
            log.busy -= 1
        return Done(item, f"{os.getpid()} {threading.current_thread().name}")

    def close(self) -> None:
        self.build.log.closed.append(threading.current_thread().name)


def mapped(build: Build, items: int = 20, workers: int = 4) -> list[Done]:
    result: list[Done] = []
    map_in_threads(build, range(items), workers=workers, on_result=result.append)
    return result


def test_every_item_is_done_once_by_as_many_threads_as_asked_for() -> None:
    log = Log()
    result = mapped(Build(log))
    assert sorted(done.index for done in result) == list(range(20))
    assert len(log.built) == log.most == 4
    assert {done.made_by.split()[0] for done in result} == {str(os.getpid())}
    assert sorted(log.closed) == sorted(log.built)


@pytest.mark.parametrize("error", [LdmError("Five is refused."), BudgetSpent("All is spent.")])
def test_what_a_worker_raises_reaches_the_caller_and_no_further_item_is_begun(
    error: LdmError,
) -> None:
    log = Log()
    with pytest.raises(type(error), match=error.message):
        mapped(Build(log, fail=error), items=1000)
    begun = len(log.begun)
    time.sleep(0.05)
    assert len(log.begun) == begun < 100
    assert sorted(log.closed) == sorted(log.built)


def test_an_interrupt_does_not_wait_for_a_thread_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ldm.parallel.SHUTDOWN_SECONDS", 0.05)
    log, release = Log(), threading.Event()

    class Hanging(Work):
        def __call__(self, item: int) -> Done:
            log.begun.append(item)
            if len(log.begun) == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            release.wait(30)
            return Done(item, "")

    @dataclass(frozen=True)
    class Hangs:
        def __call__(self) -> Hanging:
            return Hanging(Build(log))

    started = time.monotonic()
    try:
        with interruptible(), pytest.raises(KeyboardInterrupt):
            map_in_threads(Hangs(), range(9), workers=2, on_result=lambda _: None)
        assert time.monotonic() - started < 15
    finally:
        release.set()


class Interrupting:
    """A value in a schema that the user interrupts while it is built."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __repr__(self) -> str:
        os.kill(os.getpid(), self.number)
        return "a value"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_library_turns_into_an_error_of_its_own_is_one(
    number: signal.Signals,
) -> None:
    schema = core_schema.literal_schema([Interrupting(number)])
    with pytest.raises(KeyboardInterrupt), interruptible():
        SchemaValidator(schema)
    with pytest.raises(ValueError, match="not one"), interruptible():
        raise ValueError("not one")


def test_an_interrupt_that_a_destructor_hides_ends_the_work_at_its_next_item() -> None:
    class Hides:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(100):
                pass  # the interpreter runs the handler here, and ignores what it raises

    raise_if_interrupted()
    with interruptible():
        Hides()
        with pytest.raises(KeyboardInterrupt), interruptible():
            raise_if_interrupted()
    raise_if_interrupted()


class TestAtOnce:
    def test_answers_in_the_order_of_the_items(self) -> None:
        everybody_in = threading.Barrier(3, timeout=20)

        def ask(item: int) -> int:
            everybody_in.wait()  # comes back only when three are asked at the same time
            return item * 10

        assert map_concurrently(ask, [3, 1, 2], 3) == [30, 10, 20]

    def test_asks_one_by_one_where_that_is_wanted(self) -> None:
        calls: list[int] = []

        def ask(item: int) -> str:
            calls.append(item)
            return threading.current_thread().name

        assert set(map_concurrently(ask, [1, 2, 3], 1)) == {threading.current_thread().name}
        assert calls == [1, 2, 3]

    def test_raises_the_first_failure_and_asks_no_further(self) -> None:
        calls: list[int] = []

        def ask(item: int) -> int:
            calls.append(item)
            if item == 0:
                raise ValueError("no answer")
            time.sleep(0.05)
            return item

        with pytest.raises(ValueError, match="no answer"):
            map_concurrently(ask, range(100), 2)
        assert len(calls) < 100
