"""Archives, downloads and leftovers: what is damaged or made to harm is named and left behind."""

import io
import os
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ldm.envs import download
from ldm.envs.download import unpack
from ldm.errors import LdmError
from ldm.text import read_array
from ldm.worlds.alfworld import data
from tests.conftest import CHECKOUT


def packed(path: Path, name: str = "a.txt", content: bytes = b"hello " * 100) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return path.read_bytes()


def in_both_headers(whole: bytes, local: int, central: int, value: int) -> bytes:
    """The archive with a field of its only member changed, in both places where it stands."""
    changed = bytearray(whole)
    start = whole.index(b"PK\x01\x02")
    changed[local : local + 2] = struct.pack("<H", value)
    changed[start + central : start + central + 2] = struct.pack("<H", value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: in_both_headers(whole, 6, 8, 1), "encrypted"),
        (lambda whole: in_both_headers(whole, 8, 10, 99), "is damaged"),
        (lambda whole: whole.replace(b"a.txt", b"\x1b[2J\n"), "no proper place"),
    ],
    ids=["encrypted", "unknown method", "a name that acts"],
)
def test_a_bad_archive_is_named_and_nothing_is_written(
    tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    archive, place = tmp_path / "a.zip", tmp_path / "out"
    archive.write_bytes(change(packed(archive)))
    with pytest.raises(LdmError, match=message):
        unpack(archive, place)
    assert not place.exists() or not any(place.iterdir())


def test_one_that_unpacks_to_very_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_UNPACKED", 2**20)
    archive = tmp_path / "a.zip"
    packed(archive, content=b"0" * 2**24)
    with pytest.raises(LdmError, match="unpacks to 16 MB"):
        unpack(archive, tmp_path / "out")


def test_a_bad_download_does_not_block_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(url: str, file: Path, **_: object) -> str:
        file.write_bytes(b"no archive")
        return "0" * 64

    monkeypatch.setattr(download, "fetch", fetched)
    with pytest.raises(LdmError, match="is damaged") as refused:
        download.fetch_all(data.FILES[""], tmp_path)
    assert not any(tmp_path.iterdir())
    assert "emove" not in refused.value.remedy  # it is gone already


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (10**14, 384), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 384), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }",
        "[" * 500,
        "",
    ],
)
def test_an_array_whose_header_lies_is_a_value_error(tmp_path: Path, header: str) -> None:
    text = header.encode() + b"\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"0" * 100
    (tmp_path / "a.npy").write_bytes(content)
    for source, mapped in ((io.BytesIO(content), False), (tmp_path / "a.npy", True)):
        with pytest.raises(ValueError, match=r"."):
            read_array(source, mapped=mapped)


@pytest.mark.process
def test_a_terminated_import_leaves_nothing_hidden(tmp_path: Path) -> None:
    source = CHECKOUT / "data/trajectories"
    program = (
        "import sys, time, ldm.records as r\n"
        "plain = r.dumps\n"
        "r.dumps = lambda record: (time.sleep(0.05), plain(record))[1]\n"
        "from ldm.cli.app import main\n"
        f"sys.argv = ['ldm', 'import', {str(source)!r}, '--out', 'out.jsonl']\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 60
        while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
    assert not any(tmp_path.iterdir())
