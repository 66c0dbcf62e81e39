"""A few megabytes never take gigabytes: not of memory, not of output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ldm import records
from ldm.records import MOST_LISTED, MOST_TOLD
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tests.test_types import TRAJECTORY

#: MiB that a command may take, whatever it reads; a sound file of one line takes 70.
LIMIT = 512
#: Bytes that it may print.
OUTPUT = 20_000
SOUND = records.dumps(TRAJECTORY)


def with_steps(steps: str) -> str:
    return json.dumps({**json.loads(SOUND), "steps": "HERE"}).replace('"HERE"', f"[{steps}]")


#: What is small on the disk → its line.
LINES = {
    "1.6 million empty steps": lambda: with_steps(",".join(["{}"] * 1_600_000)),
    "as many as are allowed": lambda: with_steps(",".join(["{}"] * 262_000)),
    "unknown fields": lambda: SOUND[:-1] + "".join(f',"a{i}":0' for i in range(520_000)) + "}",
    "numbers": lambda: with_steps("0," * 2_000_000 + "0"),
    "lists": lambda: with_steps("[" * 150 + "]" * 150 + (",[" + "[]," * 500_000 + "[]]")),
    "recalls": lambda: with_steps(
        '{"action":"a","observation":"b","recalls":[' + ",".join(["[]"] * 500_000) + "]}"
    ),
}
COMMANDS = ("import FILE --out out.jsonl", "validate FILE --type trajectory --json")


#: Runs a command and notes its peak of memory: the system would count that of its parent, too.
PROGRAM = """
import atexit, pathlib, re, sys
from ldm.cli.app import main
def note():
    status = pathlib.Path("/proc/self/status").read_text()
    pathlib.Path("peak").write_text(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1])
atexit.register(note)
main()
"""


def peak(words: list[str], folder: Path) -> tuple[int, str, float]:
    """Run a command; return its exit status, all that it printed, and its memory in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, int((folder / "peak").read_text()) / 1024


@pytest.mark.process
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", LINES)
def test_a_line_of_many_values_takes_little_memory(tmp_path: Path, name: str, command: str) -> None:
    (tmp_path / "a.jsonl").write_text(LINES[name]() + "\n" + SOUND + "\n")
    code, printed, mebibytes = peak(command.replace("FILE", "a.jsonl").split(), tmp_path)
    assert mebibytes < LIMIT
    assert len(printed) < OUTPUT
    assert "Error inside ldm" not in printed
    if command.startswith("validate"):
        (file,) = json.loads(printed)["files"]
        assert (code, file["records"]) == (1, 1)
        assert file["problems"][0]["line"] == 1
    else:
        assert (code, records.read(tmp_path / "out.jsonl", Trajectory)) == (0, [TRAJECTORY])


def test_a_sound_trajectory_of_ten_thousand_steps_is_read() -> None:
    step = {"action": "go", "observation": "[button] x, y", "recalls": [["a" * 16, 0.5]] * 5}
    line = with_steps(",".join([json.dumps(step)] * 10_000))
    assert isinstance(records.parse(line, Trajectory, "a", 1), Trajectory)


def test_a_list_names_its_first_bad_item_with_all_of_its_fields() -> None:
    problem = records.check_line(with_steps('{"action":"a","observation":"b"},{},{}'), Trajectory)
    assert [one.field for one in problem] == ["steps.1.action", "steps.1.observation"]


@pytest.mark.parametrize(
    ("unknown", "listed"), [(3, 3), (MOST_LISTED + 5, MOST_LISTED + 1), (MOST_TOLD + 1, 1)]
)
def test_so_many_problems_of_a_line_are_listed_and_the_rest_is_counted(
    unknown: int, listed: int
) -> None:
    line = SOUND[:-1] + "".join(f',"a{i}":0' for i in range(unknown)) + "}"
    problems = records.check_line(line, Trajectory)
    assert len(problems) == listed
    if listed == MOST_LISTED + 1:
        assert problems[-1].message == "5 more fields do not fit"
    if listed == 1:
        assert problems[0].message == f"{unknown:,} fields are unknown or do not fit"
