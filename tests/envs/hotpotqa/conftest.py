"""The official questions and articles, and what the official code answered."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def golden(shared_data: Path) -> Path:
    """The folder with what the official code answered."""
    folder = shared_data.parent / "specs" / "hotpotqa" / "golden"
    if not folder.is_dir():
        pytest.skip(f"the golden outputs of HotpotQA are not there: {folder}")
    return folder


@pytest.fixture(scope="session")
def official(shared_data: Path) -> Path:
    """The folder with 600 official questions and their articles."""
    folder = shared_data / "hotpotqa"
    if not folder.is_dir():
        pytest.skip(f"the official questions are not there: {folder}")
    return folder


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSONL file, plain or compressed."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)
