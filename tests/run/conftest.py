"""Experiments from Python, in a directory of their own, with an embedder that takes no time."""

import shutil
from pathlib import Path

import pytest

import ldm
from ldm import records
from ldm.run.runtime import Runtime
from tests.conftest import work_in
from tests.toy import ToyOptions, expert_trajectories


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a memory of four episodes in a shed with eight shelves, and their file."""
    directory = tmp_path_factory.mktemp("built")
    known = expert_trajectories(options=ToyOptions(tasks=4, shelves=8))
    records.write(directory / "data" / "train.jsonl", known)
    with pytest.MonkeyPatch.context() as patch:
        work_in(directory, patch)
        ldm.build_memory(directory / "data", str(directory / ".ldm" / "memory"))
    return directory


@pytest.fixture
def remembering(place: Path, built: Path) -> Path:
    """The working directory with a memory."""
    shutil.copytree(built, place, dirs_exist_ok=True)
    return place


@pytest.fixture
def quiet() -> Runtime:
    """A runtime with one worker: everything happens in this process, in order."""
    return Runtime(workers=1)
