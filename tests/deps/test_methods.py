"""Each method: its prompt word for word, and a task that it solves with an ideal model."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from ldm.agents.demonstrations import SHIPPED
from ldm.deps import DepsAgent
from ldm.deps.parser import MOST_ROUNDS, Goal, Malformed, Parser, Policy, Unmet, Vocabulary
from ldm.deps.styles import DepsOptions, Method
from ldm.episode import Environment
from ldm.errors import LeakageError
from ldm.llm import Message
from ldm.run.selection import check_leakage
from ldm.types import Task
from ldm.worlds.alfworld import ALFWorld
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.environment import MinecraftOptions
from tests.agents.scripted import always, in_turn
from tests.cases import cases
from tests.conftest import Golden
from tests.deps.ideal import Ideal, play
from tests.deps.test_loop import FIRST, SECOND, THIRD, WHY
from tests.deps.workshop import CARD, Workshop

GOLDEN = Path(__file__).parents[1] / "golden" / "deps"
#: What renders a prompt.
Request = Callable[[], list[Message]]
METHODS: tuple[Method, ...] = get_args(Method)
ONCE: tuple[Method, ...] = ("gpt", "progprompt", "cot", "cap")
#: A plan for planks, as each method is to write it.
PLANKS: dict[Method, list[str]] = cases(__file__, "planks")


def without_map(**options: Any) -> tuple[Environment, Task]:
    env = Minecraft(MinecraftOptions(controller="none", **options))
    return env, next(task for task in env.tasks("test") if task.source == "planks")


@pytest.mark.parametrize("rules", ["vanilla", "paper"])
@pytest.mark.parametrize("method", METHODS)
def test_each_method_solves_planks_with_an_ideal_model(method: Method, rules: str) -> None:
    env, task = without_map(rules=rules)
    result, trial, _ = play(env, in_turn(PLANKS[method]), task, method=method)
    assert (result.success, result.end, result.invalid) == (True, "done", 0)
    assert [step.action for step in trial.steps][-1].startswith("craft ")


@pytest.mark.parametrize("method", ONCE)
@pytest.mark.parametrize("reply", ["", FIRST, "Step 1: mine 1 cobblestone", "while True: pass"])
def test_methods_without_new_plans_never_call_the_planner_twice(method: Method, reply: str) -> None:
    llm = always(reply)
    result, _, _ = play(Workshop(), llm, method=method)
    assert len(llm.requests) == 1
    assert result.end == "gave_up"


def test_a_monologue_sees_what_came_of_each_goal() -> None:
    replies = [
        "Goal: craft 4 planks\nThought: easy",
        "Goal: mine 1 log\nThought: wood first",
        "Goal: done",
    ]
    llm = in_turn(replies)
    result, trial, rounds = play(Workshop(), llm, method="im")
    assert [step.action for step in trial.steps] == ["craft 4 planks", "mine 1 log"]
    assert [one["trigger"] for one in rounds] == ["refused", "all done"]
    last = llm.prompts[-1]
    assert "Scene: I hold nothing.\nGoal: craft 4 planks\nThought: easy\nSuccess: no" in last
    assert "Success: yes" in last.rpartition("Goal: mine 1 log")[2]
    assert last.rpartition("<scene>")[2].startswith("\nI hold 1 log.")
    assert result.end == "gave_up"


def test_a_refusal_leaves_the_scene_before_it_in_view() -> None:
    env = ALFWorld()
    replies = ["Goal: leave the room", "Act: fly away", "Act: task failed", "Goal: done"]
    llm = in_turn(replies)
    play(env, llm, env.tasks("demo_test")[0], method="im")
    scene = llm.prompts[-1].rpartition("<scene>")[2]
    assert "Nothing happens." in scene
    assert "You are in the middle of a room" in scene


@pytest.mark.parametrize("method", METHODS)
def test_the_papers_prompts_hold_neither_rules_nor_a_scene(method: Method) -> None:
    env, task = without_map()
    llm = always("Goal: mine 1 log\nstep 1: mine 1 cobblestone")
    play(env, llm, task, method=method, rounds=1, max_goals=2, card="bare", scene=False)
    for prompt in llm.prompts:
        assert env.card.rules[:60] not in prompt
        assert "wooden pickaxe" not in prompt  # which tool is for what, in the rules
        assert "<seen>" not in prompt
        assert "At first" not in prompt


def test_a_monologue_comes_to_an_end() -> None:
    llm = always("Goal: dance")
    play(Workshop(), llm, method="im", max_goals=7)
    assert len(llm.requests) == 7


class TestPrograms:
    def run(self, text: str, held: dict[str, int] | None = None) -> list[str]:
        counts, done = dict(held or {}), []

        def act(goal: Goal) -> None:
            done.append(f"{goal.verb} {goal.item}")
            counts[goal.item] = counts.get(goal.item, 0) + 1

        has = lambda item, count: counts.get(item, 0) >= count  # noqa: E731
        Policy(Parser(Vocabulary.of(CARD)), has, act).run(text)
        return done

    def test_loops_run_until_their_condition_holds(self) -> None:
        text = "while not inventory.has({'log': 3}):\n    mine(obj = \"log\", tool = null)"
        assert self.run(text) == ["mine log"] * 3
        assert self.run(text, {"log": 2}) == ["mine log"]

    def test_typographic_quotes_fences_and_a_function_around_are_fine(self) -> None:
        text = (
            "```python\ndef f(inventory = {}):\n    # step 1\n"
            "    while not inventory.has({’log’:1}):\n        mine(obj = ’log’);\n"
            "    return ’log’\n```"
        )
        assert self.run(text) == ["mine log"]

    def test_an_assert_that_fails_ends_the_program(self) -> None:
        with pytest.raises(Unmet, match="no log"):
            self.run('assert inventory.has({"log": 1}), "no log"\nmine(obj="log")')

    @pytest.mark.parametrize(
        "text",
        [
            "", "I would mine a log.", "x = 1", "import os", "for _ in a:\n    mine(obj='log')",
            "while True:\n    mine(obj='log')", "mine(obj='moon')", "fly(obj='log')",
            "inventory.clear()", "__import__('os').system('ls')", "mine(obj='log') if 1 else 2",
            "def f():\n    pass\ndef g():\n    pass", "lambda: 1", "(" * 500, "while not " * 500,
            "while inventory.has({}):\n    mine(obj='log')", "assert 1", "if x:\n    pass",
            "while not inventory.has({'log': 'many'}):\n    mine(obj='log')",
            "while not inventory.has({'stick': 1}):\n    mine(obj='log')",
        ],
    )  # fmt: skip
    def test_anything_else_is_malformed(self, text: str) -> None:
        with pytest.raises(Malformed):
            self.run(text)

    def test_a_loop_has_an_end(self) -> None:
        rounds: list[Goal] = []
        policy = Policy(Parser(Vocabulary.of(CARD)), lambda item, count: False, rounds.append)
        with pytest.raises(Malformed, match="more than"):
            policy.run("while not inventory.has({'log': 1}):\n    mine(obj='log')")
        assert len(rounds) == MOST_ROUNDS

    def test_a_family_counts_all_its_members(self) -> None:
        env, task = without_map()
        text = "while not inventory.has({'log': 3}):\n    mine(obj='log')"
        _, trial, rounds = play(env, always(text), task, method="cap")
        assert [step.action for step in trial.steps] == ["mine 1 log"] * 3
        assert rounds[0]["trigger"] == "all done"


def minecraft_prompt(
    method: Method, number: int = 0, **options: Any
) -> Callable[[], list[Message]]:
    """A request of a method in Minecraft without a map, after plans that fail."""

    def request() -> list[Message]:
        env, _ = without_map()
        task = next(task for task in env.tasks("test") if task.source == "stone_pickaxe")
        llm = Ideal([FIRST, SECOND, THIRD], WHY).model()
        play(env, llm, task, method=method, **options)
        return list(llm.requests[number][0])

    return request


def alfworld_prompt(number: int) -> Request:
    def request() -> list[Message]:
        env = ALFWorld()
        plan = "Step 1: find a mug and take it\nStep 2: put it in a cabinet"
        llm = Ideal([plan], {"failed": "There is no mug."}).model()
        play(env, llm, env.tasks("demo_test")[0], method="dep", rounds=1)
        return list(llm.requests[number][0])

    return request


def next_prompt() -> list[Message]:
    env, task = without_map()
    llm = in_turn(PLANKS["im"])
    play(env, llm, task, method="im", shots=1)
    return list(llm.requests[1][0])


def parse_prompt() -> list[Message]:
    llm = Ideal(["step 1: fell two trees"]).model()
    play(Workshop(), llm, rounds=0, parser="llm")
    return list(llm.requests[1][0])


CASES: dict[str, Request] = {
    **{f"{method}_plan": minecraft_prompt(method) for method in METHODS if method != "im"},
    "deps_explain": minecraft_prompt("deps", 1),
    "deps_plan_anew": minecraft_prompt("deps", 2, shots=0),
    "gpt_rp_plan_anew": minecraft_prompt("gpt_rp", 1, shots=0),
    "im_next": next_prompt,
    "deps_parse": parse_prompt,
    "dep_plan_alfworld": alfworld_prompt(0),
    "dep_explain_alfworld": alfworld_prompt(2),
}


@pytest.mark.parametrize("name", CASES)
def test_a_prompt_is_worded_as_it_was(name: str, golden: Golden) -> None:
    golden(GOLDEN / f"{name}.txt", CASES[name]())


def test_every_golden_prompt_is_rendered_by_some_test() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == set(CASES)


def test_dep_and_deps_ask_the_same() -> None:
    assert minecraft_prompt("dep")() == minecraft_prompt("deps")()


@pytest.fixture(scope="module")
def env() -> Iterator[Environment]:
    env = Minecraft(MinecraftOptions(controller="none"))
    yield env
    env.close()


class TestDemonstrations:
    """Those of the paper are two of its tasks; ours are none of the 76."""

    def test_ours_may_be_evaluated_on_all_of_the_papers_tasks(self, env: Environment) -> None:
        sources = frozenset(DepsAgent.sources(DepsOptions(), "minecraft"))
        assert sources == {"ladder", "smoker"}
        check_leakage(sources, env.tasks("test"))

    def test_the_papers_own_are_refused_for_their_two_tasks_alone(self, env: Environment) -> None:
        options = DepsOptions(demonstrations=str(SHIPPED / "minecraft.paper.jsonl"))
        sources = frozenset(DepsAgent.sources(options, "minecraft"))
        assert sources == {"wooden_button", "stone_sword"}
        others = [task for task in env.tasks("test") if task.source not in sources]
        assert len(others) == 67
        check_leakage(sources, others)
        with pytest.raises(LeakageError):
            check_leakage(sources, env.tasks("test"))

    def test_what_they_tell_is_what_the_agent_says_when_it_plays_them(self) -> None:
        from tools.planner_rounds import ROUNDS, played_rounds, text_of

        for name in ROUNDS:
            _, rounds = played_rounds(name)
            assert (SHIPPED / f"{name}.rounds.json").read_text("utf-8") == text_of(rounds)

    def test_without_shots_none_is_shown(self) -> None:
        llm = always("")
        env, task = without_map()
        play(env, llm, task, shots=0, rounds=0)
        assert "Example" not in llm.prompts[0]
        assert not list(DepsAgent.sources(DepsOptions(shots=0), "minecraft"))
