"""A memory as one file to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldm.errors import MemoryStoreError
from ldm.memory.exchange import export


def test_a_generation_that_is_not_there_leaves_no_file(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryStoreError, match="no generation 4"):
        export(str(toy), "toy", tmp_path / "x.jsonl", generation=4)
    assert not list(tmp_path.iterdir())
