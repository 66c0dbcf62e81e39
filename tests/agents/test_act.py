"""Act: ReAct's trajectories without their thoughts, and LDM²'s Standard, which asks the same."""

from ldm.agents import load_agent
from ldm.agents.replies import THINK
from ldm.types import EpisodeResult, Trajectory
from tests.agents.loop_contract import make_agent, open_env, played
from tests.agents.scripted import Scripted, in_turn

REPLIES = (
    "Act: go to drawer 1",
    "Think: it may be closed.\nAct: open drawer 1",
    "Think: what now?",
    "Act: look",
)


def play(agent: str) -> tuple[Scripted, EpisodeResult, Trajectory]:
    env, llm = open_env("alfworld"), in_turn(REPLIES)
    acting = make_agent(agent, llm, budget=4, shots=1)
    result, (trial,) = played(acting, env, env.tasks("demo_test")[0])
    env.close()
    return llm, result, trial


def test_it_acts_at_every_step_and_thinks_at_none() -> None:
    _, _, trial = play("act")
    assert [step.thought for step in trial.steps] == [""] * 4
    assert [step.action for step in trial.steps][:2] == ["go to drawer 1", "open drawer 1"]
    assert not trial.steps[2].valid  # what was thought in place of an action is an invalid one


def test_its_prompts_are_those_of_react_without_the_thoughts() -> None:
    acting, reacting = (play(agent)[0].prompts[0] for agent in ("act", "react"))
    thoughts = [line for line in reacting.splitlines() if line.startswith(THINK)]
    assert thoughts
    without = [line for line in reacting.splitlines() if not line.startswith(THINK)]
    assert acting.splitlines()[:-1] == without[:-1]  # the last line says how to reply


def test_standard_is_another_name_of_it() -> None:
    assert load_agent("standard", recorded=True) is load_agent("act")
