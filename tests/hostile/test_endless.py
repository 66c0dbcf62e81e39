"""What never ends is no input: pipes and devices are refused, by whatever name they are given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from ldm import records
from ldm.errors import LdmError
from ldm.memory import snapshot
from ldm.memory.opening import known_generations
from ldm.text import check_file
from tests.cli.conftest import Run, run
from tests.conftest import CHECKOUT
from tests.hostile.flips import small_memory
from tests.toy import expert_trajectories

__all__ = ["run"]

#: Seconds that any command may take.
PATIENCE = 30
#: Every command that takes a file, with the name under which it gets it.
COMMANDS = {
    "import FILE --out out.jsonl": ("a.jsonl", "a.jsonl.gz", "a.json", "a.parquet"),
    "import FOLDER --out out.jsonl": ("a.jsonl", "a.json"),
    "validate FILE": ("a.jsonl", "a.jsonl.gz", "a"),
    "validate FILE --type trajectory": ("a.jsonl", "a"),
    "build-memory FILE --memory new": ("a.jsonl", "a.json", "a.parquet"),
    "memory import FILE --memory new": ("a.jsonl", "a.ldmpack", "a"),
    "memory merge FILE FILE --memory new": ("a.ldmpack",),
    "memory diff FILE FILE": ("a.ldmpack",),
    "memory forget --source FILE": ("a.jsonl",),
    "llm usage FILE": ("llm.jsonl",),
    "llm usage FOLDER": ("llm.jsonl",),
    "llm usage sound.jsonl --prices FILE": ("prices.json",),
    "llm ask hello --llm m --replay FILE": ("llm.jsonl",),
    "eval --env tests.toy:ToyEnv --agent random --tasks FILE": ("ids.txt",),
    "eval --env textcraft --agent autoplan --llm m --plans FOLDER": ("a.json", "textcraft.json"),
    "eval --resume FOLDER": ("run.json",),
    "compare FOLDER FOLDER": ("run.json",),
    "runs tree FOLDER": ("run.json",),
    "memory credit FOLDER": ("run.json",),
    "data check webshop FOLDER": ("items_shuffle.json",),
    "data check hotpotqa FOLDER": ("hotpot_dev_distractor_v1.json",),
}
CASES = [(command, name) for command, names in COMMANDS.items() for name in names]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_terminal(path: Path) -> None:
    path.symlink_to("/dev/ptmx")  # opening it makes one, on which nobody types


ENDLESS = (pipe, link_to_a_pipe, link_to_zeros, link_to_a_terminal)


@pytest.fixture
def patience() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still waiting after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("make", ENDLESS, ids=lambda make: make.__name__)
def test_no_command_waits_for_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    small_memory(tmp_path / ".ldm")
    Path("sound.jsonl").write_text("")
    wrong = []
    for number, (command, name) in enumerate(CASES):
        file = tmp_path / str(number) / name
        file.parent.mkdir()
        make(file)
        words = command.replace("FILE", str(file)).replace("FOLDER", str(file.parent)).split()
        outcome = run(*words)
        left = [place for place in ("out.jsonl", "new") if Path(place).exists()]
        if outcome.code != 1 or "Error inside ldm" in outcome.err or left:
            wrong.append((command, name, outcome, left))
    assert not wrong


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("make", ENDLESS, ids=lambda make: make.__name__)
def test_a_memory_with_one_in_it_is_read_from_its_database(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    memory = small_memory(tmp_path)
    sound = known_generations(str(memory))
    (manifest,) = memory.glob(f"{snapshot.SNAPSHOTS}/*/*/{snapshot.MANIFEST}")
    for file in (memory / snapshot.SNAPSHOTS / snapshot.CATALOG, manifest):
        file.unlink()
        make(file)
    assert known_generations(str(memory)) == sound


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/dev/zero", "a device"), ("/dev/full", "a device"), ("/dev/urandom", "a device")],
)
def test_a_device_is_called_one(path: str, kind: str) -> None:
    with pytest.raises(LdmError, match=f"{path} is {kind}, which may never end"):
        check_file(Path(path))


def test_what_ends_at_once_and_links_to_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").symlink_to("a")
    check_file(tmp_path / "b")
    check_file(Path("/dev/null"))


@pytest.mark.process
def test_what_the_shell_hands_over_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    records.write(file, expert_trajectories()[:2])
    ldm = f"{sys.executable} -m ldm.cli validate"
    for command in (f"cat {file} | {ldm} /dev/stdin", f"{ldm} <(cat {file})"):
        done = subprocess.run(
            ["bash", "-c", command], cwd=CHECKOUT, capture_output=True, text=True, check=True
        )
        assert "2 trajectory records, ok" in done.stdout
    endless = subprocess.run(
        ["bash", "-c", f"{ldm} --type trajectory /dev/stdin < /dev/zero"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (endless.returncode, "may never end" in endless.stdout) == (1, True)
