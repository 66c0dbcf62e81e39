"""The static embedder: unit vectors from a table, for any text, without the package's own code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ldm.embed import STATIC, Embedder, installed, load_embedder
from ldm.errors import LdmError

TEXTS = ["heat some egg", "", "\n\t ", "egg " * 2_000, "日本語 🍎", "You see a fridge 1."]
#: Prints the vectors that the package itself computes, from the same files.
THEIRS = """
import json, sys
from pathlib import Path
import wordllama
from safetensors.numpy import load_file
from tokenizers import Tokenizer
folder = Path(wordllama.__file__).parent
[table] = load_file(folder / "weights/l2_supercat_256.safetensors").values()
file = folder / "tokenizers/l2_supercat_tokenizer_config.json"
theirs = wordllama.WordLlamaInference(table, Tokenizer.from_file(str(file)))
print(json.dumps(theirs.embed(json.loads(sys.argv[1]), norm=True).tolist()))
"""


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    if installed("wordllama") is None:
        pytest.skip('wordllama is not installed: pip install "ldm-memory[static]"')
    return load_embedder(STATIC)


def test_they_are_the_vectors_of_the_package(embedder: Embedder) -> None:
    texts = [text[:2_000] for text in TEXTS if text]  # of long texts a selection is embedded
    theirs = subprocess.check_output([sys.executable, "-c", THEIRS, json.dumps(texts)])
    assert np.allclose(embedder.embed(texts), json.loads(theirs), atol=1e-6)
    assert "wordllama" not in sys.modules


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldm.embed.static.installed", lambda module: None)
    with pytest.raises(LdmError, match=STATIC) as refused:
        load_embedder(STATIC)
    assert 'pip install "ldm-memory[static]"' in refused.value.remedy


def test_a_damaged_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldm.embed.static.installed", lambda module: tmp_path)
    with pytest.raises(LdmError, match="cannot be loaded") as refused:
        load_embedder(STATIC)
    assert str(tmp_path) in refused.value.message
