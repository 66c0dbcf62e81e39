"""Describe, explain, plan and select: the loop, step by step, in a small workshop."""

from typing import Any

import pytest

from ldm.deps.select import REPORTING
from ldm.deps.styles import DepsOptions, Method
from ldm.errors import LdmError
from ldm.types import Card
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.environment import MinecraftOptions
from tests.agents.scripted import always
from tests.cases import cases
from tests.deps.ideal import Ideal, play
from tests.deps.workshop import Workshop, WorkshopOptions
from tests.toy import ToyEnv

#: App. G's stone sword: a pickaxe is missing, then a crafting table.
FIRST = """mine({"log": 3}, null); # step 1
craft({"planks": 12}, {"log": 3}, null); # step 2
craft({"stick": 4}, {"planks": 2}, null); # step 3
mine({"cobblestone": 2}, null); # step 4: mine 2 cobblestone without tool
craft({"stone_sword": 1}, {"cobblestone": 2, "stick": 1}, "crafting_table"); # step 5"""
SECOND = """craft({"wooden_pickaxe": 1}, {"planks": 3, "stick": 2}, "crafting_table");
mine({"cobblestone": 2}, "wooden_pickaxe");
craft({"stone_sword": 1}, {"cobblestone": 2, "stick": 1}, "crafting_table");"""
THIRD = f'craft({{"crafting_table": 1}}, {{"planks": 4}}, null);\n{SECOND}'
WHY = {
    'Step 4 failed: "mine': "Mining cobblestone takes a wooden_pickaxe.",
    'Step 1 failed: "craft': "Crafting a pickaxe takes a crafting_table.",
}


def ideal() -> Ideal:
    return Ideal([FIRST, SECOND, THIRD], WHY)


def test_a_plan_that_fails_is_described_explained_and_replaced() -> None:
    model = ideal()
    llm = model.model()

    result, trial, rounds = play(Workshop(), llm)

    assert (result.success, result.end) == (True, "done")
    assert model.requests == ["plan", "explain", "plan", "explain", "plan"]
    assert [one["trigger"] for one in rounds] == ["refused", "refused", None]
    assert [one["done"] for one in rounds] == [[1, 2, 3], [], [1, 2, 3]]
    assert rounds[0]["description"] == (
        'Steps 1, 2 and 3 are done. Step 4 failed: "mine({"cobblestone": 2}, null)". '
        "The answer was: Nothing happens. I hold 10 planks, 4 stick."
    )
    assert rounds[1]["description"].startswith("No step is done. Step 1 failed")
    assert [one["explanation"] for one in rounds] == [*WHY.values(), ""]
    assert [step.action for step in trial.steps][-2:] == [
        "mine 1 cobblestone with wooden_pickaxe",
        "craft 1 stone_sword with crafting_table",
    ]


def test_a_goal_that_goes_on_is_repeated_for_what_is_left() -> None:
    _, trial, rounds = play(Workshop(), ideal().model())
    assert [step.action for step in trial.steps][:3] == ["mine 3 log", "mine 2 log", "mine 1 log"]
    assert rounds[0]["pursued"][:3] == [[1, "unfinished"], [1, "unfinished"], [1, "done"]]


def test_a_goal_is_given_up_after_its_patience() -> None:
    env = Workshop(searches={"wool": 50, "log": 50})
    plan = 'mine({"wool": 1}, null);'
    _, trial, rounds = play(env, Ideal([plan, 'mine({"log": 1}, null);']).model(), rounds=1)
    assert [one["trigger"] for one in rounds] == ["out of patience", "out of patience"]
    actions = [step.action for step in trial.steps]
    assert (actions.count("mine 1 wool"), actions.count("mine 1 log")) == (3, 6)
    assert "It was not reached in 300 ticks." in rounds[0]["description"]


@pytest.mark.parametrize(
    ("plan", "trigger", "description"),
    [
        ("I would not know.", "no goals", "No line of the plan names a goal"),
        ("step 1: dance\nstep 2: sing", "no goals", "No line of the plan names a goal"),
        # It goes on as the demonstrations do.
        (
            "step 1: mine 1 log\nDescription: Done.\nstep 1: mine 1 cobblestone",
            "all done",
            "All steps are done. The task is not done yet.",
        ),
    ],
)
def test_what_ends_a_plan_is_described(plan: str, trigger: str, description: str) -> None:
    result, _, rounds = play(Workshop(), always(plan), rounds=1)
    assert [one["trigger"] for one in rounds] == [trigger, trigger]
    assert description in rounds[0]["description"]
    assert result.end == "gave_up"


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_there_are_no_more_new_plans_than_rounds(rounds: int) -> None:
    model = Ideal(["step 1: mine 1 cobblestone"])
    play(Workshop(), model.model(), rounds=rounds)
    assert model.requests.count("plan") == rounds + 1
    assert model.requests.count("explain") == rounds


def test_who_plans_anew_without_explaining() -> None:
    model = ideal()
    play(Workshop(), model.model(), method="gpt_rp")
    assert model.requests == ["plan", "plan", "plan"]


def test_without_room_the_oldest_rounds_go_and_the_last_one_stays() -> None:
    plans = [f"step 1: mine {n} cobblestone" for n in range(1, 8)]
    llm = Ideal(plans, {"failed": "A tool is missing, and without it nothing can be had. " * 6})
    model = llm.model()
    model._room = 3600
    _, _, rounds = play(Workshop(), model, rounds=6)
    last = model.prompts[-1]
    assert "earlier plans are left out here" in last
    assert "mine 1 cobblestone" not in last
    assert rounds[-2]["description"] in last
    assert "obtain 1 stone_sword" in last


def test_the_planner_and_the_others_are_asked_in_their_roles() -> None:
    from ldm.agents import Resources
    from ldm.deps import DepsAgent
    from ldm.episode import run_episode

    one, other = ideal(), ideal()
    resources = Resources(llm=other.model(), planner=one.model())
    env = Workshop()
    run_episode(env, DepsAgent(DepsOptions(), resources), env.tasks("test")[0])
    assert set(one.requests) == {"plan"}
    assert set(other.requests) == {"explain"}


class TestWhereAModelIsTheController:
    PLAN = "Step 1: find the apple\nStep 2: put it in the basket"

    def test_an_executor_does_each_goal(self) -> None:
        env = ToyEnv()
        task = next(task for task in env.tasks("test") if task.kind == "fetch")
        from tests.toy import expert

        way = expert(task)
        model = Ideal(
            [self.PLAN], executes={"find the apple": way[:-1], "put it in the basket": way[-1:]}
        )
        llm = model.model()
        result, trial, rounds = play(env, llm, task)
        assert result.success
        assert [step.action for step in trial.steps] == list(way)
        assert rounds[0]["pursued"] == [[1, "done"], [2, "stopped"]]
        assert "Actions that are possible now" in llm.prompts[1]

    def test_its_verdict_and_what_it_saw_are_described(self) -> None:
        env = ToyEnv()
        model = Ideal([self.PLAN], executes={"find the apple": ["go to shelf 1"]})
        _, _, rounds = play(env, model.model(), rounds=1)
        assert rounds[0]["trigger"] == "failed"
        assert rounds[0]["description"].startswith("Step 1 is done. Step 2 failed:")
        assert "Seen last: You are at shelf 1." in rounds[0]["description"]

    def test_a_goal_has_so_many_steps(self) -> None:
        env = ToyEnv()
        looks = {"find the apple": ["go to shelf 1", "go to sink"] * 20}
        _, trial, rounds = play(
            env, Ideal([self.PLAN], executes=looks).model(), rounds=0, goal_steps=3
        )
        assert len(trial.steps) == 3
        assert "It was not reached in 3 steps." in rounds[0]["description"]


def test_rounds_are_the_roots_of_the_tree() -> None:
    result, _, _ = play(Workshop(), ideal().model())
    tree = REPORTING.tree(result)
    assert tree is not None
    assert tree.columns == {"method": "deps", "plans": "3", "goals done": "6"}
    plans = [one for one in tree.branches if one.depth == 0]
    assert [one.texts.get("explanation", "") for one in plans] == [*WHY.values(), ""]
    states = [one.state for one in tree.branches[1:6]]
    assert states == ["done", "done", "done", "failed", "open"]
    lines = list(tree.lines())
    assert lines[0] == "plan 1  [ended by: refused]"
    assert "  4. mine 2 cobblestone  [refused]" in lines
    assert "  5. craft 1 stone_sword with crafting_table  [not tried]" in lines
    assert "plan 3  [ended by: the trial ended]" in lines


def test_reports_count_plans_goals_and_what_ended_them() -> None:
    result, _, _ = play(Workshop(), ideal().model())
    findings = REPORTING.findings([result])
    assert findings.values == {
        "plans": 3,
        "goals": 12,
        "dropped": 0,
        "ends": {"refused": 2, "the trial ended": 1},
    }
    assert [measure.of(result) for measure in REPORTING.measures] == [3.0, 6.0]


@pytest.mark.parametrize("method", ["progprompt", "cap"])
def test_programs_need_an_inventory(method: Method) -> None:
    from ldm.deps import DepsAgent

    DepsAgent.check(Workshop.card, DepsOptions(method=method))
    with pytest.raises(LdmError, match="has none"):
        DepsAgent.check(Card("room", "", ("go to PLACE",)), DepsOptions(method=method))


def test_a_monologue_has_nothing_to_select_from() -> None:
    with pytest.raises(ValueError, match="leave selector out"):
        DepsOptions(method="im", selector="random")


def test_the_time_limit_ends_a_trial() -> None:
    env = Workshop(WorkshopOptions(limit=250))
    result, _, rounds = play(env, ideal().model())
    assert (result.success, result.end) == (False, "done")
    assert rounds[0]["pursued"][-1][1] == "stopped"


@pytest.mark.parametrize("method", ["dep", "gpt_rp"])
@pytest.mark.parametrize("trace", cases(__file__, "dialogues"), ids=lambda trace: trace["item"])
def test_the_dialogue_of_the_paper(trace: dict[str, Any], method: str) -> None:
    """App. H's diamond and App. G's stone sword, with the plans of the dialogues and their quotes.

    The causes of failure are compared: the inventories of App. H contradict one another
    (docs/decisions/agents.md#deps).
    """
    options = MinecraftOptions(
        controller="none", rules="paper", tools="stated", feedback="fine", given="none"
    )
    env = Minecraft(options)
    task = next(task for task in env.tasks("test") if task.source == trace["item"])
    plans, failures = trace["plans"], trace["failures"]
    ideal = Ideal(plans, {"failed": "Something is missing."})

    result, _, rounds = play(env, ideal.model(), task, method=method)

    assert (result.success, result.end) == (True, "done")
    assert [len(one["goals"]) for one in rounds] == [len(plan.splitlines()) for plan in plans]
    assert all(one["dropped"] == [] for one in rounds)
    assert [one["failed"] for one in rounds] == [*(step for step, _ in failures), None]
    for one, (_, lacking) in zip(rounds[:-1], failures, strict=True):
        assert lacking in one["description"].partition("The answer was:")[2].partition("I hold")[0]
    assert ideal.requests.count("explain") == (len(failures) if method == "dep" else 0)
    tree = REPORTING.tree(result)
    assert tree is not None
    assert tree.columns["plans"] == str(len(plans))
