"""AutoPlan's agent: plans from files, thoughts and actions, sources that may not be evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldm.agents import Resources
from ldm.agents.autoplan import AutoPlanAgent, AutoPlanOptions, understood
from ldm.agents.autoplan.plans import PlanFile, path_of, read, write
from ldm.episode import NO_ACTION, run_episode
from ldm.errors import LdmError
from ldm.types import EpisodeResult, Trajectory
from tests.agents.scripted import Scripted, always, in_turn
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


class TestPlaying:
    def test_it_solves_the_task_with_a_model_that_knows_the_way(self) -> None:
        task = ToyEnv().tasks("test")[0]
        llm = in_turn(f"Think: on.\nAct: {action}" for action in expert(task))
        result, (trial,) = play(llm)
        assert result.success
        assert [s.action for s in trial.steps] == list(expert(task))
        assert {s.thought for s in trial.steps} == {"on."}
        assert {s.temperature for _, s in llm.requests} == {0.0}

    def test_its_budget_is_that_of_the_paper(self) -> None:
        result, (trial,) = play(always("Think: hm.\nAct: go to sink"))
        assert len(trial.steps) == 35
        assert result.end == "budget"

    def test_what_was_said_is_noted_beside_what_was_done(self) -> None:
        llm = in_turn(["Act: I will go to sink"], then="Think: hm.")
        result, (trial,) = play(llm, budget=2)
        (note,) = result.notes
        assert [s.action for s in trial.steps] == ["go to sink", ""]
        assert note.data["said"] == ["I will go to sink", ""]
        assert note.data["formalised"] == {"possible": 1}

    def test_nothing_said_is_told_to_the_model_as_no_action(self) -> None:
        llm = always("")
        _, (trial,) = play(llm, budget=2)
        assert [step.action for step in trial.steps] == [NO_ACTION] * 2
        first, second = llm.prompts
        assert NO_ACTION not in first
        assert NO_ACTION in second

    def test_the_formaliser_is_shown_the_last_page_that_names_things(self) -> None:
        llm = in_turn(["Act: go to nowhere 1", "Act: bring it over there", "fly", "Act: look"])
        play(llm, budget=2)
        formalised = llm.prompts[2]
        assert "bring it over there" in formalised
        assert ToyEnv().reset(ToyEnv().tasks("test")[0]).observation[:40] in formalised

    def test_a_long_transcript_is_shortened_where_there_is_no_room(self) -> None:
        llm = always("Think: hm.\nAct: go to sink")
        llm._room = 2200
        result, _ = play(llm, budget=30)
        assert (result.error, result.end) == ("", "budget")
        assert "left out" in llm.prompts[-1]


class TestReading:
    VERBS = frozenset({"go", "take"})

    @pytest.mark.parametrize(
        ("reply", "thought", "action"),
        [
            ("Think: Step 1: find it.\nAct: go to sink", "find it.", "go to sink"),
            ("Step 2: take the egg\nAct: take egg 1", "take the egg", "take egg 1"),
            ("Think: take it there\nAction: go to sink", "take it there", "go to sink"),
            ("I am at step 2.\nNext action: take egg 1", "I am at step 2.", "take egg 1"),
            ("take egg 1", "", "take egg 1"),
            ("Think: hm.", "hm.", ""),
        ],
    )  # fmt: skip
    def test_talk_of_the_plan_is_no_action(self, reply: str, thought: str, action: str) -> None:
        parsed = understood(reply, self.VERBS)
        assert (parsed.thought, parsed.action) == (thought, action)


class TestPlans:
    def test_are_those_of_the_tasks_kind(self, plans: Path) -> None:
        for number, kind in enumerate(("fetch", "wash")):
            llm = always("Act: go to sink")
            result, _ = play(llm, number, plans=str(plans), budget=1)
            ((messages, _),) = llm.requests
            assert f"Bring what is wanted ({kind})." in messages[0].content
            assert result.notes[0].data["plan"].startswith("1. Search")

    def test_that_are_missing_end_the_episode_with_a_remedy(self, plans: Path) -> None:
        path_of(plans, "toy", "wash").unlink()
        result, _ = play(always("Act: go to sink"), 1, plans=str(plans))
        assert result.end == "error"
        assert "There is no plan for wash" in result.error

    def test_may_be_left_out_for_comparison(self) -> None:
        llm = always("Act: go to sink")
        play(llm, budget=1)
        assert "Your plan" not in llm.requests[0][0][0].content

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


@pytest.mark.parametrize("wrong", [{"top_p": 0}, {"temperature": -1}, {"reply": 0}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"more|above"):
        AutoPlanOptions(**wrong)
