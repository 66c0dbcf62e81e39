"""The official files are whole, and torn ones are refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ldm.envs.webshop import data


def test_the_official_small_set_is_whole(official: Path) -> None:
    for file in data.FILES["small"]:
        if file.sha256:
            content = (official / file.filename).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file.sha256
    report = data.check(official)
    assert (report.facts["products"], report.facts["goals"]) == (1000, {"synthetic": 6910})
    assert not report.problems
