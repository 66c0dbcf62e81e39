"""Runs: what is on disk after creating, killing, resuming and merging."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pytest

from ldm import records, runs
from ldm.errors import Interrupted, LdmError, RecordError, WorkerDied
from ldm.runs import Manifest, Run, create, differences, fingerprint, open_run, run_items


@dataclass(frozen=True, slots=True)
class Square:
    """index, and the square of what came in; `made_by` is the process."""

    index: int
    value: int
    made_by: int


@dataclass(frozen=True, slots=True)
class Squarer:
    """Builds a worker. die_at, raise_at, stop_at: what happens at the item with that index."""

    log: str = ""
    die_at: int = -1
    raise_at: int = -1
    stop_at: int = -1

    def __call__(self) -> SquareWorker:
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{os.getpid()}\n")
        return SquareWorker(self)


class SquareWorker:
    def __init__(self, build: Squarer) -> None:
        self.build = build
        self.closed = False

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
        self.closed = True


ITEMS = [(index, index + 10) for index in range(12)]
SQUARES = [(index + 10) ** 2 for index in range(12)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    manifest = Manifest(command="eval", arguments={"k": 5}, protocol={"dialect": "put"})
    return create(tmp_path / "runs", ("alfworld", "valid seen/ö", "ldm"), manifest)


def values(squares: list[Square]) -> list[int]:
    return [square.value for square in squares]


class TestTheDirectory:
    def test_a_run_is_opened_by_its_path_and_by_its_id(self, run: Run) -> None:
        assert open_run(str(run.directory), Path("elsewhere")) == run
        assert open_run(run.manifest.id, run.directory.parent) == run

    def test_an_id_is_readable_sortable_and_unique(self, run: Run) -> None:
        again = create(run.directory.parent, ("alfworld", "valid seen/ö", "ldm"), run.manifest)
        assert run.manifest.id.startswith("alfworld-valid_seen_-ldm-20")
        assert again.manifest.id != run.manifest.id

    def test_run_json_says_with_which_code_it_was_made(self, run: Run) -> None:
        values = json.loads((run.directory / "run.json").read_text())
        assert values["code"]["version"]
        assert values["fingerprint"] == fingerprint({"dialect": "put"})
        assert values["schema_version"] == runs.SCHEMA_VERSION

    def test_outside_a_git_checkout_there_is_no_commit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runs, "__file__", str(tmp_path / "ldm" / "runs.py"))
        assert runs.code_version()["commit"] == ""

    def test_a_directory_that_is_no_run_is_refused_with_the_nearest_one(self, run: Run) -> None:
        with pytest.raises(LdmError, match="is not a run") as caught:
            open_run(run.manifest.id + "x", run.directory.parent)
        assert run.manifest.id in caught.value.remedy

    def test_where_there_are_no_runs_the_message_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(LdmError, match="There are no runs"):
            open_run("some", tmp_path)

    def test_an_unlike_name_is_answered_with_the_newest_run(self, run: Run) -> None:
        with pytest.raises(LdmError, match="The newest"):
            open_run("?", run.directory.parent)

    def test_a_run_of_a_later_version_is_refused(self, run: Run) -> None:
        path = run.directory / "run.json"
        path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
        with pytest.raises(LdmError, match="later version"):
            open_run(str(run.directory), Path())

    def test_a_damaged_run_json_is_named(self, run: Run) -> None:
        (run.directory / "run.json").write_text('{"command": "eval"}')
        with pytest.raises(RecordError, match=r"run\.json"):
            open_run(str(run.directory), Path())

    def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(LdmError, match="cannot be written"):
            create(tmp_path / "file", ("a",), Manifest("eval", {}, {}))
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_a_run_in_which_nothing_happened_can_be_removed(self, run: Run) -> None:
        with run.lock():
            pass
        run.remove()
        assert list(run.directory.parent.iterdir()) == []


class TestTheLock:
    def test_a_second_process_is_refused_and_told_who_holds_it(self, run: Run) -> None:
        code = (
            "from pathlib import Path; from ldm.runs import open_run; import sys\n"
            "try:\n"
            f"  with open_run({str(run.directory)!r}, Path()).lock(): pass\n"
            "except Exception as error: sys.exit(str(error))\n"
        )
        command = [sys.executable, "-c", code]
        with run.lock():
            refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert f"process {os.getpid()}" in refused.stderr
        assert subprocess.run(command, check=False).returncode == 0

    def test_a_lock_left_by_a_dead_process_holds_nobody_up(self, run: Run) -> None:
        (run.directory / "lock").write_text("process 1")
        with run.lock():
            assert (run.directory / "lock").read_text() == f"process {os.getpid()}"

    def test_it_clears_away_what_a_killed_writer_left(self, run: Run) -> None:
        (run.directory / ".episodes.jsonl.123.tmp").write_text("half")
        with run.lock():
            assert not list(run.directory.glob(".*.tmp"))


class TestTheMap:
    @pytest.mark.parametrize("workers", [1, 2, 3])
    def test_any_number_of_workers_gives_the_same_in_the_same_order(
        self, workers: int, run: Run
    ) -> None:
        squares: list[int] = []
        result = run_items(
            run,
            Squarer(),
            ITEMS,
            Square,
            workers=workers,
            on_result=lambda square: squares.append(square.index),
        )
        assert values(result) == SQUARES
        assert sorted(squares) == list(range(12))
        assert values(list(run.recorded(Square).values())) != []

    def test_each_process_builds_its_worker_once(self, run: Run, tmp_path: Path) -> None:
        log = tmp_path / "built"
        result = run_items(run, Squarer(str(log)), ITEMS, Square, workers=2)
        built = log.read_text().split()
        assert len(built) == len(set(built)) <= 2
        assert {str(square.made_by) for square in result} <= set(built)
        assert str(os.getpid()) not in built

    def test_processes_that_outlive_a_map_go_where_the_next_one_is(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("first", "second"):
            (place := tmp_path / name).mkdir()
            monkeypatch.chdir(place)
            (place / "run").mkdir()
            here = replace(run, directory=Path("run"))
            assert values(run_items(here, Squarer(), ITEMS, Square, workers=2)) == SQUARES
            assert len(here.recorded(Square)) == 12

    def test_no_item_needs_no_worker(self, run: Run, tmp_path: Path) -> None:
        log = tmp_path / "built"
        assert run_items(run, Squarer(str(log)), [], Square, workers=2) == []
        assert not log.exists()

    def test_it_works_outside_the_main_thread(self, run: Run) -> None:
        result: list[Square] = []
        thread = threading.Thread(
            target=lambda: result.extend(run_items(run, Squarer(), ITEMS, Square, workers=1))
        )
        thread.start()
        thread.join()
        assert values(result) == SQUARES

    @pytest.mark.parametrize("workers", [1, 2])
    def test_what_a_worker_raises_reaches_the_caller(self, workers: int, run: Run) -> None:
        with pytest.raises(LdmError, match=r"Seven is refused\. Use eight\."):
            run_items(run, Squarer(raise_at=7), ITEMS, Square, workers=workers)

    def test_a_killed_worker_is_reported_with_the_way_to_go_on(self, run: Run) -> None:
        with pytest.raises(WorkerDied, match="died") as caught:
            run_items(run, Squarer(die_at=6), ITEMS, Square, workers=2)
        assert f"ldm eval --resume {run.directory}" in caught.value.remedy
        assert values(run_items(run, Squarer(), ITEMS, Square, workers=2)) == SQUARES

    def test_sigterm_keeps_what_is_recorded_and_says_how_to_go_on(self, run: Run) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(Interrupted, match="5 of 12 are recorded") as caught:
            run_items(run, Squarer(stop_at=5), ITEMS, Square, workers=1)
        assert "--resume" in caught.value.remedy
        assert signal.getsignal(signal.SIGTERM) == before
        assert sorted(run.recorded(Square)) == [0, 1, 2, 3, 4]

    def test_an_interrupt_stops_the_workers_too(self, run: Run) -> None:
        def stop(square: Square) -> None:
            raise KeyboardInterrupt

        with pytest.raises(Interrupted):
            run_items(run, Squarer(), ITEMS, Square, workers=2, on_result=stop)
        assert values(run_items(run, Squarer(), ITEMS, Square, workers=2)) == SQUARES

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
                run_items(run, Squarer(), ITEMS, Square, workers=1)
        assert ("3 of 12 are recorded" in caught.value.remedy) == (space == 3)
        assert values(run_items(run, Squarer(), ITEMS, Square, workers=1)) == SQUARES


class TestResuming:
    def test_what_is_recorded_is_not_done_again(self, run: Run, tmp_path: Path) -> None:
        with pytest.raises(LdmError):
            run_items(run, Squarer(raise_at=7), ITEMS, Square, workers=1)
        recorded = run.recorded(Square)
        squares: list[Square] = []
        result = run_items(run, Squarer(), ITEMS, Square, workers=1, on_result=squares.append)
        assert values(result) == SQUARES
        assert [result[index] for index in recorded] == list(recorded.values())
        assert squares[: len(recorded)] == list(recorded.values())
        assert len(squares) == 12

    def test_a_torn_line_is_done_again_and_its_file_left_alone(self, run: Run) -> None:
        run_items(run, Squarer(), ITEMS[:4], Square, workers=1)
        (part,) = run.parts.glob("*.jsonl")
        part.write_bytes(part.read_bytes()[:-5])
        torn = part.read_bytes()
        assert sorted(run.recorded(Square)) == [0, 1, 2]
        assert values(run_items(run, Squarer(), ITEMS, Square, workers=1)) == SQUARES
        assert part.read_bytes() == torn
        assert sorted(run.recorded(Square)) == list(range(12))

    def test_a_damaged_line_within_a_file_is_named(self, run: Run) -> None:
        run_items(run, Squarer(), ITEMS[:4], Square, workers=1)
        (part,) = run.parts.glob("*.jsonl")
        lines = part.read_text().splitlines()
        part.write_text("\n".join([lines[0], lines[1][:-3], *lines[2:]]) + "\n")
        with pytest.raises(RecordError, match=":2"):
            run_items(run, Squarer(), ITEMS, Square, workers=1)

    def test_a_line_recorded_twice_counts_once(self, run: Run) -> None:
        run_items(run, Squarer(), ITEMS, Square, workers=1)
        (part,) = run.parts.glob("*.jsonl")
        (run.parts / "orphan.jsonl").write_text(part.read_text())
        assert len(run_items(run, Squarer(), ITEMS, Square, workers=1)) == 12


class TestFingerprints:
    def test_equal_protocols_have_equal_fingerprints_whatever_the_order(self) -> None:
        assert fingerprint({"a": 1, "b": (2,)}) == fingerprint({"b": [2], "a": 1})

    def test_differences_are_named_by_their_path(self) -> None:
        first = {"dialect": "put", "data": {"hash": "a"}, "tasks": ["1", "2"], "same": 1}
        second = {"dialect": "move", "data": {"hash": "b"}, "tasks": ["2", "3"], "same": 1}
        assert differences(first, second) == [
            "data.hash: 'a' and 'b'",
            "dialect: 'put' and 'move'",
            "tasks: 1 only in the first (e.g. 1), 1 only in the second (e.g. 3)",
        ]

    def test_another_order_of_tasks_is_a_difference(self) -> None:
        assert differences({"tasks": [1, 2]}, {"tasks": [2, 1]})
        assert differences({"tasks": [1, 2]}, {"tasks": (1, 2)}) == []
