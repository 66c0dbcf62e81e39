"""What an evaluation is multiplied by, under which labels reports stand, what all will cost."""

from dataclasses import replace

import pytest

from ldm.config import Evaluate
from ldm.run.grid import Grid, extrapolate, labels, say_limits
from ldm.run.runtime import Runtime

SPEC = Evaluate("tests.toy:ToyEnv", "test")
ADEPT = "tests.integration.agents:Adept"
MINDFUL = "tests.integration.agents:Mindful"
SWEPT = "ldm k=1; ldm k=2; ldm control=none k=1; ldm control=none k=2"


def expansion(grid: Grid) -> str:
    """Return the evaluations as "agent@generation options; …"."""
    return "; ".join(
        one.agent.name.rpartition(":")[2]
        + ("" if one.generation is None else f"@{one.generation}")
        + "".join(f" {name}={value}" for name, value in one.agent.given)
        for one in grid.specs(SPEC, Runtime())
    )


class TestExpansion:
    @pytest.mark.parametrize(
        ("grid", "expected"),
        [
            (Grid(), "ldm"),
            (Grid(("random",)), "random"),
            (Grid(("random", "ldm")), "random; ldm"),
            (Grid(generations=(1, 0)), "ldm; ldm@1; ldm@0"),
            (Grid(control="none"), "ldm; ldm control=none"),
            (Grid(sweep="k=1, 2"), "ldm k=1; ldm k=2"),
            (Grid(generations=(0,), control="random"), "ldm; ldm@0; ldm control=random"),
            (Grid(control="none", sweep="k=1,2"), SWEPT),
            # of several agents, only those with a memory have generations
            (Grid((ADEPT, MINDFUL), generations=(0,)), "Adept; Mindful; Mindful@0"),
            # one alone is evaluated with the generations that are asked for
            (Grid((ADEPT,), generations=(0,)), "Adept; Adept@0"),
            # what has no such option is evaluated once
            (Grid(("random", "ldm"), control="none", sweep="k=1,2"), f"random; {SWEPT}"),
        ],
    )
    def test_agents_generations_control_and_sweep_multiply(self, grid: Grid, expected: str) -> None:
        assert expansion(grid) == expected

    def test_each_agent_gets_those_options_that_it_has_and_the_others_are_named(self) -> None:
        messages: list[str] = []
        spec = replace(SPEC, agent={"k": 3, "budget": 9})
        one, two = Grid(("random", "ldm")).specs(spec, Runtime(message=messages.append))
        assert one.agent.options == {"budget": 9}
        assert two.agent.options == {"k": 3, "budget": 9}
        assert messages == ["--agent.k 3 has no effect on random."]


class TestLabels:
    def test_name_agent_and_control(self) -> None:
        control = replace(SPEC, agent={"name": "ldm", "control": "random"})
        assert labels([SPEC, control]) == ["ldm", "ldm control=random"]

    def test_name_generations_where_they_differ(self) -> None:
        newest = replace(SPEC, generation=1, memory_digest="x")
        oldest = replace(SPEC, generation=0, memory_digest="y")
        assert labels([newest, newest]) == ["ldm", "ldm"]
        assert labels([newest, oldest, replace(SPEC, agent="random")]) == [
            *("ldm generation=1", "ldm generation=0", "random")
        ]

    def test_name_the_options_that_differ_between_runs_of_one_agent(self) -> None:
        few = replace(SPEC, agent={"name": "ldm", "k": 1, "budget": 9})
        many = replace(SPEC, agent={"name": "ldm", "k": 4, "budget": 9})
        usual = replace(SPEC, agent={"name": "ldm", "budget": 9})
        assert labels([few, many, usual]) == ["ldm k=1", "ldm k=4", "ldm k=default"]


@pytest.mark.parametrize(
    ("agents", "said"), [(("react", "standard"), True), (("react", "random"), False)]
)
def test_limits_hold_for_each_run_that_calls_a_model(agents: tuple[str, ...], said: bool) -> None:
    messages: list[str] = []
    models = {"llm": "m", "max_usd": 1.0, "max_calls": 5}
    specs = [replace(SPEC, agent=agent, models=models) for agent in agents]
    say_limits(specs, Runtime(message=messages.append))
    expected = "--models.max-usd, --models.max-calls: the limit applies to each of 2 runs."
    assert messages == [expected] * said


def test_the_others_may_all_be_like_the_least_or_the_most() -> None:
    assert extrapolate([1.0, 2.0, 3.0], 3) == (6.0, 6.0, 6.0)  # all is measured
    assert extrapolate([5.0] * 4, 10) == (50.0, 50.0, 50.0)
    assert extrapolate([1.0, 3.0], 4) == (8.0, 6.0, 10.0)
