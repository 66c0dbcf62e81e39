"""Try Again: later trials are drawn at a temperature, and the best one stands."""

from collections.abc import Sequence
from typing import Any

import pytest

from ldm.agents import Resources
from ldm.agents.try_again import TryAgainAgent, TryAgainOptions
from ldm.llm import Message, Sampling
from ldm.types import EpisodeResult, Trajectory
from tests.agents.loop_contract import played
from tests.agents.scripted import Scripted, always
from tests.toy import EchoEnv

TASK = EchoEnv().tasks("test")[0]


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


def play(llm: Scripted, **options: Any) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    agent = TryAgainAgent(TryAgainOptions(**options), Resources(llm=llm))
    return played(agent, EchoEnv(), TASK)


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
def test_the_best_trial_stands_and_a_success_is_the_last(
    right: tuple[int, ...], scores: list[float], chosen: int
) -> None:
    result, trials = play(sayer(*right))
    assert [trial.score for trial in trials] == scores
    assert (result.submitted, result.score) == (chosen, scores[chosen])
    (note,) = [note for note in result.notes if note.kind == "choice"]
    assert note.data == {"scores": scores, "chosen": chosen}


def test_the_first_trial_is_greedy_and_later_ones_are_drawn_each_anew() -> None:
    llm = sayer(1, 1, 1)
    play(llm)
    temperatures = [sampling.temperature for _, sampling in llm.requests]
    assert temperatures == [0.0, 0.0, 0.7, 0.7, 0.7, 0.7]
    samples = [sampling.sample for _, sampling in llm.requests if sampling.temperature]
    assert len(set(samples)) == 4


def test_how_often_and_how_warm_can_be_said() -> None:
    llm = always("Act: stop")
    result, _ = play(llm, trials=5, temperature=0.2)
    assert result.trials == 5
    assert llm.requests[-1][1].temperature == 0.2
