"""AutoPlan's agent: plans from files, thoughts and actions, sources that may not be evaluated."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.agents import Resources
from ldm.agents.autoplan import AutoPlanAgent, AutoPlanOptions, thought_in, understood
from ldm.agents.autoplan.plans import ALL, Iteration, PlanFile, path_of, read, write
from ldm.envs import load_env
from ldm.envs.metadata import card_of
from ldm.episode import NO_ACTION, run_episode
from ldm.errors import LdmError
from ldm.types import EpisodeResult, Trajectory
from ldm.worlds.alfworld.environment import CARD as ALFWORLD
from tests.agents.scripted import Scripted, always, in_turn
from tests.cases import cases
from tests.toy import ToyEnv, expert


def plan_file(kind: str = "fetch", **changes: Any) -> PlanFile:
    values: dict[str, Any] = {
        "env": "toy",
        "kind": kind,
        "split": "train",
        "plan": f"1. Search the shelves.\n2. Bring what is wanted ({kind}).",
        "pool": ("train/fetch-0",),
        "sources": ("train/fetch-0",),
        "models": {"llm": "scripted"},
        "settings": {},
        "seed": 0,
        "run": "autoplan-toy",
    }
    return PlanFile(**{**values, **changes})


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    for kind in ("fetch", "wash"):
        plan = plan_file(kind, sources=(f"train/{kind}-0",))
        write(path_of(tmp_path, "toy", kind), plan)
    return tmp_path


def play(
    llm: Scripted, number: int = 0, **options: Any
) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    env = ToyEnv()
    agent = AutoPlanAgent(AutoPlanOptions(**options), Resources(llm=llm, planner=llm))
    return run_episode(env, agent, env.tasks("test")[number])


def lines(*pairs: str) -> Iterator[str]:
    """What a model says that is asked for thoughts and actions in turn: "thought | action"."""
    for pair in pairs:
        thought, _, action = pair.partition(" | ")
        yield f"Think: {thought}"
        yield f"Act: {action}"


class TestPlaying:
    def test_it_solves_the_task_with_a_model_that_knows_the_way(self) -> None:
        task = ToyEnv().tasks("test")[0]
        llm = in_turn(lines(*(f"on. | {action}" for action in expert(task))))
        result, (trial,) = play(llm)
        assert result.success
        assert [s.action for s in trial.steps] == list(expert(task))
        assert {s.thought for s in trial.steps} == {"on."}
        assert {s.temperature for _, s in llm.requests} == {0.0}

    def test_its_budget_is_that_of_the_paper_where_an_environment_says_nothing_else(self) -> None:
        result, (trial,) = play(always("Think: hm.\nAct: go to sink"))
        assert len(trial.steps) == 35
        assert result.end == "budget"
        agent = AutoPlanAgent(AutoPlanOptions(), Resources())
        cards = {name: card_of(load_env(name)) for name in ("alfworld", "hotpotqa")}
        assert {name: agent.budget(card) for name, card in cards.items() if card} == {
            "alfworld": 35,
            "hotpotqa": 10,
        }
        assert AutoPlanAgent(AutoPlanOptions(budget=7), Resources()).budget(ToyEnv().card) == 7

    def test_what_was_said_is_noted_beside_what_was_done(self) -> None:
        llm = in_turn(lines("hm. | I will go to sink", "hm. | "))
        result, (trial,) = play(llm, budget=2)
        (note,) = result.notes
        assert [s.action for s in trial.steps] == ["go to sink", NO_ACTION]
        assert note.data["said"] == ["I will go to sink", ""]
        assert note.data["formalised"] == {"form": 1, "nothing": 1}

    def test_nothing_said_is_told_to_the_model_as_no_action(self) -> None:
        llm = always("")
        _, (trial,) = play(llm, budget=2)
        assert [step.action for step in trial.steps] == [NO_ACTION] * 2
        assert [NO_ACTION in prompt for prompt in llm.prompts] == [False, False, True, True]

    def test_the_formaliser_is_shown_the_last_page_that_names_things(self) -> None:
        replies = lines("hm. | go to nowhere 1", "hm. | carry it over there")
        llm = in_turn([*replies, "Act: go to sink"])
        play(llm, budget=2)
        formalised = llm.prompts[4]
        assert "carry it over there" in formalised
        assert ToyEnv().reset(ToyEnv().tasks("test")[0]).observation[:40] in formalised

    def test_a_long_transcript_is_shortened_where_there_is_no_room(self) -> None:
        llm = always("Think: hm.\nAct: go to sink")
        llm._room = 2200
        result, _ = play(llm, budget=30)
        assert (result.error, result.end) == ("", "budget")
        assert "left out" in llm.prompts[-1]


def test_what_it_is_shown_does_not_say_that_a_microwave_heats() -> None:
    """The paper's agent has to discover that (its Figure 4)."""
    card = ALFWORLD.bare()
    texts = " ".join([card.rules, *card.actions])
    secrets = ("microwave", "fridge", "sinkbasin", "lamp", "knife", "closed", "at most one")
    assert not [word for word in secrets if word in texts]
    assert [word for word in secrets if word in " ".join([ALFWORLD.rules, *ALFWORLD.actions])]


class TestReading:
    VERBS = frozenset({"go", "take"})

    @pytest.mark.parametrize(
        ("reply", "thought", "action"), cases(__file__, "talk_of_the_plan_is_no_action")
    )
    def test_talk_of_the_plan_is_no_action(self, reply: str, thought: str, action: str) -> None:
        parsed = understood(reply, self.VERBS)
        assert (parsed.thought, parsed.action) == (thought, action)

    @pytest.mark.parametrize(
        ("reply", "thought"), cases(__file__, "a_thought_ends_where_an_action_begins")
    )
    def test_a_thought_ends_where_an_action_begins(self, reply: str, thought: str) -> None:
        assert thought_in(reply, self.VERBS) == thought


class TestPlans:
    def test_are_those_of_the_tasks_kind(self, plans: Path) -> None:
        for number, kind in enumerate(("fetch", "wash")):
            llm = always("Act: go to sink")
            result, _ = play(llm, number, plans=str(plans), budget=1)
            messages, _ = llm.requests[0]
            assert f"Bring what is wanted ({kind})." in messages[0].content
            assert result.notes[0].data["plan"].startswith("1. Search")

    def test_that_are_missing_end_the_episode_with_a_remedy(self, plans: Path) -> None:
        path_of(plans, "toy", "wash").unlink()
        result, _ = play(always("Act: go to sink"), 1, plans=str(plans))
        assert result.end == "error"
        assert "There is no plan at" in result.error

    def test_for_all_kinds_are_used_for_a_kind_that_has_none(self, plans: Path) -> None:
        path_of(plans, "toy", "wash").unlink()
        write(path_of(plans, "toy", ALL), plan_file(ALL))
        AutoPlanAgent.check_kinds(AutoPlanOptions(plans=str(plans)), "toy", {"fetch", "wash"})
        for number, kind in enumerate(("fetch", ALL)):
            llm = always("Act: go to sink")
            play(llm, number, plans=str(plans), budget=1)
            assert f"Bring what is wanted ({kind})." in llm.requests[0][0][0].content

    def test_of_each_iteration_can_be_followed(self, tmp_path: Path) -> None:
        history = (Iteration("", ()), Iteration("1. Shout.", ()))
        last = plan_file(iterations=history, plan="1. Search.")
        write(path_of(tmp_path, "toy", "fetch"), last)
        for number, plan in enumerate(("", "1. Shout.", "1. Search.")):
            llm = always("Act: go to sink")
            result, _ = play(llm, budget=1, plans=str(tmp_path), iteration=number)
            assert result.notes[0].data["plan"] == plan
            assert ("Your plan" in llm.requests[0][0][0].content) == bool(plan)
        with pytest.raises(LdmError, match=r"no plan of iteration 3 .* There is: 0, 1, 2"):
            AutoPlanAgent.sources(AutoPlanOptions(plans=str(tmp_path), iteration=3), "toy")

    def test_of_kinds_with_fewer_iterations_are_left_out_of_those_that_are_followed(
        self, tmp_path: Path
    ) -> None:
        for kind, count in (("fetch", 2), ("wash", 3)):
            history = tuple(Iteration("", ()) for _ in range(count))
            made_from = (f"train/{kind}-0",)
            made = plan_file(kind, iterations=history, sources=made_from)
            write(path_of(tmp_path, "toy", kind), made)
        options = AutoPlanOptions(plans=str(tmp_path), iteration=3)
        AutoPlanAgent.check_kinds(options, "toy", {"wash"})
        with pytest.raises(LdmError, match="no plan for fetch") as lacking:
            AutoPlanAgent.check_kinds(options, "toy", {"wash", "fetch"})
        assert "--kinds wash, or make one" in lacking.value.remedy
        assert AutoPlanAgent.sources(options, "toy") == {"train/fetch-0", "train/wash-0"}
        AutoPlanAgent.check_kinds(replace(options, iteration=2), "toy", {"fetch", "wash"})

    def test_name_what_may_not_be_evaluated(self, plans: Path) -> None:
        options = AutoPlanOptions(plans=str(plans))
        assert AutoPlanAgent.sources(options, "toy") == {"train/fetch-0", "train/wash-0"}
        assert AutoPlanAgent.sources(AutoPlanOptions(), "toy") == frozenset()
        with pytest.raises(LdmError, match="no plan for alfworld"):
            AutoPlanAgent.sources(options, "alfworld")

    def test_are_read_as_they_were_written(self, tmp_path: Path) -> None:
        path = path_of(tmp_path / "new", "my.module:Env", "a kind")
        write(path, plan_file())
        assert path.name == "my.module_Env-a_kind.json"
        assert read(path) == plan_file()

    def test_a_damaged_file_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "toy-fetch.json"
        path.write_text('{"env": "toy"}')
        with pytest.raises(LdmError, match=r"toy-fetch\.json"):
            read(path)
