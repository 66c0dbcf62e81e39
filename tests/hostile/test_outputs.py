"""Writing to a place: a device stays one, a link stays one, and nothing is replaced by surprise."""

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ldm import records
from ldm.errors import LdmError
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tests.toy import expert_trajectories

EPISODES = expert_trajectories()[:3]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.jsonl"
    records.write(path, EPISODES)
    return path


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "ldm", *map(str, words)]


def test_a_pipe_gets_what_is_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    records.write(pipe, EPISODES)
    reader.join()
    assert pipe.is_fifo()
    assert received[0].count(b"\n") == 3


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "deep" / "target.jsonl", tmp_path / "link.jsonl"
    target.parent.mkdir()
    if there:
        target.write_text("old")
        target.chmod(0o600)
    link.symlink_to("deep/target.jsonl")
    records.write(link, EPISODES)
    assert link.is_symlink()
    assert records.read(target, Trajectory) == EPISODES
    if there:
        assert stat.S_IMODE(target.stat().st_mode) == 0o600


def folder(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("make", [folder, listening, loop])
def test_what_is_neither_is_refused_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make(Path("out.jsonl"))
    before = os.lstat("out.jsonl").st_ino
    with pytest.raises(LdmError, match=r"out\.jsonl"):
        records.write(Path("out.jsonl"), EPISODES)
    assert os.lstat("out.jsonl").st_ino == before
    assert os.listdir() == ["out.jsonl"]


@pytest.mark.process
def test_a_file_behind_standard_output_is_not_replaced(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.jsonl"
    out.write_text("before\n")
    with out.open("a") as file:
        subprocess.run(
            command("import", source, "--out", "/dev/stdout"), stdout=file, check=True, cwd=CHECKOUT
        )
    assert out.read_bytes() == b"before\n" + source.read_bytes()


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out.jsonl"
    left = tmp_path / ".out.jsonl.123.tmp"
    left.write_text("half")
    with records.replaced(out) as first:
        assert not left.exists()
        first.write_text("first")
        with records.replaced(out) as second:
            second.write_text("second")
        assert first.read_text() == "first"
    assert out.read_text() == "first"
    assert list(tmp_path.iterdir()) == [out]
