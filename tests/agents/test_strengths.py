"""ADaPT's executors of three strengths (arXiv 2311.05772, §6.2, Fig. 5), which baselines share."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from ldm import records
from ldm.agents import Resources, demonstrations, load_agent
from ldm.agents.loop import Strength
from ldm.agents.replies import example_texts
from ldm.episode import Environment
from ldm.types import Task, Trajectory
from ldm.worlds.alfworld.environment import CARD as ALFWORLD
from ldm.worlds.textcraft.environment import CARD as TEXTCRAFT
from ldm.worlds.webshop.environment import CARD as WEBSHOP
from tests.agents.loop_contract import RECIPES, open_env, played
from tests.agents.scripted import Scripted, always, in_turn
from tests.toy import ToyEnv, expert, expert_trajectories

STRENGTHS: tuple[Strength, ...] = get_args(Strength)
#: The agents that do the whole task with an executor, and those that divide it.
TRYING = ("react", "try_again", "reflexion")
ENVS = [
    pytest.param("alfworld", "demo_test"),
    pytest.param("textcraft", "test", marks=RECIPES),
    pytest.param("webshop", "demo_test"),
]


def prompted(agent: str, env: Environment, task: Task, llm: Scripted, **options: Any) -> Scripted:
    """The model, after an agent had one try at a task with it."""
    agent_class = load_agent(agent)
    known = {name: value for name, value in options.items() if hasattr(agent_class.Options(), name)}
    made = agent_class(agent_class.Options(**known), Resources(llm=llm, planner=llm))
    played(made, env, task)
    return llm


def first_prompt(agent: str, env: Environment, task: Task, **options: Any) -> str:
    llm = prompted(agent, env, task, always("Act: task failed"), trials=1, d_max=1, **options)
    return llm.prompts[0]


def examples(prompt: str) -> str:
    """What a prompt shows before the task."""
    return prompt.partition("The examples are over.")[0]


def texts_of(trajectories: Sequence[Trajectory], *, judged: bool = True) -> list[str]:
    return example_texts(trajectories, width=4000, thoughts=True, judged=judged)


def of_each_kind(env: Environment, split: str) -> list[Task]:
    return list({task.kind: task for task in env.tasks(split)}.values())


class TestHybrid:
    """The standard executor, of Table 2: atomic skills, and heat and look (§4.1)."""

    def test_is_shown_the_same_for_tasks_of_all_kinds(self) -> None:
        env = open_env("alfworld")
        tasks = of_each_kind(env, "demo_test")
        assert len(tasks) == 6
        prompts = {examples(first_prompt("adapt", env, task)) for task in tasks}
        assert len(prompts) == 1

    @RECIPES
    def test_is_shown_one_whole_craft(self) -> None:
        """App. A: one full gold trajectory for TextCraft."""
        env = open_env("textcraft")
        for task in of_each_kind(env, "test"):
            prompt = examples(first_prompt("adapt", env, task))
            goals = [goal for goal in re.findall(r"Task: (.*)", prompt) if goal.endswith(".")]
            assert goals == [demonstrations.load("textcraft")[0].task.goal]

    def test_is_the_default_of_the_paper_where_it_has_one(self) -> None:
        for card, strength in ((ALFWORLD, "hybrid"), (TEXTCRAFT, "hybrid"), (WEBSHOP, "skills")):
            for agent in ("adapt", "plan_execute"):
                agent_class: Any = load_agent(agent)
                made = agent_class(agent_class.Options(), Resources())
                assert made.strength(card) == strength

    def test_is_the_default_elsewhere(self, tmp_path: Path) -> None:
        env, file = ToyEnv(), tmp_path / "own.jsonl"
        own = expert_trajectories()[:4]
        records.write(file, own)
        task = env.tasks("test")[1]
        assert task.kind == "wash"
        prompt = examples(first_prompt("adapt", env, task, demonstrations=str(file)))
        goals = re.findall("^Task: (.*)", prompt, re.MULTILINE)
        assert goals == [one.task.goal for one in own[:2]]  # not by kind


class TestSkills:
    @pytest.mark.parametrize(("name", "split"), ENVS)
    def test_are_all_demonstrated_and_nothing_else(self, name: str, split: str) -> None:
        env = open_env(name)
        prompt = first_prompt("adapt", env, env.tasks(split)[0], strength="skills")
        skills = [s for s in demonstrations.skills(name) if s.task.kind not in env.card.judged]
        texts = texts_of(skills)
        assert all(text in prompt for text in texts)
        assert prompt.count("<example>") == len(texts)
        assert "<skills>" not in prompt

    def test_are_told_in_words_where_none_can_be_demonstrated(self) -> None:
        env = ToyEnv()
        env.card = replace(env.card, skills=("fetch FRUIT: take it from where it is",))
        for strength in ("hybrid", "skills"):
            prompt = first_prompt("adapt", env, env.tasks("test")[0], strength=strength)
            assert "<skills>\nfetch FRUIT: take it from where it is\n</skills>" in prompt
        assert "<skills>" not in first_prompt("adapt", env, env.tasks("test")[0], strength="task")

    def test_of_ones_own_lie_beside_ones_own_demonstrations(self, tmp_path: Path) -> None:
        file = tmp_path / "own.jsonl"
        whole = expert_trajectories()[:1]
        records.write(file, whole)
        task = replace(whole[0].task, goal="take the fruit", kind="take")
        skill = replace(whole[0], task=task, steps=whole[0].steps[:2], success=False, score=0.0)
        records.write(file.with_suffix(".skills.jsonl"), [skill])
        options = {"strength": "skills", "demonstrations": str(file)}
        prompt = first_prompt("react", ToyEnv(), ToyEnv().tasks("test")[0], **options)
        (text,) = texts_of([skill])
        assert text in prompt
        assert text.endswith("Act: task failed")
        assert whole[0].task.goal not in examples(prompt)


class TestTask:
    def test_is_shown_whole_tasks_of_its_own_kind(self) -> None:
        """App. C and Table 8: the executor of ReAct's own prompts."""
        env = open_env("alfworld")
        for task in of_each_kind(env, "demo_test"):
            prompt = first_prompt("adapt", env, task, strength="task")
            own = demonstrations.chosen(demonstrations.load("alfworld"), task.kind, 2)
            assert [one.task.kind for one in own] == [task.kind] * 2
            assert all(text in prompt for text in texts_of(own))
            assert prompt.count("<example>") == 2


class TestBaselines:
    @pytest.mark.parametrize(("name", "split"), ENVS)
    @pytest.mark.parametrize("strength", STRENGTHS)
    def test_share_the_executor(self, strength: Strength, name: str, split: str) -> None:
        env = open_env(name)
        task = env.tasks(split)[0]
        own = first_prompt("adapt", env, task, strength=strength)
        for agent in TRYING:
            assert first_prompt(agent, env, task, strength=strength) == own

    @pytest.mark.parametrize("strength", STRENGTHS)
    def test_plan_execute_gives_it_the_sub_tasks(self, strength: Strength) -> None:
        env = open_env("alfworld")
        task = env.tasks("demo_test")[0]
        planned = "Step 1: find a cellphone and take it\nExecution Order: Step 1"
        failed = "Act: task failed"
        llm = in_turn([planned], failed)
        fixed = prompted("plan_execute", env, task, llm, strength=strength)
        llm = in_turn([failed, planned], failed)
        adaptive = prompted("adapt", env, task, llm, strength=strength, d_max=2)
        assert fixed.prompts[1] == adaptive.prompts[2]
        assert "find a cellphone and take it" in fixed.prompts[1]

    def test_say_when_they_are_done_or_give_up(self) -> None:
        env = ToyEnv()
        task = env.tasks("test")[0]
        for agent in ("react", "try_again"):
            llm = prompted(
                agent, env, task, always("Act: task completed"), strength="hybrid", trials=1
            )
            assert len(llm.requests) == 1
            assert "reply: Act: task completed" in llm.requests[-1][0][0].content

    def test_reflect_on_a_trial_that_was_given_up(self) -> None:
        env = ToyEnv()
        task = env.tasks("test")[0]
        replies = ["Act: task failed", "I gave up too early.", *(f"Act: {a}" for a in expert(task))]
        llm = prompted("reflexion", env, task, in_turn(replies), strength="skills", trials=2)
        assert "- I gave up too early." in llm.prompts[2]

    @pytest.mark.parametrize("agent", ["react", "standard", "reflexion", "try_again"])
    def test_are_as_in_their_own_papers_unless_told_otherwise(self, agent: str) -> None:
        """Whole tasks of the kind, and no word of a judgement."""
        env = open_env("alfworld")
        task = env.tasks("demo_test")[0]
        llm = prompted(agent, env, task, always("Act: look"), budget=1, trials=1)
        messages, _ = llm.requests[-1]
        assert "task completed" not in messages[0].content + messages[-1].content
        own = demonstrations.chosen(demonstrations.load("alfworld"), task.kind, 2)
        texts = example_texts(own, width=4000, thoughts=agent != "standard")
        assert all(text in messages[-1].content for text in texts)

    def test_what_they_are_shown_may_not_be_evaluated(self) -> None:
        skills = {one.task.leak_key for one in demonstrations.skills("alfworld")}
        whole = {one.task.leak_key for one in demonstrations.load("alfworld")}
        for agent in ("react", "reflexion", "try_again"):
            agent_class: Any = load_agent(agent)
            for strength in (None, *STRENGTHS):
                options = agent_class.Options(strength=strength)
                expected = whole | (skills if strength in ("hybrid", "skills") else set())
                assert set(agent_class.sources(options, "alfworld")) == expected
        for agent in ("adapt", "plan_execute"):
            agent_class = load_agent(agent)
            assert set(agent_class.sources(agent_class.Options(), "alfworld")) == whole | skills
            shop = set(agent_class.sources(agent_class.Options(), "webshop"))
            assert {one.source for one in demonstrations.divisions("webshop")} <= shop
            assert set(agent_class.sources(agent_class.Options(shots=0), "alfworld")) == set()


class TestEndings:
    @pytest.mark.parametrize(("name", "split"), ENVS)
    def test_a_demonstration_ends_by_a_judgement_where_executors_judge(
        self, name: str, split: str
    ) -> None:
        env = open_env(name)
        task = env.tasks(split)[0]
        for strength in STRENGTHS:
            prompt = examples(first_prompt("react", env, task, strength=strength))
            ends = re.findall(r"^Act: (task \w+)\n(?:</example>|\nTask: )", prompt, re.MULTILINE)
            assert len(ends) == len(re.findall("^Task: ", prompt, re.MULTILINE))
            assert ("task failed" in ends) == (strength != "task")
            assert "task completed" in ends

    def test_one_that_failed_ends_by_saying_so(self) -> None:
        (one,) = expert_trajectories()[:1]
        failed = replace(one, success=False, score=0.0)
        assert texts_of([one])[0].endswith("\nAct: task completed")
        assert texts_of([failed])[0].endswith("\nAct: task failed")
        assert texts_of([failed], judged=False)[0].endswith("is in the basket.")

    def test_those_in_one_place_describe_it_once(self) -> None:
        (one,) = expert_trajectories()[:1]
        other = replace(one, task=replace(one.task, goal="another task"))
        (text,) = texts_of([one, other])
        assert text.count(one.opening) == 1
        assert text.startswith(f"Observation: {one.opening}\n\nTask: {one.task.goal}\n")
        assert "\n\nTask: another task\nAct: " in text
