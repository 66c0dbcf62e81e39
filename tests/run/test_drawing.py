"""Which recorded trajectories a memory is built from."""

from collections import Counter

from ldm.run.building import drawn_per_kind
from tests.toy import ToyOptions, expert_trajectories

EPISODES = expert_trajectories(options=ToyOptions(tasks=12))


def test_as_many_of_each_kind_are_drawn() -> None:
    drawn = drawn_per_kind(EPISODES, 2)
    assert Counter(t.task.kind for t in drawn) == {"fetch": 2, "wash": 2}


def test_the_seed_decides_which_and_their_order_does_not() -> None:
    ids = {seed: [t.id for t in drawn_per_kind(EPISODES, 3, seed)] for seed in range(4)}
    assert [t.id for t in drawn_per_kind(EPISODES[::-1], 3, 0)] == ids[0]
    assert len({tuple(drawn) for drawn in ids.values()}) > 1


def test_a_kind_with_fewer_is_taken_whole() -> None:
    assert len(drawn_per_kind(EPISODES, 100)) == len(EPISODES)
