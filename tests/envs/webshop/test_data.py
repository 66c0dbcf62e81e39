"""The official files are whole, and torn ones are refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ldm.envs.webshop import data
from ldm.errors import LdmError
from tests.envs.webshop.shop import raw, write_shop


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    file = write_shop(tmp_path, [raw(0)], {}) / "items_shuffle.json"
    file.write_text(file.read_text()[:-20])
    with pytest.raises(LdmError) as caught:
        data.check(tmp_path)
    assert "ldm data webshop --to" in caught.value.remedy


def test_the_official_small_set_is_whole(official: Path) -> None:
    for file in data.FILES["small"]:
        if file.sha256:
            content = (official / file.filename).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file.sha256
    report = data.check(official)
    assert (report.facts["products"], report.facts["goals"]) == (1000, {"synthetic": 6910})
    assert not report.problems
