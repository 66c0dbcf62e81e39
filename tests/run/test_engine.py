"""The engine: what is on disk after working, killing, resuming and merging."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from unittest.mock import Mock

import pytest

from ldm import records
from ldm.errors import Interrupted, LdmError, WorkerDied
from ldm.parallel import Backend
from ldm.run.engine import Session
from ldm.runs import Manifest, Run, create
from tests.llm.test_concurrency import until


@dataclass(frozen=True, slots=True)
class Square:
    """index, and the square of what came in; `made_by` is the process."""

    index: int
    value: int
    made_by: int


@dataclass(frozen=True, slots=True)
class Squarer:
    """Builds what a worker needs, and notes it in a log.

    die_at, raise_at, stop_at: the index of the item at which that happens. broken: it is not built.
    """

    log: str = ""
    die_at: int = -1
    raise_at: int = -1
    stop_at: int = -1
    broken: bool = False

    def __call__(self) -> Squarer:
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{os.getpid()}\n")
        if self.broken:
            raise LdmError("There is no memory.", "Build one.")
        return self


class SquareWorker:
    def __init__(self, build: Squarer) -> None:
        self.build = build

    def __call__(self, item: tuple[int, int]) -> Square:
        index, number = item
        if index == self.build.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == self.build.raise_at:
            raise LdmError("Seven is refused.", "Use eight.")
        if index == self.build.stop_at:
            signal.raise_signal(signal.SIGTERM)
        time.sleep(0.002)
        return Square(index, number * number, os.getpid())

    def close(self) -> None:
        pass


ITEMS = [(index, index + 10) for index in range(12)]
SQUARES = [(index + 10) ** 2 for index in range(12)]


@dataclass
class Elsewhere:
    """A cluster that is none: it works here, from the last item to the first."""

    workers: list[int] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)

    def map(
        self, build: Any, items: Sequence[Any], *, workers: int, on_result: Callable[[Any], None]
    ) -> None:
        self.workers.append(workers)
        work = build()
        for item in reversed(items):
            self.items.append(item)
            on_result(work(item))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(tmp_path / "runs", ("squares",), Manifest("eval", {}, {}))


def squared(
    run: Run,
    build: Squarer,
    items: Sequence[tuple[int, int]] = ITEMS,
    *,
    workers: int = 1,
    backend: Backend = "processes",
    on_result: Callable[[Square], None] = lambda _: None,
) -> list[Square]:
    """Square the items in a run."""
    turn = dict(enumerate(items))
    with Session(run, build, workers, backend).working() as session:
        return session.map(SquareWorker, lambda done: iter([turn]), Square, on_result)


def values(squares: list[Square]) -> list[int]:
    return [square.value for square in squares]


class TestWorking:
    @pytest.mark.parametrize("workers", [1, 2, pytest.param(3, marks=pytest.mark.process)])
    def test_any_number_of_workers_gives_the_same_in_the_same_order(
        self, workers: int, run: Run
    ) -> None:
        heard: list[Square] = []
        result = squared(run, Squarer(), workers=workers, on_result=heard.append)
        assert values(result) == SQUARES
        assert sorted(one.index for one in heard) == list(range(12))

    def test_processes_that_outlive_a_map_go_where_the_next_one_is(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("first", "second"):
            (tmp_path / name / "run").mkdir(parents=True)
            monkeypatch.chdir(tmp_path / name)
            here = replace(run, directory=Path("run"))
            assert values(squared(here, Squarer(), workers=2)) == SQUARES
            assert len(here.recorded(Square)) == 12

    def test_it_works_outside_the_main_thread(self, run: Run) -> None:
        with ThreadPoolExecutor() as pool:
            assert values(pool.submit(squared, run, Squarer()).result()) == SQUARES

    @pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.process)])
    def test_what_a_worker_raises_reaches_the_caller(self, workers: int, run: Run) -> None:
        with pytest.raises(LdmError, match=r"no memory\. Build one\."):
            squared(run, Squarer(broken=True), workers=workers)
        with pytest.raises(LdmError, match=r"Seven is refused\. Use eight\."):
            squared(run, Squarer(raise_at=7), workers=workers)

    def test_a_single_worker_works_in_the_calling_thread(self, run: Run, tmp_path: Path) -> None:
        log = tmp_path / "built"
        for backend in ("processes", "threads"):
            run.discard_parts()
            result = squared(run, Squarer(str(log)), backend=backend)
            assert {square.made_by for square in result} == {os.getpid()}
        assert log.read_text().split() == [str(os.getpid())] * 2

    def test_what_a_cluster_returns_is_recorded_here_and_not_worked_on_again(
        self, run: Run
    ) -> None:
        cluster = Elsewhere()
        squared(run, Squarer(), ITEMS[:4], workers=0, backend=cluster.map)
        assert [path.read_text().count("\n") for path in run.parts.iterdir()] == [4]
        assert values(squared(run, Squarer(), workers=3, backend=cluster.map)) == SQUARES
        assert sorted(cluster.items) == ITEMS
        assert cluster.workers == [0, 3]

    def test_items_of_a_later_turn_follow_from_the_records_and_may_repeat_earlier_ones(
        self, run: Run
    ) -> None:
        def turns(done: Mapping[int, Square]) -> Iterator[Mapping[int, tuple[int, int]]]:
            yield {0: (0, 2), 1: (1, 3)}
            yield {0: (0, done[0].value), 2: (2, done[1].value)}

        heard: list[int] = []
        for _ in range(2):
            with Session(run, Squarer()).working() as session:
                squares = session.map(
                    SquareWorker, turns, Square, lambda one: heard.append(one.index)
                )
            assert values(squares)[1:] == [9, 81]
        assert heard == [0, 1, 2] * 2  # not the second record of an item

    @pytest.mark.process
    def test_a_killed_worker_is_reported_with_the_way_to_go_on(self, run: Run) -> None:
        with pytest.raises(WorkerDied, match="died") as caught:
            squared(run, Squarer(die_at=6), workers=2)
        assert f"ldm eval --resume {run.directory}" in caught.value.remedy
        assert values(squared(run, Squarer(), workers=2)) == SQUARES

    def test_sigterm_keeps_what_is_recorded_and_says_how_to_go_on(self, run: Run) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(Interrupted, match="5 of 12 are recorded") as caught:
            squared(run, Squarer(stop_at=5), workers=1)
        assert "--resume" in caught.value.remedy
        assert signal.getsignal(signal.SIGTERM) == before
        assert sorted(run.recorded(Square)) == [0, 1, 2, 3, 4]

    # A thread of joblib's pool dies of a KeyError where it sends a worker one more item while
    # another thread stops the pool; the workers are killed before.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    @pytest.mark.process
    def test_an_interrupt_stops_the_workers_too(self, run: Run) -> None:
        with pytest.raises(Interrupted):
            squared(run, Squarer(), workers=2, on_result=Mock(side_effect=KeyboardInterrupt))
        assert values(squared(run, Squarer(), workers=2)) == SQUARES

    def test_what_a_thread_finishes_while_a_run_stops_is_recorded(self, run: Run) -> None:
        def stop(_: Square) -> None:
            until(lambda: len(run.recorded(Square)) > 1)  # not only the first, of which it is told
            raise KeyboardInterrupt

        with pytest.raises(Interrupted):
            squared(run, Squarer(), workers=2, backend="threads", on_result=stop)

    @pytest.mark.parametrize("space", [0, 3])
    def test_a_full_disk_is_a_clear_message_and_can_be_gone_on_from(
        self, space: int, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append = records.append
        written: list[object] = []

        def full(file: IO[str], record: object) -> None:
            if len(written) == space:
                file.write('{"torn')
                raise OSError(28, "No space left on device")
            written.append(record)
            append(file, record)

        with monkeypatch.context() as patch:
            patch.setattr(records, "append", full)
            with pytest.raises(LdmError, match="No space left on device") as caught:
                squared(run, Squarer(), workers=1)
        assert ("3 of 12 are recorded" in caught.value.remedy) == (space == 3)
        assert values(squared(run, Squarer(), workers=1)) == SQUARES


class TestResuming:
    def test_what_is_recorded_is_not_done_again(self, run: Run, tmp_path: Path) -> None:
        with pytest.raises(LdmError):
            squared(run, Squarer(raise_at=7), workers=1)
        recorded = run.recorded(Square)
        squares: list[Square] = []
        result = squared(run, Squarer(), workers=1, on_result=squares.append)
        assert values(result) == SQUARES
        assert [result[index] for index in recorded] == list(recorded.values())
        assert squares[: len(recorded)] == list(recorded.values())
        assert len(squares) == 12

    def test_a_torn_line_is_done_again_and_its_file_left_alone(self, run: Run) -> None:
        squared(run, Squarer(), ITEMS[:4], workers=1)
        (part,) = run.parts.glob("*.jsonl")
        part.write_bytes(part.read_bytes()[:-5])
        torn = part.read_bytes()
        assert sorted(run.recorded(Square)) == [0, 1, 2]
        assert values(squared(run, Squarer(), workers=1)) == SQUARES
        assert part.read_bytes() == torn
        assert sorted(run.recorded(Square)) == list(range(12))
