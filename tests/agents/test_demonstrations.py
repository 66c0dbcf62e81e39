"""The demonstrations that ship: ours, replayable, fit for their kind, and never evaluated."""

from pathlib import Path

import pytest

from ldm import records
from ldm.agents import demonstrations
from ldm.agents.decomposition.logic import parse_plan, written
from ldm.envs import load_env
from ldm.envs.metadata import card_of as card_of_class
from ldm.errors import LdmError, LeakageError
from ldm.run.selection import check_leakage
from ldm.types import Card
from tests.agents.loop_contract import RECIPES, SPLITS, open_env
from tests.toy import expert_trajectories

#: Environment → kind → how many there are.
SHIPPED = {
    "alfworld": dict.fromkeys(("clean", "cool", "heat", "look", "pick", "pick2"), 2),
    "hotpotqa": {"bridge": 3, "comparison": 3},
    "textcraft": {"depth2": 2},
    "webshop": {"buy": 2},
}
#: Environments with demonstrations of skills, and with examples of how tasks divide.
DIVIDED = tuple(name for name in SHIPPED if name != "hotpotqa")
ENVS = [pytest.param(name, marks=[RECIPES] * (name == "textcraft")) for name in SHIPPED]


def card_of(name: str) -> Card:
    card = card_of_class(load_env(name))
    assert card is not None
    return card


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


def test_every_thought_of_a_question_says_what_was_read_or_what_is_sought() -> None:
    """The last one ends with the answer, so that thoughts alone are a chain of thought."""
    for one in demonstrations.load("hotpotqa"):
        thoughts = [step.thought for step in one.steps if not step.action]
        acts = [step.action for step in one.steps if step.action]
        assert len(thoughts) == len(acts)  # one before each action
        answer = acts[-1].removeprefix("finish[").removesuffix("]")
        assert thoughts[-1].endswith(f"the answer is {answer}.")
        answers = " ".join(step.observation for step in one.steps)
        for thought in thoughts[1:]:
            fact = thought.partition(". ")[0]
            assert fact in answers or "There is no article" in thought or "does not tell" in thought


@pytest.mark.parametrize("name", ENVS)
def test_nothing_that_is_evaluated_by_default_is_shown(name: str) -> None:
    env = open_env(name)
    sources = demonstrations.sources(name, None, shots=2, with_skills=True, with_plans=True)
    check_leakage(sources, env.tasks(SPLITS[name]))
    example = demonstrations.load(name)[0].task
    with pytest.raises(LeakageError):
        check_leakage(sources, [task for task in env.tasks(example.split) if task.id == example.id])
    assert demonstrations.sources(name, None, shots=0) == frozenset()
    env.close()


@RECIPES
def test_no_published_task_of_textcraft_is_shown(shared_data: Path) -> None:
    env_class = load_env("textcraft")
    published = shared_data / "textcraft" / "adapt_test_200.jsonl"
    env = env_class(env_class.Options(tasks=published))
    sources = demonstrations.sources("textcraft", None, 2, with_skills=True, with_plans=True)
    assert len(sources) > len(demonstrations.sources("textcraft", None, 2))
    check_leakage(sources, env.tasks("stored"))


class TestSkills:
    """Demonstrations of ADaPT's atomic skills (arXiv 2311.05772, Table 1)."""

    @pytest.mark.parametrize(
        ("name", "skills"),
        [
            ("alfworld", {"put", "take", "clean", "heat", "cool", "light"}),
            ("textcraft", {"craft", "get", "check"}),
            # Ours are smaller than the paper's: its search is find, its buy is choose and buy.
            ("webshop", {"find", "shortlist", "match", "choose", "buy"}),
        ],
    )
    def test_there_is_one_of_each(self, name: str, skills: set[str]) -> None:
        examples = demonstrations.skills(name)
        assert {one.task.kind for one in examples} == skills
        words = {skill.split()[0] for skill in card_of(name).skills}
        assert skills <= words
        succeeded = {one.task.kind for one in examples if one.success}
        assert succeeded >= skills - {"choose"}  # which is a part of buying

    @pytest.mark.parametrize("name", DIVIDED)
    def test_some_fail_and_say_why(self, name: str) -> None:
        failed = [one for one in demonstrations.skills(name) if not one.success]
        assert failed
        assert all(one.steps[-1].thought for one in failed)

    @pytest.mark.parametrize("name", DIVIDED)
    def test_looks_that_decide_hold_a_judgement_and_no_action(self, name: str) -> None:
        judged = card_of(name).judged
        for one in demonstrations.skills(name):
            actions = [step.action for step in one.steps if step.action]
            assert bool(actions) != (one.task.kind in judged) or one.task.kind == "choose"
            if one.task.kind in judged:
                assert len(one.steps) == 1
        assert {one.task.kind for one in demonstrations.skills(name)} >= set(judged)

    def test_they_are_sub_tasks_of_games_that_are_known_by_their_source(self) -> None:
        for name in DIVIDED:
            for one in demonstrations.skills(name):
                assert one.task.leak_key in demonstrations.sources(name, None, 2, with_skills=True)
                assert "Goal:" not in one.opening  # that of the whole task
                assert "Your task is" not in one.opening


def check_plan(text: str, least: int, most: int) -> None:
    """Assert that a plan reads as it is meant."""
    plan, lines = parse_plan(text), text.splitlines()
    assert plan.flaw == ""
    assert list(plan.steps) == list(range(1, len(plan.steps) + 1))
    assert least <= len(plan.steps) <= most
    assert lines[0].startswith("Think: ")
    assert len(lines[0].split()) <= 41
    assert plan.logic is not None
    assert lines[-1] == f"Execution Order: {written(plan.logic)}"


class TestDivisions:
    """Examples of how tasks divide, for planners (ADaPT, App. A)."""

    @pytest.mark.parametrize(("name", "count"), [("alfworld", 6), ("textcraft", 2), ("webshop", 2)])
    def test_there_are_as_many_as_in_the_paper(self, name: str, count: int) -> None:
        assert len(demonstrations.divisions(name)) == count

    @pytest.mark.parametrize("name", SHIPPED)
    def test_all_plans_read_as_they_are_meant(self, name: str) -> None:
        for one in demonstrations.divisions(name):
            for text, most in ((one.plan, 5), (one.detailed, 12)):
                if text:
                    check_plan(text, 2, most)

    @pytest.mark.parametrize("name", DIVIDED)
    def test_detailed_plans_leave_nothing_to_divide(self, name: str) -> None:
        """No step of theirs is a sub-task that another example divides."""
        divisions = demonstrations.divisions(name)
        divided = {one.task for one in divisions}
        for one in divisions:
            if one.detailed:
                assert not divided & set(parse_plan(one.detailed).steps.values())


def test_common_ones_are_the_first_of_each_kind_named_or_else_the_first_ones() -> None:
    known = demonstrations.load("alfworld")
    heat, look = demonstrations.common(known, ("heat", "look"), 2)
    assert heat == next(one for one in known if one.task.kind == "heat")
    assert look == next(one for one in known if one.task.kind == "look")
    assert demonstrations.common(known, ("heat", "look"), 1) == (heat,)
    assert demonstrations.common(known, ("sweep",), 2) == ()
    assert demonstrations.common(known, (), 2) == known[:2]


def test_those_of_the_kind_come_first() -> None:
    episodes = demonstrations.load("alfworld")
    for kind in SHIPPED["alfworld"]:
        assert [one.task.kind for one in demonstrations.chosen(episodes, kind, 2)] == [kind] * 2
    assert [one.task.kind for one in demonstrations.chosen(episodes, "heat", 3)].count("heat") == 2
    assert len(demonstrations.chosen(episodes, "unheard of", 2)) == 2
    assert demonstrations.chosen(episodes, "heat", 0) == ()


class TestOnesOwn:
    @pytest.fixture
    def own(self, tmp_path: Path) -> Path:
        """A file of two demonstrations."""
        records.write(tmp_path / "own.jsonl", expert_trajectories()[:2])
        return tmp_path / "own.jsonl"

    def test_a_file_takes_the_place_of_those_that_ship(self, own: Path) -> None:
        episodes = expert_trajectories()[:2]
        assert demonstrations.load("toy", str(own)) == tuple(episodes)
        assert demonstrations.sources("toy", str(own), 1) == {t.task.id for t in episodes}

    def test_what_lies_beside_it_is_a_part_of_its_digest(self, own: Path) -> None:
        digests = [demonstrations.digest(own)]
        for end, text in ((".skills.jsonl", "\n"), (".plans.jsonl", "\n")):
            own.with_suffix(end).write_text(text)
            digests.append(demonstrations.digest(own))
        own.with_suffix(".skills.jsonl").write_text("\n\n")
        digests.append(demonstrations.digest(own))
        assert len(set(digests)) == len(digests)

    def test_skills_and_divisions_that_are_none_are_named(self, own: Path) -> None:
        own.with_suffix(".skills.jsonl").write_text('{"task": 3}\n')
        with pytest.raises(LdmError, match=r"own\.skills\.jsonl:1:"):
            demonstrations.skills("toy", str(own))
        own.with_suffix(".plans.jsonl").write_text('{"task": "a", "seen": "b"}\n')
        with pytest.raises(LdmError, match=r"own\.plans\.jsonl:1:.*plan"):
            demonstrations.divisions("toy", str(own))

    def test_a_file_that_does_not_fit_is_named(self, own: Path, tmp_path: Path) -> None:
        missing = tmp_path / "none.jsonl"
        with pytest.raises(LdmError, match=r"no demonstrations at .*none\.jsonl"):
            demonstrations.load("toy", str(missing))
        with pytest.raises(LdmError, match="holds no demonstration for alfworld"):
            demonstrations.load("alfworld", str(own))
        bad = tmp_path / "bad.jsonl"
        bad.write_text('{"task": 3}\n')
        with pytest.raises(LdmError, match=r"bad\.jsonl:1:"):
            demonstrations.load("toy", str(bad))
