"""What a folder of official files holds, and fetching them from a local server."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ldm.errors import LdmError
from ldm.worlds.hotpotqa import data
from ldm.worlds.hotpotqa.environment import LICENCE
from tests.worlds.hotpotqa.test_environment import official_folder


def test_a_check_counts_questions_articles_and_what_is_missing(tmp_path: Path) -> None:
    report = data.check(official_folder(tmp_path))
    assert report.splits["dev_hard"] == {"bridge hard": 2}
    assert report.splits["train"] == {"bridge easy": 1, "bridge hard": 1}
    assert (report.left_out, report.articles, report.missing) == (1, 11, ())
    text = "\n".join(report.lines())
    assert LICENCE in text
    assert "left out of train: 1" in text
    assert json.loads(json.dumps(report.as_json()))["articles"] == 11


def test_a_check_names_titles_without_an_article_and_with_two_texts(tmp_path: Path) -> None:
    official_folder(tmp_path)
    (tmp_path / "wiki_articles.json").write_text(json.dumps({"A": ["A."], "Extra": ["Other."]}))
    report = data.check(tmp_path)
    assert "B" in report.missing
    assert report.conflicts == ("Extra",)


@pytest.mark.slow
def test_the_official_files_are_whole(official: Path) -> None:
    report = data.check(official)
    assert {split: sum(of.values()) for split, of in report.splits.items()} == {
        "train": 500,
        "train_hard": 85,
        "dev_hard": 100,
    }
    assert (report.articles, report.left_out, report.missing) == (8_787, 0, ())
    assert report.conflicts == ("2013 Texas Longhorns football team",)
    assert not report.problems


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LdmError, match="not a folder"):
        data.check(tmp_path / "nothing")
    with pytest.raises(LdmError, match="no questions"):
        data.summary(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server on loopback, and the folder that it serves."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", folder
        running.shutdown()
        thread.join()


def test_a_mirror_serves_the_files_under_their_names(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = server
    official_folder(folder)
    names = [file.name for file in data.SIZES["all"]]
    checksums = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
    fetched = data.fetch(tmp_path / "to", size="all", url=url, sha256=",".join(checksums))
    assert [one.sha256 for one in fetched] == checksums
    assert data.check(tmp_path / "to").splits["dev_hard"] == {"bridge hard": 2}
    with pytest.raises(LdmError, match="1 checksums were passed for 2 files"):
        data.fetch(tmp_path / "to", size="all", url=url, sha256="0")


def test_other_content_than_the_published_is_refused(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = server
    official_folder(folder)
    with pytest.raises(LdmError, match=r"SHA-256|checksum"):
        data.fetch(tmp_path / "to", url=url)
