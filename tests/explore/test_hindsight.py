"""Hindsight: what a solved episode did needlessly is replaced by what was to be done."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.explore.gate import (
    HINDSIGHT,
    GateOptions,
    Reviser,
    Revision,
    Shortcut,
    collect,
    revise,
    revised,
)
from ldm.explore.refine import ExploredGoal, Tree
from ldm.explore.tree import Positions
from ldm.memory import extend, generations, inspect
from ldm.run.engine import Session
from ldm.runs import Manifest, Run, create
from ldm.types import Task, TimeStep, Trajectory
from tests.embedder import BagOfWords
from tests.explore.conftest import SHED, opened
from tests.explore.test_gate import FORMATION, Builder, Uncopied, explored, judge_in, run
from tests.toy import EchoEnv, ToyEnv, expert, record

__all__ = ["explored", "run"]

#: Where the fruit of the first task of its kind is.
ENV = ToyEnv(SHED)


class Unlisted(ToyEnv):
    """A shed that does not say what can be done."""

    def _answer(self, text: str, *, reward: float = 0.0, valid: bool = True) -> TimeStep:
        return replace(super()._answer(text, reward=reward, valid=valid), admissible=None)


class Forgetful(Uncopied):
    """A shed that gives a reward in its first episode only."""

    rewards = 1

    def _wins(self) -> bool:
        type(self).rewards -= 1
        return super()._wins() and type(self).rewards >= 0


@pytest.fixture(scope="module")
def task() -> Task:
    """A fruit to be washed, not on the first two shelves."""
    tasks = [task for task in ENV.tasks("train") if task.kind == "wash"]
    return next(task for task in tasks if len(expert(task, SHED.shelves)) >= 6)


def plan(task: Task) -> list[str]:
    """Go to the shelf where the fruit is, take it, go to the sink, wash it, put it down."""
    return list(expert(task, SHED.shelves)[-5:])


def looked_at(task: Task, actions: Sequence[str], env: ToyEnv | None = None) -> Revision:
    way = record(ToyEnv(SHED), task, actions)
    assert way.success
    with closing(Positions(env or ToyEnv(SHED), task)) as positions:
        return revise(positions, way)


def others(task: Task) -> list[str]:
    """Two shelves where the fruit is not."""
    there = plan(task)[0]
    shelves = [f"go to shelf {number}" for number in range(1, SHED.shelves + 1)]
    return [shelf for shelf in shelves if shelf != there][:2]


def test_what_led_nowhere_is_replaced_by_the_next_needed_action(task: Task) -> None:
    first, second = others(task)
    go, *rest = plan(task)
    revision = looked_at(task, [first, second, go, *rest])
    assert revision.shortcuts == (Shortcut(0, go, 2), Shortcut(1, go, 1))
    assert revision.needed == 5


def test_detours_on_the_way_are_replaced_as_well(task: Task) -> None:
    first, second = others(task)
    go, take, sink, *rest = plan(task)
    revision = looked_at(task, [go, take, first, second, sink, *rest])
    assert revision.shortcuts == (Shortcut(2, sink, 2), Shortcut(3, sink, 1))


def test_a_straight_way_stays(task: Task) -> None:
    assert looked_at(task, plan(task)).shortcuts == ()


@pytest.mark.parametrize("number", range(0, SHED.tasks, 5))
def test_every_shortcut_leads_to_the_full_score(number: int) -> None:
    """Whoever takes it and goes on as hindsight says needs as many steps less as it says."""
    task = ENV.tasks("train")[number]
    wanderings = [f"go to shelf {n}" for n in range(1, SHED.shelves + 1)] + ["go to sink"]
    actions = [*wanderings, *expert(task, SHED.shelves)]
    revision = looked_at(task, actions)
    assert revision.shortcuts
    straight = list(expert(task, SHED.shelves)[-5 if task.kind == "wash" else -3 :])
    for cut in revision.shortcuts:
        way = straight[straight.index(cut.action) :]
        played = record(ToyEnv(SHED), task, [*actions[: cut.step], *way])
        assert played.success
        assert len(actions) - len(played.steps) == cut.saved


def test_what_cannot_be_done_in_a_state_is_no_advice_there(task: Task) -> None:
    first, second = others(task)
    go, take, *rest = plan(task)
    # Whoever is there already cannot go there: those states keep what was done in them.
    assert looked_at(task, [go, first, go, second, go, take, *rest]).shortcuts == ()


def test_without_copies_of_the_environment_it_is_the_same(task: Task) -> None:
    actions = [*others(task), *plan(task)]
    assert looked_at(task, actions, Uncopied(SHED)) == looked_at(task, actions)


def test_where_actions_are_not_listed_only_what_was_seen_is_to_be_done(task: Task) -> None:
    go, take, *rest = plan(task)
    actions = [*others(task), go, take, *rest]
    # All places are named at the start.
    shortcuts = looked_at(task, actions).shortcuts
    assert looked_at(task, actions, Unlisted(SHED)).shortcuts == shortcuts
    echo = EchoEnv()
    words = echo.tasks("test")[0]
    assert echo.reset(words).admissible is None
    way = Trajectory(words, "Say it.", (), 1.0, True, "agent")
    with closing(Positions(echo, words)) as positions:
        assert revise(positions, way).shortcuts == ()


def test_what_cannot_be_repeated_is_left_as_it_was(task: Task) -> None:
    Forgetful.rewards = 1
    actions = [*others(task), *plan(task)]
    way = record(Forgetful(SHED), task, actions)
    assert way.success
    with closing(Positions(Forgetful(SHED), task)) as positions:
        assert revise(positions, way) == Revision(0, way.id)


def test_an_error_of_the_environment_is_recorded(place: Path, task: Task, tmp_path: Path) -> None:
    run = create(tmp_path, ["refine"], Manifest("refine", {}, {}))
    way = record(ToyEnv(SHED), task, [*others(task), *plan(task)])
    with Session(run, Builder(str(place), broken=task.id)).working() as session:
        (revision,) = session.stage(f"{HINDSIGHT}.jsonl", Reviser, [(0, way)], Revision)
    assert "the shed has collapsed" in revision.error
    assert revision.shortcuts == ()


@pytest.fixture
def wandered() -> list[ExploredGoal]:
    """Solved goals, each after looking at all shelves in turn."""
    tasks = ENV.tasks("train")[4:16]
    wanderings = [f"go to shelf {n}" for n in range(1, SHED.shelves + 1)]
    ways = [
        record(ToyEnv(SHED), task, [*wanderings, *expert(task, SHED.shelves)[-5:]], "agent")
        for task in tasks
        if len(expert(task, SHED.shelves)) > 5
    ]
    assert all(way.success for way in ways)
    return [ExploredGoal(n, way.task, (Tree((), way),)) for n, way in enumerate(ways)]


def learnt_by(run: Run, place: Path, wandered: Sequence[ExploredGoal], **options: Any) -> Any:
    return judge_in(run, Builder(str(place)), wandered, GateOptions(**options))


class TestInARefinement:
    def test_practice_has_the_states_of_the_episode_and_the_actions_of_hindsight(
        self, run: Run, place: Path, wandered: list[ExploredGoal]
    ) -> None:
        verdict = learnt_by(run, place, wandered, gate="open")
        plain = collect(Builder(str(place)), wandered, FORMATION).rows
        assert len(verdict.rows) == len(plain)
        replaced = 0
        for new, old in zip(verdict.rows, plain, strict=True):
            assert (new.tuple.observation, new.tuple.history) == (
                old.tuple.observation,
                old.tuple.history,
            )
            assert new.tuple.outcome is not None
            assert (new.tuple.action != old.tuple.action) <= (new.tuple.outcome.saved > 0)
            assert new.tuple.possible
            if new.tuple.outcome.saved:
                assert new.tuple.action in new.tuple.possible
                replaced += 1
        assert replaced > len(plain) / 3

    def test_called_again_it_gives_the_same_without_playing(
        self, run: Run, place: Path, wandered: list[ExploredGoal]
    ) -> None:
        first = learnt_by(run, place, wandered, gate="open")
        revisions = records.read(run.directory / f"{HINDSIGHT}.jsonl", Revision)
        assert len(revisions) == len(wandered)
        assert sum(len(one.shortcuts) for one in revisions) > len(wandered)
        assert learnt_by(run, place, wandered, gate="open") == first

    def test_the_memory_keeps_what_it_saves(
        self, run: Run, place: Path, wandered: list[ExploredGoal], tmp_path: Path
    ) -> None:
        copy = shutil.copytree(place, tmp_path / "memory")
        verdict = learnt_by(run, copy, wandered, gate="open")
        base = generations(str(copy), "toy")[-1]
        extend(
            *(str(copy), base, verdict.rows, BagOfWords()),
            tasks=(),
            settings={},
            batches=verdict.batches,
        )
        added = [row.tuple for row in inspect(str(copy), "toy").rows if row.tuple.generation == 1]
        saved = {t.id: t.outcome.saved for t in added if t.outcome is not None}
        assert saved == {
            row.tuple.id: row.tuple.outcome.saved for row in verdict.rows if row.tuple.outcome
        }
        assert max(saved.values()) > 3
        memory = opened(copy)
        goal = wandered[0].task
        recalls = memory.retrieve(goal.goal, ENV.reset(goal).observation, 5)
        assert any(r.tuple.outcome and r.tuple.outcome.saved for r in recalls)


def test_tuples_of_other_episodes_are_left_alone(place: Path) -> None:
    rows = tuple(inspect(str(place), "toy").rows)
    other = Revision(0, "no such episode", 1, (Shortcut(0, "go to sink", 1),))
    assert revised(rows, [other]) == list(rows)
