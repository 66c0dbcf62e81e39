"""A small memory of the toy environment's expert, made without any model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ldm.memory import Memory, build
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.toy import expert_trajectories


@pytest.fixture(scope="package")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a memory of twelve episodes in two batches; leave it as it is."""
    place = tmp_path_factory.mktemp("toy-memory")
    build(str(place), expert_trajectories(), BagOfWords(), OfflineReasoner)
    return place


@pytest.fixture(scope="package")
def memory(toy: Path) -> Memory:
    return Memory.open(str(toy), "toy", embedder=BagOfWords())


@pytest.fixture
def copy(toy: Path, tmp_path: Path) -> str:
    """The place of a copy of the toy memory, to be changed."""
    return str(shutil.copytree(toy, tmp_path / "copy"))
