"""Embedders of one's own: objects, classes by name, a service; each text is asked for once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import ldm
from ldm.embed import cached, chosen_embedder, load_embedder, recorded_embedder, service
from ldm.embed.service import BATCH, Embeddings
from ldm.errors import LdmError, ModelError, ModelUnavailable
from ldm.llm.client import RetryPolicy
from tests.cli.conftest import run
from tests.embedder import BagOfWords
from tests.http import Handler, listening

CLASS = "tests.embedder:BagOfWords"


@pytest.mark.usefixtures("folds_here")
def test_an_embedder_is_asked_once_for_a_text(tmp_path: Path) -> None:
    own = BagOfWords()
    with ldm.Memory.open(str(tmp_path / "m"), "desk", create=True, embedder=own) as memory:
        with memory.record("refund") as episode:
            episode.step("a lamp", "reply")
            episode.finish(1.0)
        memory.fold()
        opened = ldm.Memory.open(str(tmp_path / "m"), "desk", embedder=own)
        asked: tuple[Any, ...] = (memory.recall, opened.retrieve)
        for number, ask in enumerate(asked):
            ask(f"new goal {number}", "new sight")
            before = len(own.calls)
            ask(f"new goal {number}", "new sight")
            assert len(own.calls) == before


def test_a_class_is_named_by_its_path() -> None:
    assert load_embedder(CLASS).name == "bag-of-words"
    assert chosen_embedder(CLASS, "bag-of-words").name == "bag-of-words"


def test_a_recorded_name_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foreign_code.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LdmError, match=r"would run its code.*--embedder module:Class"):
        recorded_embedder("foreign_code:Own")


def test_what_is_no_embedder_is_refused() -> None:
    nothing: Any = object()
    with pytest.raises(LdmError, match="is no embedder"):
        cached(nothing)


@pytest.fixture
def memory(tmp_path: Path, folds_here: None) -> str:
    place = str(tmp_path / "own")
    with ldm.Memory.open(place, "desk", create=True, embedder=BagOfWords()) as memory:
        for number in range(2):
            with memory.record(f"refund {number}") as episode:
                episode.step("a lamp", "reply")
                episode.finish(1.0)
            if not number:
                memory.fold()
    return place


COMMANDS = [["verify"], ["search", "refund", "a lamp"], ["fold"]]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: str(words[0]))
def test_commands_take_a_class_by_name(
    command: list[str], memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    words = ["memory", *command, "--memory", memory]
    refused = run(*words).refused("'bag-of-words'", "--embedder module:Class")
    assert "hugging" not in refused.err.lower()
    run(*words, "--embedder", CLASS).done()


class Service(Handler):
    """A service of embeddings; its first `failures` responses are errors."""

    failures: ClassVar[int]
    status: ClassVar[int]
    seen: ClassVar[list[list[str]]] = []

    def respond(self) -> None:
        texts = json.loads(self.body())["input"]
        self.seen.append(texts)
        type(self).failures -= 1
        rows = [{"index": i, "embedding": [len(text), 2.0]} for i, text in enumerate(texts)]
        body = json.dumps({"data": rows[::-1]}).encode()
        self.answer(self.status if self.failures >= 0 else 200, body)


@pytest.fixture
def embeddings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Embeddings]:
    Service.seen.clear()
    Service.failures, Service.status = 0, 500
    with listening(Service) as place:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://{place}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        monkeypatch.setattr(service, "RETRY", RetryPolicy(attempts=3, first=0.001))
        yield Embeddings("small")


@pytest.mark.process
def test_a_service_embeds_in_batches_and_is_asked_again(embeddings: Embeddings) -> None:
    Service.failures = 2
    embedder = cached(embeddings)
    texts = ["a" * (1 + number % 90) for number in range(BATCH + 20)]
    vectors = embedder.embed([*texts, ""])
    assert embedder.name == "openai:small"
    assert vectors.shape == (len(texts) + 1, 2)
    assert np.allclose(vectors[2], np.array([3, 2]) / np.hypot(3, 2))
    assert max(map(len, Service.seen)) <= BATCH
    before = len(Service.seen)
    embedder.embed(texts)
    assert len(Service.seen) == before


@pytest.mark.process
@pytest.mark.parametrize(("status", "error"), [(500, ModelError), (401, ModelUnavailable)])
def test_a_service_that_fails_is_named(
    status: int, error: type[LdmError], embeddings: Embeddings
) -> None:
    Service.failures, Service.status = 99, status
    with pytest.raises(error, match=f"'openai:small' failed: HTTP {status}"):
        embeddings.embed(["a"])
    assert len(Service.seen) == (3 if status == 500 else 1)


def test_a_service_must_be_configured() -> None:
    with pytest.raises(ModelUnavailable, match="none is configured"):
        load_embedder("openai:small")
