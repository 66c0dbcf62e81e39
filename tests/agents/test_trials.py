"""What sets Act, Reflexion and Try Again apart from ReAct, whose loop they share."""

from collections.abc import Sequence
from typing import Any

import pytest

from ldm.agents import load_agent
from ldm.agents.reflexion import LONGEST, ReflexionOptions
from ldm.agents.replies import THINK
from ldm.episode import Environment
from ldm.llm import Message, Sampling
from ldm.types import EpisodeResult, Trajectory
from tests.agents.loop_contract import make_agent, open_env, played
from tests.agents.scripted import Scripted, always, in_turn
from tests.toy import EchoEnv, ToyEnv, expert

SHED, ECHO = ToyEnv(), EchoEnv()


def play(
    agent: str, env: Environment, llm: Scripted, **options: Any
) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    return played(make_agent(agent, llm, **{"budget": 8, **options}), env, env.tasks("test")[0])


REPLIES = (
    "Act: go to drawer 1",
    "Think: it may be closed.\nAct: open drawer 1",
    "Think: what now?",
    "Act: look",
)


def acted(agent: str) -> tuple[Scripted, Trajectory]:
    env, llm = open_env("alfworld"), in_turn(REPLIES)
    acting = make_agent(agent, llm, budget=4, shots=1)
    _, (trial,) = played(acting, env, env.tasks("demo_test")[0])
    env.close()
    return llm, trial


def test_act_acts_at_every_step_and_thinks_at_none() -> None:
    _, trial = acted("act")
    assert [step.thought for step in trial.steps] == [""] * 4
    assert [step.action for step in trial.steps][:2] == ["go to drawer 1", "open drawer 1"]
    assert not trial.steps[2].valid  # what was thought in place of an action is an invalid one


def test_prompts_of_act_are_those_of_react_without_the_thoughts() -> None:
    acting, reacting = (acted(agent)[0].prompts[0] for agent in ("act", "react"))
    thoughts = [line for line in reacting.splitlines() if line.startswith(THINK)]
    assert thoughts
    without = [line for line in reacting.splitlines() if not line.startswith(THINK)]
    assert acting.splitlines()[:-1] == without[:-1]  # the last line says how to reply


def test_standard_is_another_name_of_act() -> None:
    assert load_agent("standard", recorded=True) is load_agent("act")


LESSON = "I went to the sink for nothing. Next time I go to the shelves."
TASK = SHED.tasks("test")[0]


def learner(lesson: str = LESSON, learns_from: int = 1) -> Scripted:
    """Goes to the sink until it has read `learns_from` lessons; then it knows the way."""

    def reply(messages: Sequence[Message], sampling: Sampling) -> str:
        system, question = messages[0].content, messages[-1].content
        if "failed attempt" in system:
            return lesson
        if question.count(lesson or "-") < learns_from:
            return "Act: go to sink"
        step_count = question.partition("<so-far>")[2].count("\nAct:")
        return f"Act: {expert(TASK)[step_count]}"

    return Scripted(reply)


def test_the_second_trial_of_reflexion_succeeds_by_what_the_first_one_taught() -> None:
    llm = learner()
    result, trials = play("reflexion", SHED, llm)
    assert [trial.success for trial in trials] == [False, True]
    assert (result.trials, result.submitted, result.success) == (2, 1, True)
    (note,) = [note for note in result.notes if note.kind == "reflection"]
    assert (note.trial, note.data) == (0, {"text": LESSON})
    assert LESSON in llm.prompts[-1]
    assert f"<lessons>\n- {LESSON}\n</lessons>" in llm.prompts[-1]


def test_a_trial_that_succeeds_at_once_is_not_reflected_upon() -> None:
    result, trials = play("reflexion", SHED, learner(learns_from=0))
    assert len(trials) == 1
    assert [note.kind for note in result.notes] == ["replies"]


def test_the_last_trial_is_not_reflected_upon_and_stands() -> None:
    result, trials = play("reflexion", SHED, learner(learns_from=9), trials=3)
    assert (len(trials), result.submitted, result.success) == (3, 2, False)
    assert [note.kind for note in result.notes].count("reflection") == 2


def test_only_the_latest_lessons_are_shown() -> None:
    llm = learner(learns_from=9)
    play("reflexion", SHED, llm, trials=4, lessons=2)
    assert llm.prompts[-1].count(LESSON) == 2
    llm = learner(learns_from=9)
    play("reflexion", SHED, llm, trials=2, lessons=0)
    assert "<lessons>" not in llm.prompts[-1]


def test_an_empty_reflection_teaches_nothing_and_a_long_one_is_shortened() -> None:
    llm = learner(lesson="")
    play("reflexion", SHED, llm, trials=2)
    assert "<lessons>" not in llm.prompts[-1]
    llm = learner(lesson="go on " * 1000, learns_from=2)
    result, _ = play("reflexion", SHED, llm, trials=2)
    (note,) = [note for note in result.notes if note.kind == "reflection"]
    assert len(note.data["text"]) < LONGEST + 20


def test_reflexion_has_the_published_number_of_trials() -> None:
    assert ReflexionOptions().trials is None
    llm = learner(learns_from=99)
    result, _ = play("reflexion", ECHO, llm, budget=2)
    assert result.trials == 5


def sayer(*right: int) -> Scripted:
    """In its n-th trial it says right[n] of the words backwards, then it stops."""
    trials = iter(right)
    remaining = 0

    def reply(messages: Sequence[Message], sampling: Sampling) -> str:
        nonlocal remaining
        trace = messages[-1].content.partition("<so-far>")[2]
        if "\nAct:" not in trace:
            remaining = next(trials)
        word = trace.rpartition("The word is ")[2].partition(".")[0]
        remaining -= 1
        return f"Act: say {word[::-1]}" if remaining >= 0 else "Act: stop"

    return Scripted(reply)


@pytest.mark.parametrize(
    ("right", "scores", "chosen"),
    [
        ((0, 1, 0), [0.0, 0.5, 0.0], 1),
        ((1, 0, 1), [0.5, 0.0, 0.5], 0),
        ((0, 0, 0), [0.0, 0.0, 0.0], 0),
        ((0, 2, 0), [0.0, 1.0], 1),
        ((2, 0, 0), [1.0], 0),
    ],
)
def test_the_best_trial_of_try_again_stands_and_a_success_is_the_last(
    right: tuple[int, ...], scores: list[float], chosen: int
) -> None:
    result, trials = play("try_again", ECHO, sayer(*right))
    assert [trial.score for trial in trials] == scores
    assert (result.submitted, result.score) == (chosen, scores[chosen])
    (note,) = [note for note in result.notes if note.kind == "choice"]
    assert note.data == {"scores": scores, "chosen": chosen}


def test_its_first_trial_is_greedy_and_later_ones_are_drawn_each_anew() -> None:
    llm = sayer(1, 1, 1)
    play("try_again", ECHO, llm)
    temperatures = [sampling.temperature for _, sampling in llm.requests]
    assert temperatures == [0.0, 0.0, 0.7, 0.7, 0.7, 0.7]
    samples = [sampling.sample for _, sampling in llm.requests if sampling.temperature]
    assert len(set(samples)) == 4


def test_how_often_and_how_warm_it_tries_can_be_said() -> None:
    llm = always("Act: stop")
    result, _ = play("try_again", ECHO, llm, trials=5, temperature=0.2)
    assert result.trials == 5
    assert llm.requests[-1][1].temperature == 0.2
