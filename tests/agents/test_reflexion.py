"""Reflexion: what a failed trial taught joins the next one."""

from collections.abc import Sequence
from typing import Any

from ldm.agents import Resources
from ldm.agents.reflexion import LONGEST, ReflexionAgent, ReflexionOptions
from ldm.episode import run_episode
from ldm.llm import Message, Sampling
from ldm.types import EpisodeResult, Trajectory
from tests.agents.loop_contract import played
from tests.agents.scripted import Scripted
from tests.toy import EchoEnv, ToyEnv, expert

LESSON = "I went to the sink for nothing. Next time I go to the shelves."
TASK = ToyEnv().tasks("test")[0]


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


def play(llm: Scripted, **options: Any) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    agent = ReflexionAgent(ReflexionOptions(**{"budget": 8, **options}), Resources(llm=llm))
    return played(agent, ToyEnv(), TASK)


def test_the_second_trial_succeeds_by_what_the_first_one_taught() -> None:
    llm = learner()
    result, trials = play(llm)
    assert [trial.success for trial in trials] == [False, True]
    assert (result.trials, result.submitted, result.success) == (2, 1, True)
    (note,) = [note for note in result.notes if note.kind == "reflection"]
    assert (note.trial, note.data) == (0, {"text": LESSON})
    assert LESSON in llm.prompts[-1]
    assert f"<lessons>\n- {LESSON}\n</lessons>" in llm.prompts[-1]


def test_a_trial_that_succeeds_at_once_is_not_reflected_upon() -> None:
    result, trials = play(learner(learns_from=0))
    assert len(trials) == 1
    assert [note.kind for note in result.notes] == ["replies"]


def test_the_last_trial_is_not_reflected_upon_and_stands() -> None:
    result, trials = play(learner(learns_from=9), trials=3)
    assert (len(trials), result.submitted, result.success) == (3, 2, False)
    assert [note.kind for note in result.notes].count("reflection") == 2


def test_only_the_latest_lessons_are_shown() -> None:
    llm = learner(learns_from=9)
    play(llm, trials=4, lessons=2)
    assert llm.prompts[-1].count(LESSON) == 2
    llm = learner(learns_from=9)
    play(llm, trials=2, lessons=0)
    assert "<lessons>" not in llm.prompts[-1]


def test_an_empty_reflection_teaches_nothing_and_a_long_one_is_shortened() -> None:
    llm = learner(lesson="")
    play(llm, trials=2)
    assert "<lessons>" not in llm.prompts[-1]
    llm = learner(lesson="go on " * 1000, learns_from=2)
    result, _ = play(llm, trials=2)
    (note,) = [note for note in result.notes if note.kind == "reflection"]
    assert len(note.data["text"]) < LONGEST + 20


def test_the_number_of_trials_is_the_published_one() -> None:
    assert ReflexionOptions().trials is None
    llm = learner(learns_from=99)
    agent = ReflexionAgent(ReflexionOptions(budget=2), Resources(llm=llm))
    env = EchoEnv()
    result, _ = run_episode(env, agent, env.tasks("test")[0])
    assert result.trials == 5
