"""AutoPlan's optimisation: a plan for heating is mended, recorded and taken up again."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ldm.agents.autoplan.optimiser import AttemptSetup, AutoPlanSettings, cleaned, draw
from ldm.errors import LdmError
from ldm.llm import LLM
from ldm.runs import Manifest, Run, create
from ldm.types import Task
from ldm.worlds.alfworld import ALFWorld, ALFWorldOptions
from tests.agents.autoplan.optimising import optimise
from tests.agents.cook import cook
from tests.agents.scripted import always

SETTINGS = AutoPlanSettings(iterations=2, batch=2, pool=6, steps=50)


@dataclass(frozen=True)
class Kitchen:
    """Builds the set-up of the tests: ALFWorld with fine feedback and one model."""

    llm: LLM
    data: str | None = None
    feedback: str = "fine"

    def __call__(self) -> AttemptSetup:
        return AttemptSetup(self.env(), self.llm, self.llm, SETTINGS)

    def env(self) -> ALFWorld:
        return ALFWorld(ALFWorldOptions(data=self.data, feedback=self.feedback))  # type: ignore[arg-type]

    def pool(self, split: str = "demo_train", size: int = 6) -> list[Task]:
        return [task for task in self.env().tasks(split) if task.kind == "heat"][:size]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(tmp_path, ("autoplan",), Manifest("autoplan", {}, {}))


class TestTheHeatPlan:
    def check(self, kitchen: Kitchen, pool: list[Task], run: Run, steps: int = 50) -> None:
        plan, history = optimise(run, kitchen, pool, replace(SETTINGS, iterations=3, steps=steps))
        first, second, third = history
        assert first.plan == ""
        assert first.success == 0
        assert "microwave" in second.plan
        assert "toaster" not in second.plan
        assert (second.success, third.success) == (1, 1)
        assert plan == second.plan
        assert [e.index for i in history for e in i.experiences] == list(range(6))
        spoilt = first.experiences[0]
        assert spoilt.reflection.flaw == "The toaster does not heat here."
        assert any("toaster" in sentence for sentence in spoilt.said)

    def test_is_mended_in_our_own_households(self, run: Run) -> None:
        kitchen = Kitchen(cook())
        self.check(kitchen, kitchen.pool(), run)

    def test_is_mended_in_official_games_that_have_a_toaster(
        self, run: Run, shared_data: Path
    ) -> None:
        kitchen = Kitchen(cook(), data=str(shared_data / "alfworld"))
        env = kitchen.env()
        tasks = [
            task
            for task in kitchen.pool("train", 30)
            if "a toaster 1" in env.reset(task).observation
        ]
        self.check(kitchen, tasks[:6], run, steps=90)

    def test_stays_as_it_is_without_a_word_on_why_nothing_happened(self, run: Run) -> None:
        kitchen = Kitchen(cook(), feedback="plain")
        plan, history = optimise(run, kitchen, kitchen.pool(), SETTINGS)
        assert "toaster" in plan
        assert [one.success for one in history] == [0, 0]

    def test_stays_as_it_is_where_only_the_summary_is_reflected_on(self, run: Run) -> None:
        kitchen = Kitchen(cook())
        settings = replace(SETTINGS, reflection="summary")
        plan, history = optimise(run, kitchen, kitchen.pool(), settings)
        assert "toaster" in plan
        assert [one.success for one in history] == [0, 0]
        reflection = history[0].experiences[0].reflection
        assert reflection.summary
        assert (reflection.flaw, reflection.revision) == ("", "")


class TestExperiences:
    def test_and_all_else_are_drawn_anew_each_time(self, run: Run) -> None:
        llm = cook()
        kitchen = Kitchen(llm)
        optimise(run, kitchen, kitchen.pool(size=2), replace(SETTINGS, pool=2))
        # In both iterations both tasks are played, and no two calls share a draw.
        assert len({s.sample for _, s in llm.requests}) == len(llm.requests)

    def test_that_all_fail_stop_the_optimisation(self, run: Run) -> None:
        llm = cook()
        llm._room = 10
        kitchen = Kitchen(llm)
        with pytest.raises(LdmError, match="Every attempt of iteration 1 failed"):
            optimise(run, kitchen, kitchen.pool(), SETTINGS)


def test_batches_depend_on_seed_and_number_alone() -> None:
    pool = Kitchen(cook()).pool(size=10)
    assert draw(pool, SETTINGS, 0, 1) == draw(pool[::-1], SETTINGS, 0, 1)
    batches = [draw(pool, SETTINGS, seed, n) for seed in (0, 1) for n in (0, 1)]
    assert all(len({task.id for task in batch}) == 2 for batch in batches)
    assert len({tuple(task.id for task in batch) for batch in batches}) > 1


class TestTheReplyToARequestForAPlan:
    @pytest.mark.parametrize(
        ("reply", "plan"),
        [
            ("Sure:\n1. a\n2. b\n\nGood luck", "1. a\n2. b"),
            ("```\n- a\n- b\n```", "- a\n- b"),
            ("<plan>\nStep 1: a\n  gently\nStep 2: b\n</plan>", "Step 1: a\n  gently\nStep 2: b"),
            ("Go and heat it.", "Go and heat it."),
            ("", ""),
            (" \n\n", ""),
            ("1. a\n" * 30, "1. a"),
        ],
    )  # fmt: skip
    def test_is_cleaned(self, reply: str, plan: str) -> None:
        assert cleaned(reply) == plan

    def test_keeps_the_plan_where_it_is_empty(self, run: Run) -> None:
        kitchen = Kitchen(always(""))
        plan, history = optimise(run, kitchen, kitchen.pool(), replace(SETTINGS, iterations=1))
        assert plan == ""
        assert history[0].kept

    def test_is_bounded(self) -> None:
        assert len(cleaned("\n".join(f"{n}. {'go ' * 200}" for n in range(99)))) < 2100


def test_a_batch_is_drawn_from_its_pool() -> None:
    with pytest.raises(ValueError, match="larger"):
        AutoPlanSettings(batch=9, pool=8)
