"""A memory that knows how a lamp is refunded, and what its agents share."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldm.integrations.experience import Experience
from ldm.memory.growing import GrowingMemory
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords


def imported(name: str) -> Any:
    """Import an example as the script that it is: its folder is on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKOUT / "examples" / "frameworks"))
        return importlib.import_module(name)


GOAL = imported("desk").GOAL


@pytest.fixture
def experience(tmp_path: Path) -> Iterator[Experience]:
    with GrowingMemory.open(tmp_path / "m", "desk", embedder=BagOfWords(), create=True) as memory:
        with memory.record(GOAL, scope={"tenant": "a"}) as episode:
            episode.step("", "known way: ask for a photo")
            episode.finish(1)
        with memory.record(GOAL, scope={"tenant": "b"}) as episode:
            episode.step("", "secret way")
            episode.finish(1)
        yield Experience(memory, imported("desk").score, "refund", {"tenant": "a"})


def check_recorded(experience: Experience, prompts: str) -> None:
    """Assert that the model was advised, and that its run is recalled with all its steps."""
    assert "known way: ask for a photo" in prompts
    assert "secret way" not in prompts
    memory = experience.memory
    assert not memory.unfinished
    assert memory.stats(where={"tenant": "a"})["episodes"] == 2
    photo = "The photo of order 7 shows a broken lamp."
    recalled = memory.recall(GOAL, photo, where={"tenant": "a"}, kind="refund")
    assert any(one.tuple.observation == photo for one in recalled)
    assert any("refunded" in one.tuple.action for one in recalled)
    first = memory.recall(GOAL, "", 9, where={"tenant": "a"}, kind="refund")
    assert any('"ask_for_photo"' in one.tuple.action for one in first)
    assert all(one.evidence is not None and one.evidence.succeeded == 1 for one in first)
