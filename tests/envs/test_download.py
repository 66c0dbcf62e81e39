"""Downloads that break off, resume, are checked; archives that are damaged or hostile."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ldm.envs.download import fetch, unpack
from ldm.errors import LdmError
from tests.http import Handler, listening

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """A local HTTP server with one file. cut: break off after so many bytes, so many times."""

    url: str = ""
    content: bytes = CONTENT
    tag: str = '"one"'
    resumes: bool = True
    cut: int = 0
    times: int = 0
    status: int = 0
    ranges: list[str] = field(default_factory=list)

    def respond(self, request: Handler) -> None:
        byte_range = request.headers.get("Range", "")
        self.ranges.append(byte_range)
        if self.status:
            request.send_error(self.status)
            return
        start = int(byte_range.removeprefix("bytes=").removesuffix("-") or 0) if self.resumes else 0
        if start and request.headers.get("If-Range", self.tag) != self.tag:
            start = 0
        if start >= len(self.content):
            request.answer(416, b"", Content_Range=f"bytes */{len(self.content)}")
            return
        rest = self.content[start:]
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(rest)))
        if self.tag:
            request.send_header("ETag", self.tag)
        request.end_headers()
        if self.times > 0:
            self.times -= 1
            rest = rest[: self.cut]
        request.wfile.write(rest)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()

    class Answering(Handler):
        def respond(self) -> None:
            server.respond(self)

    with listening(Answering) as place:
        server.url = f"http://{place}/games.zip"
        yield server


def test_a_download_is_whole_and_shows_its_progress(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "new" / "games.zip"
    progress: list[tuple[str, int, int]] = []
    digest = fetch(server.url, file, progress=lambda *now: progress.append(now))
    assert digest == SHA256
    assert file.read_bytes() == CONTENT
    assert progress[-1] == ("downloading", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in progress] == sorted(done for _, done, _ in progress)
    assert list(file.parent.iterdir()) == [file]


def test_a_broken_connection_is_resumed_at_once(server: Server, tmp_path: Path) -> None:
    server.cut, server.times = 300_000, 2
    file = tmp_path / "games.zip"
    assert fetch(server.url, file, sha256=SHA256.upper()) == SHA256
    assert server.ranges == ["", "bytes=300000-", "bytes=600000-"]


def test_what_came_before_an_interruption_is_kept(server: Server, tmp_path: Path) -> None:
    server.cut, server.times = 100_000, 3
    file = tmp_path / "games.zip"
    with pytest.raises(LdmError, match="stopped after 300000 bytes") as caught:
        fetch(server.url, file)
    assert "again" in caught.value.remedy
    assert not file.exists()
    assert fetch(server.url, file) == SHA256
    assert server.ranges[-1] == "bytes=300000-"
    assert file.read_bytes() == CONTENT


def test_a_file_that_changed_on_the_server_is_fetched_anew(server: Server, tmp_path: Path) -> None:
    server.cut, server.times = 100_000, 3
    file = tmp_path / "games.zip"
    with pytest.raises(LdmError):
        fetch(server.url, file)
    server.content, server.tag = CONTENT[::-1], '"two"'
    fetch(server.url, file)
    assert file.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("more", [b"", b"more"])
def test_a_part_that_is_whole_is_taken(server: Server, tmp_path: Path, more: bytes) -> None:
    (tmp_path / "games.zip.part").write_bytes(CONTENT + more)
    assert fetch(server.url, tmp_path / "games.zip") == SHA256


def test_another_checksum_is_refused_and_nothing_is_left(server: Server, tmp_path: Path) -> None:
    with pytest.raises(LdmError, match=SHA256):
        fetch(server.url, tmp_path / "games.zip", sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_what_the_server_refuses_is_said(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(LdmError, match="answers 404"):
        fetch(server.url, tmp_path / "games.zip")
    with pytest.raises(LdmError, match="http"):
        fetch("file:///etc/passwd", tmp_path / "games.zip")


def test_a_place_that_cannot_be_written_is_said(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LdmError, match="cannot be written"):
        fetch(server.url, tmp_path / "file" / "games.zip")


def archive(path: Path, members: dict[str, str], *, link: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
        if link:
            entry = zipfile.ZipInfo(link)
            entry.external_attr = 0o120777 << 16
            archive.writestr(entry, "/etc")
    return path


def test_an_archive_is_unpacked_over_what_is_there(tmp_path: Path) -> None:
    packed = archive(tmp_path / "a.zip", {"json/x/": "", "json/x/one": "1", "json/two": "2"})
    (tmp_path / "out" / "json").mkdir(parents=True)
    (tmp_path / "out" / "json" / "two").write_text("old")
    (tmp_path / "out" / "json" / "kept").write_text("kept")
    progress: list[tuple[str, int, int]] = []
    assert unpack(packed, tmp_path / "out", progress=lambda *now: progress.append(now)) == 2
    files = sorted(p for p in (tmp_path / "out").rglob("*") if p.is_file())
    contents = [("kept", "kept"), ("two", "2"), ("one", "1")]
    assert [(p.name, p.read_text()) for p in files] == contents
    assert progress == [("unpacking", 1, 2), ("unpacking", 2, 2)]


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "C:/evil", "..\\evil"])
def test_a_member_that_leaves_the_folder_stops_all(tmp_path: Path, name: str) -> None:
    packed = archive(tmp_path / "a.zip", {"good": "1", name: "2"})
    with pytest.raises(LdmError, match="no proper place"):
        unpack(packed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_in_an_archive_stops_all(tmp_path: Path) -> None:
    packed = archive(tmp_path / "a.zip", {"good": "1"}, link="etc")
    with pytest.raises(LdmError, match="no proper place"):
        unpack(packed, tmp_path / "out")


def test_a_damaged_archive_is_said_and_no_file_is_half_written(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("one", "a" * 10_000)
    spoilt = buffer.getvalue().replace(b"a" * 5_000, b"b" * 5_000, 1)
    packed = tmp_path / "a.zip"
    packed.write_bytes(spoilt)
    with pytest.raises(LdmError, match="damaged"):
        unpack(packed, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    packed.write_bytes(b"no zip")
    with pytest.raises(LdmError, match="damaged"):
        unpack(packed, tmp_path / "out")


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = archive(tmp_path / "a.zip", {"one": "1"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ldm.envs.download.shutil.copyfileobj", full)
    with pytest.raises(LdmError, match="No space left"):
        unpack(packed, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
