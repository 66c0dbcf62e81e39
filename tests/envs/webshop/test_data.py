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

from ldm.envs.webshop import data
from ldm.errors import LdmError
from tests.envs.webshop.shop import raw, told, write_shop

HUMAN = {
    "B000000001": [
        {"instruction": "a chair", "instruction_attributes": ["x"], "instruction_options": []}
    ]
}


def folder_of(place: Path) -> Path:
    """Four products, one of them damaged, and one human instruction."""
    products = [raw(i) for i in range(3)] + [raw(3, pricing="free")]
    return write_shop(place, products, {p["asin"]: told(i) for i, p in enumerate(products)}, HUMAN)


def test_a_check_counts_products_and_goals_and_names_what_is_damaged(tmp_path: Path) -> None:
    report = data.check(folder_of(tmp_path))
    assert dict(report.products) == {"garden": 3}
    # The first product has 3 colours and 3 sizes, the others have no options.
    assert (report.synthetic, report.human) == (11, 1)
    (problem,) = report.problems
    assert (problem.line, problem.field) == (4, "pricing")
    shown = "\n".join(report.lines())
    assert "products: 3 of 1181436 published (garden 3)" in shown
    assert "human goals: 1 of 12087" in shown
    assert json.loads(json.dumps(report.as_json()))["products"] == 3


def test_without_human_instructions_the_check_says_so(small: Path) -> None:
    report = data.check(small)
    assert report.human is None
    assert not report.problems
    assert any("no items_human_ins.json" in line for line in report.lines())


@pytest.mark.parametrize("there", ["nothing", "empty", "torn"])
def test_a_folder_without_readable_files_is_refused(tmp_path: Path, there: str) -> None:
    if there != "nothing":
        (tmp_path / "x").mkdir()
    if there == "torn":
        write_shop(tmp_path / "x", [raw(0)], {})
        file = tmp_path / "x" / "items_shuffle.json"
        file.write_text(file.read_text()[:-20])
    with pytest.raises(LdmError) as caught:
        data.check(tmp_path / "x")
    assert "ldm data get webshop" in caught.value.remedy


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """The address of a local folder that has the files of the small set."""
    made, served = folder_of(tmp_path / "made"), tmp_path / "served"
    served.mkdir()
    names = ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json")
    for name, file in zip(names, data.FILES["small"], strict=True):
        (served / file.name).write_bytes((made / name).read_bytes())

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Quiet, directory=str(served))
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()
    thread.join()


def test_getting_downloads_all_files_of_a_size(mirror: str, tmp_path: Path) -> None:
    found = data.fetch(tmp_path / "data", url=mirror)
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == sorted(f.file for f in found)
    assert not any(one.compared for one in found)
    assert data.check(tmp_path / "data").synthetic == 11
    checksums = ", ".join(one.sha256 for one in found)
    again = data.fetch(tmp_path / "again", url=mirror, sha256=checksums)
    assert all(one.compared for one in again)


def test_a_wrong_or_missing_checksum_is_refused(mirror: str, tmp_path: Path) -> None:
    with pytest.raises(LdmError, match="SHA-256"):
        data.fetch(tmp_path / "data", url=mirror, sha256=",".join(["0" * 64] * 3))
    with pytest.raises(LdmError, match="1 checksums were passed for 3 files"):
        data.fetch(tmp_path / "data", url=mirror, sha256="0" * 64)


def test_a_web_page_in_place_of_a_file_is_refused(mirror: str, tmp_path: Path) -> None:
    (tmp_path / "served" / data.FILES["small"][0].name).write_text("<!DOCTYPE html><p>Quota</p>")
    with pytest.raises(LdmError, match="sent a web page") as caught:
        data.fetch(tmp_path / "data", url=mirror)
    assert "--url" in caught.value.remedy
    assert list((tmp_path / "data").iterdir()) == []


def test_the_known_checksum_is_that_of_the_published_file(official: Path) -> None:
    for file in data.FILES["small"]:
        if file.sha256:
            held = (official / file.name).read_bytes()
            assert hashlib.sha256(held).hexdigest() == file.sha256
            assert len(held) == file.size


def test_the_official_small_set_is_whole(official: Path) -> None:
    report = data.check(official)
    assert sum(report.products.values()) == 1000
    assert report.synthetic == 6910
    assert not report.problems
