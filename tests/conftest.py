"""What all tests share: where the development data lie, and that nothing reaches the network."""

import difflib
import gc
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import chain, cycle, groupby
from pathlib import Path
from typing import Any

import httpcore2
import numpy as np
import pytest
import typer
from numpy.typing import NDArray

from ldm import registry
from ldm.embed import minilm, sentence
from ldm.llm import Message
from ldm.memory import chroma
from ldm.memory.growing import GrowingMemory
from tests.cli.conftest import server
from tests.embedder import BagOfWords
from tests.llm.conftest import serve
from tests.memory.desk import fold_here
from tests.memory.servers import Servers

__all__ = ["serve", "server"]

CHECKOUT = Path(__file__).resolve().parent.parent

#: So many repetitions of a test with parameters count for the coverage.
COVERED = 2
#: Tests of whole commands and refinements, which take the same lines again and again; of these
#: every second counts.
BROAD = ("cli", "run", "explore", "integration")
#: How texts are embedded.
EMBED = minilm.MiniLM.embed
#: How a memory gets into Chroma, and how that is checked.
PUBLISH, DIFFERENCES = chroma.publish_beside, chroma.differences
Golden = Callable[[Path, str | Sequence[Message]], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-goldens` writes the recorded prompts anew, to be read before they are committed."""
    parser.addoption("--update-goldens", action="store_true", help="write recorded prompts anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measure no coverage of what only repeats: tracing all of it takes a third of the whole time.

    Of tests that are slow or start processes quick ones take the same lines; of a test with many
    parameters `COVERED` do, evenly spread; of `BROAD` ones every second does.
    """
    repetitions = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if any(item.get_closest_marker(marker) for marker in ("official", "process", "slow")):
            item.add_marker("untraced")
        repetitions[item.nodeid.partition("[")[0]].append(item)
    every_second = cycle((False, True))
    for same in repetitions.values():
        every = -(-len(same) // COVERED)
        left_out = same[0].path.parent.name in BROAD and next(every_second)
        for number, item in enumerate(same):
            if left_out or number % every:
                item.add_marker("untraced")
    # Each worker begins with slow tests, so that none is left alone with one at the end; those of a
    # module, which share what it sets up, with one worker.
    slow, quick = ([i for i in items if bool(i.get_closest_marker("slow")) == s] for s in (1, 0))
    modules = [[*same] for _, same in groupby(slow, key=lambda item: item.path)]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    size = -(-len(quick) // workers)
    parts = (
        (*chain(*modules[n::workers]), *quick[n * size : (n + 1) * size]) for n in range(workers)
    )
    items[:] = chain.from_iterable(parts)


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests from being looked through for cycles again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Run a test that is marked `untraced` without tracing, and the processes that it starts, too.

    The marker `no_cover` of pytest-cov has no effect in the workers of xdist: of the two or three
    measurements that each of them has it stops one.
    """
    if not item.get_closest_marker("untraced"):
        return (yield)
    trace, in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    process = os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    try:
        return (yield)
    finally:
        if process is not None:
            os.environ["COVERAGE_PROCESS_CONFIG"] = process
        threading.settrace(in_threads)
        sys.settrace(trace)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text, or what is sent to a model, with a file; see `--update-goldens`."""

    def compare(file: Path, now: str | Sequence[Message]) -> None:
        if not isinstance(now, str):
            now = "\n\n".join(f"[{m.role}]\n{m.content}" for m in now) + "\n"
        if request.config.getoption("--update-goldens"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(now, encoding="utf-8")
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        if now != before:
            texts = before.splitlines(), now.splitlines()
            changes = "\n".join(difflib.unified_diff(*texts, "golden", "now", lineterm=""))
            pytest.fail(f"{file} (--update-goldens writes it):\n{changes}", pytrace=False)

    return compare


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let Ctrl-C reach the processes that tests start, also where this one was told to ignore it.

    A shell's background jobs ignore SIGINT, and children inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def patch() -> Iterator[pytest.MonkeyPatch]:
    """What it changes stays changed for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="session", autouse=True)
def cache_home(patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What commands keep for later stays in a folder of the tests, also in processes they start."""
    folder = tmp_path_factory.mktemp("cache")
    patch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session", autouse=True)
def nothing_is_configured(patch: pytest.MonkeyPatch) -> None:
    """Keep the user's models and data from tests, and from processes that they start."""
    for name in {*os.environ} - {"LDM_SHARED_DATA"}:
        if name.startswith("OPENAI_") or name.endswith(("_DATA", "_LLM", "LDM_DEBUG")):
            patch.delenv(name)


def work_in(place: Path, patch: pytest.MonkeyPatch) -> Path:
    """Make a directory the working one, and let the default embedder take no time."""
    patch.chdir(place)
    patch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords(name or "bag-of-words"))
    return place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; nothing loads a real embedder."""
    return work_in(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def secrets_of_a_test_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test declared a secret is none in the next."""
    monkeypatch.setattr("ldm.text._spellings", ())


@pytest.fixture(scope="session", autouse=True)
def models_are_read_once(patch: pytest.MonkeyPatch) -> None:
    """Let all embedders of a model share its weights: reading them is most of a short test."""
    patch.setattr(minilm, "read", cache(minilm.read))
    patch.setattr(sentence, "load", cache(sentence.load))


@pytest.fixture(scope="session", autouse=True)
def texts_are_embedded_once(patch: pytest.MonkeyPatch) -> None:
    """Let all tests share the vectors of texts, of which most build the same few memories.

    A vector depends on nothing but its text; the tests of that use `embedding_anew`.
    """
    vectors: dict[str, NDArray[np.float32]] = {}

    def embed(self: minilm.MiniLM, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        vectors.update(zip(new, EMBED(self, new) if new else (), strict=True))
        return np.array([vectors[text] for text in texts])

    patch.setattr(minilm.MiniLM, "embed", embed)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_published(patch: pytest.MonkeyPatch) -> None:
    """Keep memories out of Chroma, which takes far longer than writing them; see `published`."""
    patch.setattr(chroma, "publish_beside", lambda *_, **__: None)
    patch.setattr(chroma, "differences", lambda *_: [])


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish what is written to a memory, as users do."""
    monkeypatch.setattr(chroma, "publish_beside", PUBLISH)
    monkeypatch.setattr(chroma, "differences", DIFFERENCES)


@pytest.fixture
def folds_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Form batches in this process: to start one of their own takes far longer."""
    monkeypatch.setattr(GrowingMemory, "_start_folding", fold_here)


@pytest.fixture(scope="session", autouse=True)
def certificates_are_read_once(patch: pytest.MonkeyPatch) -> None:
    """Let all clients share the certificates, of which reading takes longer than a short test."""
    patch.setattr(httpcore2, "default_ssl_context", cache(httpcore2.default_ssl_context))


@pytest.fixture(scope="session", autouse=True)
def commands_are_made_once(patch: pytest.MonkeyPatch) -> None:
    """Let all calls of `main` share the command that Typer would make anew for each."""
    patch.setattr(typer.main, "get_command", cache(typer.main.get_command))


@pytest.fixture(scope="session", autouse=True)
def packages_are_looked_through_once(patch: pytest.MonkeyPatch) -> None:
    """Let all commands share the entry points, for which a file of each package is read."""
    found = cache(lambda group, path: entry_points(group=group))
    patch.setattr(registry, "entry_points", lambda group: found(group, tuple(sys.path)))


def announce(patch: pytest.MonkeyPatch, group: str, **names: str) -> None:
    """Let an installed package announce names and their classes."""
    points = {group: [EntryPoint(*one, group) for one in names.items()]}
    known = cache(lambda group: [*entry_points(group=group), *points.get(group, [])])
    patch.setattr(registry, "entry_points", known)


@pytest.fixture
def embedding_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embed every text, as users do."""
    monkeypatch.setattr(minilm.MiniLM, "embed", EMBED)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    running = Servers(tmp_path_factory.mktemp("servers"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The development data ($LDM_SHARED_DATA or ../shared/data); skips where they are absent."""
    variable = os.environ.get("LDM_SHARED_DATA")
    folder = Path(variable) if variable else CHECKOUT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(
            f"the development data are not at {folder}; LDM_SHARED_DATA names another place"
        )
    return folder


def _is_local(address: Any) -> bool:
    """Whether a socket address stays on this machine: a Unix socket or a loopback address."""
    if not isinstance(address, tuple):
        return True
    host = str(address[0])
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session", autouse=True)
def no_network(patch: pytest.MonkeyPatch) -> None:
    """Connecting, sending and looking up a name raise for all but loopback, whoever tries."""

    def guarded(method: str) -> None:
        original = getattr(socket.socket, method)

        def connect(self: socket.socket, address: Any) -> Any:
            if not _is_local(address):
                raise RuntimeError(f"a test tried to reach the network: {address}")
            return original(self, address)

        patch.setattr(socket.socket, method, connect)

    def sendto(self: socket.socket, data: bytes, *rest: Any) -> int:
        if not _is_local(rest[-1]):
            raise RuntimeError(f"a test tried to reach the network: {rest[-1]}")
        return sent(self, data, *rest)

    def getaddrinfo(host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and not _is_local((name, 0)):
            raise RuntimeError(f"a test tried to reach the network: {host}")
        return looked_up(host, *rest, **more)

    guarded("connect")
    guarded("connect_ex")
    sent, looked_up = socket.socket.sendto, socket.getaddrinfo
    patch.setattr(socket.socket, "sendto", sendto)
    patch.setattr(socket, "getaddrinfo", getaddrinfo)
