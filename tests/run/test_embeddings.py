"""Experiments embed a text once: vectors are kept in the runtime's folder, and change nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

import ldm
from ldm.cli.environment import runtime as command_runtime
from ldm.embed.caching import FILES, CachingEmbedder
from ldm.run.runtime import Runtime
from tests.embedder import Counting
from tests.run.recorded import EVALUATION, REFINEMENT, files, memory


@pytest.fixture
def computed(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that embedders had to compute, whichever part of an experiment loaded them."""
    computed: list[str] = []

    def load(name: str | None = None) -> CachingEmbedder:
        encoder = Counting(name or "bag-of-words")
        encoder.computed = computed
        return CachingEmbedder(encoder)

    monkeypatch.setattr("ldm.embed.load_embedder", load)
    return computed


def everything(
    place: Path, built: Path, embeddings: Path | None, patch: pytest.MonkeyPatch
) -> tuple[object, object]:
    """Build, refine and evaluate below `place`; return the memory and the records."""
    place.mkdir()
    patch.chdir(place)
    runtime = Runtime(workers=1, embeddings=embeddings)
    ldm.build_memory(built / "data", runtime=runtime)
    ldm.refine(replace(REFINEMENT, limit=2), runtime=runtime)
    ldm.evaluate(EVALUATION, runtime=runtime)
    return memory(place), files(place / "runs", place)


@pytest.mark.slow
def test_a_later_experiment_computes_nothing_and_comes_to_the_same(
    computed: list[str], built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "embeddings"
    without = everything(tmp_path / "without", built, None, monkeypatch)
    often = len(computed)
    computed.clear()
    cold = everything(tmp_path / "cold", built, folder, monkeypatch)
    assert len(set(computed)) == len(computed) < often
    computed.clear()
    warm = everything(tmp_path / "warm", built, folder, monkeypatch)
    assert computed == []
    assert without == cold == warm
    assert [*folder.glob(FILES)]


def test_commands_keep_vectors_in_the_user_s_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert command_runtime().embeddings == tmp_path / "ldm" / "embeddings"
    monkeypatch.setenv("LDM_EMBEDDING_CACHE", "off")
    assert command_runtime().embeddings is None
