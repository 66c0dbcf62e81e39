"""Pictures: the file format, what is drawn, and what is said where nothing can be drawn."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ldm.errors import LdmError
from ldm.worlds.tabletop import Tabletop, TabletopOptions, physics
from ldm.worlds.tabletop.model import HEIGHT, WIDTH
from ldm.worlds.tabletop.pictures import png, save
from tests.worlds.tabletop.conftest import PHYSICS


def pixels(content: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Read a PNG of ours, with the checks of its chunks."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    place, data = 8, b""
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        name, body = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack(">I", content[place + 8 + length : place + 12 + length])
        assert checksum == zlib.crc32(name + body)
        if name == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert (depth, colour) == (8, 2)
        data += body if name == b"IDAT" else b""
        place += 12 + length
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + 3 * width)
    assert (rows[:, 0] == 2).all()
    picture: np.ndarray[Any, np.dtype[np.uint8]] = np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8)
    return picture.reshape(height, width, 3)


def drawn(env: Tabletop) -> Any:
    """The first picture of an environment; skip where there is no OpenGL."""
    try:
        return env.reset(env.tasks("test")[2])
    except LdmError as error:
        pytest.skip(error.message)


def test_a_picture_becomes_the_file_that_a_viewer_reads() -> None:
    picture = np.random.default_rng(3).integers(0, 256, (7, 5, 3), np.uint8)
    assert (pixels(png(picture)) == picture).all()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LdmError, match="cannot be written") as caught:
        save(tmp_path / "file", "test/kits/1", 0, np.zeros((1, 1, 3), np.uint8))
    assert "env.render" in caught.value.remedy


@pytest.mark.slow
@PHYSICS
def test_each_step_has_a_picture_and_forks_draw_none(tmp_path: Path) -> None:
    env = Tabletop(TabletopOptions(render=str(tmp_path)))
    drawn(env)
    env.fork().step("look")
    env.step("put the moon in a red bowl")
    env.step("put the red blocks in a red bowl")
    folder = tmp_path / "test-put_block_in_bowl-1000"
    assert sorted(path.name for path in folder.iterdir()) == ["00.png", "01.png"]
    first, second = (pixels((folder / name).read_bytes()) for name in ("00.png", "01.png"))
    assert first.shape == (HEIGHT, WIDTH, 3)
    changed = (first != second).any(axis=2).mean()
    assert 0.0005 < changed < 0.05  # a block has moved, and nothing else


@PHYSICS
def test_a_blue_bowl_is_seen_as_blue(tmp_path: Path) -> None:
    env = Tabletop(TabletopOptions(render=str(tmp_path)))
    drawn(env)
    picture = pixels((tmp_path / "test-put_block_in_bowl-1000" / "00.png").read_bytes())
    red, _, blue = picture.astype(int).transpose(2, 0, 1)
    assert 500 < (blue - red > 60).sum() < 20_000
    assert 500 < (red - blue > 60).sum() < 20_000


@PHYSICS
def test_if_nothing_draws_a_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> SimpleNamespace:
        raise ImportError("no EGL here")

    monkeypatch.setattr(physics, "import_module", missing)
    env = Tabletop(TabletopOptions(render=str(tmp_path)))
    with pytest.raises(LdmError, match="no EGL here") as caught:
        env.reset(env.tasks("test")[0])
    assert "libegl1" in caught.value.remedy
    assert "MUJOCO_GL=osmesa" in caught.value.remedy
