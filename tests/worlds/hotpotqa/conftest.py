"""The official questions and articles, and what the official code answered."""

from pathlib import Path

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
