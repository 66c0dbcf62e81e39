"""Which tasks an evaluation takes, what it must not have seen, and what memories are built from."""

from collections import Counter

import pytest

from ldm.errors import LdmError, LeakageError
from ldm.run.building import drawn_per_kind
from ldm.run.selection import check_leakage, select
from ldm.types import Task
from tests.toy import ToyEnv, ToyOptions, expert_trajectories

TASKS = [
    Task(f"{kind}-{number}", "house", "test", "a goal", kind)
    for kind, count in (("heat", 10), ("cool", 10), ("look", 2))
    for number in range(count)
]


def kinds_of(tasks: tuple[Task, ...]) -> Counter[str]:
    return Counter(task.kind for task in tasks)


class TestSelection:
    def test_without_conditions_all_tasks_are_taken_in_their_order(self) -> None:
        assert select(TASKS) == tuple(TASKS)
        assert select(TASKS, limit=100) == tuple(TASKS)

    def test_a_limit_takes_an_even_share_of_each_kind(self) -> None:
        assert kinds_of(select(TASKS, limit=6)) == {"heat": 2, "cool": 2, "look": 2}
        assert kinds_of(select(TASKS, limit=12)) == {"heat": 5, "cool": 5, "look": 2}

    def test_a_limit_keeps_the_order_and_holds_exactly(self) -> None:
        for limit in range(1, len(TASKS) + 1):
            chosen = select(TASKS, limit=limit)
            assert len(chosen) == limit
            assert list(chosen) == [task for task in TASKS if task in chosen]

    def test_a_smaller_limit_takes_a_part_of_what_a_larger_one_takes(self) -> None:
        assert set(select(TASKS, limit=5)) < set(select(TASKS, limit=9))

    def test_what_is_taken_does_not_depend_on_the_order_of_the_split(self) -> None:
        assert set(select(TASKS, limit=7)) == set(select(TASKS[::-1], limit=7))

    def test_kinds_and_ids_narrow_it_down(self) -> None:
        assert kinds_of(select(TASKS, kinds=("look",))) == {"look": 2}
        assert [t.id for t in select(TASKS, ids=("cool-1", "heat-0"))] == ["heat-0", "cool-1"]

    @pytest.mark.parametrize(
        ("kinds", "ids", "suggestion"), [(("haet",), (), "heat"), ((), ("cool-99",), "cool-9")]
    )
    def test_an_unknown_name_is_answered_with_the_nearest(
        self, kinds: tuple[str, ...], ids: tuple[str, ...], suggestion: str
    ) -> None:
        with pytest.raises(LdmError) as caught:
            select(TASKS, kinds=kinds, ids=ids)
        assert f"Did you mean {suggestion!r}?" in caught.value.remedy

    def test_an_empty_choice_is_refused(self) -> None:
        with pytest.raises(LdmError, match="No task is left"):
            select(TASKS, kinds=("look",), ids=("heat-1",))
        with pytest.raises(LdmError, match="limit of 0"):
            select(TASKS, limit=0)


class TestLeakage:
    def test_an_evaluated_source_of_the_memory_stops_the_evaluation(self) -> None:
        tasks = ToyEnv().tasks("test")
        message = f"2 evaluated tasks are also sources of the memory: {tasks[0].id}, {tasks[3].id}"
        with pytest.raises(LeakageError, match=message):
            check_leakage(["train/1", tasks[3].id, tasks[0].id], tasks)
        check_leakage(frozenset({"train/1"}), tasks)

    def test_what_is_compared_is_the_source_where_a_task_has_one(self) -> None:
        task = Task("goal 1", "shop", "test", "buy", "buy", source="product 7")
        check_leakage(["goal 1"], [task])
        with pytest.raises(LeakageError, match="product 7"):
            check_leakage(["product 7"], [task])


EPISODES = expert_trajectories(options=ToyOptions(tasks=12))


class TestDrawing:
    """Which recorded trajectories a memory is built from."""

    def test_takes_as_many_of_each_kind_and_whole_what_has_fewer(self) -> None:
        drawn = drawn_per_kind(EPISODES, 2)
        assert kinds_of(tuple(t.task for t in drawn)) == {"fetch": 2, "wash": 2}
        assert len(drawn_per_kind(EPISODES, 100)) == len(EPISODES)

    def test_goes_by_the_seed_and_not_by_their_order(self) -> None:
        ids = {seed: [t.id for t in drawn_per_kind(EPISODES, 3, seed)] for seed in range(4)}
        assert [t.id for t in drawn_per_kind(EPISODES[::-1], 3, 0)] == ids[0]
        assert len({tuple(drawn) for drawn in ids.values()}) > 1
