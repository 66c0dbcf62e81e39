"""A small memory of the toy environment's expert, made without any model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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


#: Where memories are in the tests that all kinds of location have to pass.
LOCATIONS = ["directory", pytest.param("server", marks=pytest.mark.process)]

#: Gives a location its name in a test: equal names give the same one, without a memory at first.
Places = Callable[..., str]


@pytest.fixture(scope="package", params=LOCATIONS)
def toy_location(request: pytest.FixtureRequest, toy: Path) -> str:
    """A directory or server with the memory of `toy`; leave it as it is."""
    if request.param == "directory":
        return str(toy)
    address: str = request.getfixturevalue("servers").address("toy")
    build(address, expert_trajectories(), BagOfWords(), OfflineReasoner)
    return address


@pytest.fixture(scope="package")
def memory(toy_location: str) -> Memory:
    return Memory.open(toy_location, "toy", embedder=BagOfWords())


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
