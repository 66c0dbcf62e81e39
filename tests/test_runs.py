"""The files of a run: what is created, opened, locked and compared."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ldm import runs
from ldm.errors import LdmError
from ldm.runs import Manifest, Run, create, differences, open_run
from ldm.types import stable_hash


@pytest.fixture
def run(tmp_path: Path) -> Run:
    manifest = Manifest("eval", {"k": 5}, {"dialect": "put"})
    return create(tmp_path / "runs", ("alfworld", "valid seen/ö", "ldm"), manifest)


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
        assert values["fingerprint"] == stable_hash({"dialect": "put"})
        assert values["schema_version"] == runs.SCHEMA_VERSION

    def test_a_directory_that_is_no_run_is_refused_with_the_nearest_one(self, run: Run) -> None:
        for name, remedy in (("x", run.manifest.id), ("?" * 99, "The newest")):
            with pytest.raises(LdmError, match="is not a run") as caught:
                open_run(run.manifest.id + name, run.directory.parent)
            assert remedy in caught.value.remedy

    @pytest.mark.parametrize("version", [1, 99])
    def test_a_run_of_another_format_is_refused(self, version: int, run: Run) -> None:
        path = run.directory / "run.json"
        own = f'"schema_version": {runs.SCHEMA_VERSION}'
        path.write_text(path.read_text().replace(own, f'"schema_version": {version}'))
        with pytest.raises(LdmError, match=f"has the format {version}; this version of ldm"):
            open_run(str(run.directory), Path())


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


def test_nothing_may_learn_from_the_sources_of_its_tasks(tmp_path: Path) -> None:
    protocol, sources = {"tasks": ["test/1", "test/2"]}, {"sources": {"test/2": "a product"}}
    run = create(tmp_path, ["eval"], Manifest("eval", {}, protocol, sources))
    assert open_run(run.manifest.id, tmp_path).leak_keys == {"test/1", "a product"}


class TestFingerprints:
    def test_equal_protocols_have_equal_fingerprints_whatever_the_order(self) -> None:
        assert stable_hash({"a": 1, "b": (2,)}) == stable_hash({"b": [2], "a": 1})

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
