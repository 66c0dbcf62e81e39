"""Chroma's index files hold nothing but what was written to them."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from ldm.memory.access import reading

from ldm.memory import index_files

MARK = b"sk-in-the-memory-of-the-process!"
TAIL = len(MARK) * 4


def files(place: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.glob(f"*/{index_files.ELEMENTS}")
    }


def unset(place: Path) -> bytes:
    """What all index files of a directory hold behind their elements."""
    rest = b""
    for path in place.glob(f"*/{index_files.HEADER}"):
        _, _, _, elements, size = struct.unpack_from("<i4Q", path.read_bytes())
        rest += path.with_name(index_files.ELEMENTS).read_bytes()[elements * size :]
        rest += path.with_name(index_files.LENGTHS).read_bytes()[elements * 4 :]
    return rest


@pytest.fixture
def copy(toy: Path, tmp_path: Path) -> Path:
    return shutil.copytree(toy, tmp_path / "memory")


def spoil(place: Path) -> int:
    """Put the mark behind the elements of all indices; return how many bytes were put."""
    put = 0
    for path in place.glob(f"*/{index_files.ELEMENTS}"):
        path.write_bytes(path.read_bytes() + MARK * 4)
        put += TAIL
    return put


WRITE = """
import sys
from ldm.memory import build
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.toy import expert_trajectories
build(sys.argv[1], expert_trajectories(), BagOfWords(), OfflineReasoner)
"""
READ = """
import sys
from ldm.memory.access import reading
with reading(sys.argv[1]) as store:
    assert store.load("toy").rows
"""


@pytest.mark.process
@pytest.mark.parametrize("code", [WRITE, READ])
def test_nothing_of_the_process_is_left_in_them(code: str, copy: Path, tmp_path: Path) -> None:
    place = copy if code == READ else tmp_path / "new"
    # Memory that is not initialised is full of one byte in this process (glibc's).
    filled = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.perturb=165"}
    subprocess.run([sys.executable, "-c", code, str(place)], env=filled, check=True)
    assert unset(place)
    assert not any(unset(place))


def test_what_a_killed_process_left_is_cleared_by_the_next(copy: Path) -> None:
    assert spoil(copy)
    with reading(str(copy)) as store:
        assert [*store.complete()] == ["toy"]
    assert files(copy)
    assert not any(MARK in content for content in files(copy).values())


def test_files_that_others_have_open_are_left_to_them(copy: Path) -> None:
    others = index_files.joined(copy)
    assert spoil(copy)
    index_files.clear_if_last(copy)
    assert all(MARK in content for content in files(copy).values())
    others.close()
    index_files.clear_if_last(copy)
    assert not any(MARK in content for content in files(copy).values())


@pytest.mark.parametrize("damage", [b"", b"\x02" * 100, b"\x01" + b"\xff" * 99])
def test_an_index_of_an_unknown_form_is_left_alone(copy: Path, damage: bytes) -> None:
    spoil(copy)
    for header in copy.glob(f"*/{index_files.HEADER}"):
        header.write_bytes(damage)
    index_files.clear_unset(copy)
    assert all(MARK in content for content in files(copy).values())
