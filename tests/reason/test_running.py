"""Notes written in one pass are those that each step gets by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldm import records
from ldm.reason import Notes, shortened
from ldm.reason.offline import OfflineReasoner
from ldm.types import Past, Trajectory
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords

REASONER = OfflineReasoner(BagOfWords())
SAID = "go to take the Mug mug 1 2 cabinet Cabinet in/on heat EGG egg with fridge look [ ] ."
WORDS = st.sampled_from(SAID.split(" "))
TEXTS = st.lists(WORDS, max_size=9).map(" ".join) | st.text(max_size=30)
LONG = st.builds(lambda start, end: start + " x" * 200 + end, TEXTS, TEXTS)


def by_itself(goal: str, steps: Past) -> tuple[Notes, ...]:
    return tuple(
        REASONER.notes(goal, shortened(steps[:number]), observation)
        for number, (observation, _) in enumerate(steps)
    )


@given(TEXTS, st.lists(st.tuples(TEXTS | LONG, TEXTS), max_size=25))
def test_of_any_texts(goal: str, steps: list[tuple[str, str]]) -> None:
    assert REASONER.annotate(goal, tuple(steps)) == by_itself(goal, tuple(steps))


@pytest.mark.parametrize("env", ["alfworld", "textcraft", "webshop"])
def test_of_the_shipped_episodes(env: str) -> None:
    (file,) = (CHECKOUT / "data" / "trajectories" / env).glob("*train*")
    for trajectory in records.read(file, Trajectory)[:40]:
        steps = tuple((observation, step.action) for _, observation, step in trajectory.states())
        assert REASONER.annotate(trajectory.task.goal, steps) == by_itself(
            trajectory.task.goal, steps
        )
