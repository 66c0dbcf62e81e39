"""A small memory of the toy environment's expert, made without any model."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sklearn.cluster  # noqa: F401 - a fork beside a thread that imports it waits for ever

from ldm.memory import Memory, build
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.servers import Servers
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


#: Where memories are in the tests that all kinds of location have to pass.
LOCATIONS = ["directory", pytest.param("server", marks=pytest.mark.process)]

#: Gives a location its name in a test: equal names give the same one, without a memory at first.
Places = Callable[..., str]


@pytest.fixture
def server(servers: Servers) -> str:
    """The address of a Chroma server of our own, without a memory."""
    return servers.empty("0")


@pytest.fixture(params=LOCATIONS)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """Gives locations of one kind: folders of the test's directory, or servers."""
    places: dict[str, str] = {}

    def place(name: str = "memory") -> str:
        if name not in places:
            if request.param == "directory":
                places[name] = str(tmp_path / name)
            else:
                places[name] = request.getfixturevalue("servers").empty(str(len(places)))
        return places[name]

    return place


@pytest.fixture
def copy(toy: Path, tmp_path: Path) -> str:
    """The place of a copy of the toy memory, to be changed."""
    return str(shutil.copytree(toy, tmp_path / "copy"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a memory may be made."""
    return tmp_path / "memory"
