"""Damaged and changed memories are refused, or read as they were written: nothing in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldm.memory.growing import GrowingMemory
from tests.embedder import BagOfWords
from tests.hostile.flips import attack, small_memory
from tests.toy import expert_trajectories


@pytest.mark.slow
def test_a_flipped_bit_is_harmless_or_refused(tmp_path: Path) -> None:
    memory = small_memory(tmp_path)
    growing = GrowingMemory.open(memory, "toy", embedder=BagOfWords())
    for episode in expert_trajectories("test")[:2]:
        growing.add(episode)
    growing.begin("put the fig in the basket").step("A shelf.", "go to shelf 1")
    growing.feedback(growing.recall("put the fig in the basket", "A shelf."), -1.0)
    outcomes = attack(memory, 12)
    assert {outcome.split()[0] for outcome in outcomes} == {"harmless", "refused"}, outcomes
