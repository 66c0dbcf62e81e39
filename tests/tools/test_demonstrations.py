import pytest

from ldm import records
from ldm.agents.demonstrations import DIVISIONS as DIVISION_FILE
from ldm.agents.demonstrations import SHIPPED, Division
from ldm.agents.demonstrations import SKILLS as SKILL_FILE
from ldm.types import Trajectory
from tests.agents.loop_contract import RECIPES
from tests.conftest import CHECKOUT
from tools.demonstrations import RULES, demonstrations
from tools.planner_examples import DIVISIONS
from tools.skill_demonstrations import SKILLS

DIVIDED = [pytest.param(name, marks=[RECIPES] * (name == "textcraft")) for name in DIVISIONS]
ENVS = [pytest.param(name, marks=[RECIPES] * (name == "textcraft")) for name in SKILLS]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "webshop")) for n in RULES]
)
def test_the_shipped_demonstrations_are_those_that_the_rules_make(name: str) -> None:
    rules = RULES[name]
    recorded = records.read(CHECKOUT / "data" / "trajectories" / rules.file, Trajectory)
    assert records.read(SHIPPED / f"{name}.jsonl", Trajectory) == demonstrations(rules, recorded)


@pytest.mark.parametrize("name", ENVS)
def test_the_shipped_skills_are_what_the_environment_answers_to_the_scripts(name: str) -> None:
    played = SKILLS[name].demonstrations()
    assert records.read(SHIPPED / f"{name}{SKILL_FILE}", Trajectory) == played


@pytest.mark.parametrize("name", DIVIDED)
def test_the_shipped_divisions_are_those_that_the_tools_write(name: str) -> None:
    assert records.read(SHIPPED / f"{name}{DIVISION_FILE}", Division) == DIVISIONS[name]()
