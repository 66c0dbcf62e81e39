"""CoT, CoT-SC and Standard: one answer, reasoned or not, drawn once or put to the vote."""

from typing import Any

import pytest

from ldm.agents import Resources
from ldm.agents.cot import NOTE, CotAgent, CotOptions, counted, folded, read
from ldm.episode import run_episode
from ldm.errors import LdmError
from ldm.types import Card, EpisodeResult, Trajectory
from ldm.worlds.hotpotqa import HotpotQA
from tests.agents.loop_contract import played
from tests.agents.scripted import ODD, Scripted, always, in_turn
from tests.cases import cases
from tests.toy import EchoEnv, ToyEnv

ENV = HotpotQA()
CARD = ENV.card
TASK = ENV.tasks("demo_test")[0]


def play(llm: Scripted, **options: Any) -> tuple[EpisodeResult, Trajectory]:
    agent = CotAgent(CotOptions(**options), Resources(llm=llm))
    result, (trial,) = played(agent, ENV, TASK)
    return result, trial


def right() -> str:
    """The answer to TASK."""
    ENV.reset(TASK)
    assert ENV._question is not None
    return ENV._question.answer


class TestChainOfThought:
    """ReAct, §3.2: thoughts alone, without actions and observations; one greedy reply."""

    def test_one_call_gives_a_thought_and_the_answer_and_the_answer_is_the_only_action(
        self,
    ) -> None:
        llm = always(f"Think: The one names the other.\nAnswer: {right()}")
        result, trial = play(llm)
        assert len(llm.requests) == 1
        assert llm.requests[0][1].temperature == 0
        (step,) = trial.steps
        assert (step.thought, step.action) == ("The one names the other.", f"finish[{right()}]")
        assert (result.success, result.end, result.env_steps) == (True, "done", 1)

    def test_zero_shot_shows_none(self) -> None:
        llm = always("Answer: x")
        play(llm, shots=0)
        assert "<example>" not in llm.prompts[0]
        assert TASK.goal in llm.prompts[0]
        assert CotAgent.sources(CotOptions(shots=0), "hotpotqa") == frozenset()
        assert len(list(CotAgent.sources(CotOptions(), "hotpotqa"))) == 6

    def test_standard_asks_for_the_answer_alone(self) -> None:
        """ReAct's Standard: thoughts are gone, too."""
        llm = always(f"Answer: {right()}")
        result, trial = play(llm, thought=False)
        assert "Think:" not in "".join(m.content for m in llm.requests[0][0])
        assert llm.prompts[0].count("\nAnswer: ") == 6
        assert (trial.steps[0].thought, result.success) == ("", True)

    def test_examples_go_where_the_model_has_no_room_for_them(self) -> None:
        llm = always("Answer: x")
        llm._room = 2500
        play(llm)
        assert 0 < llm.prompts[0].count("<example>") < 6


class TestSelfConsistency:
    """ReAct, §3.2: 21 samples at temperature 0.7, and the answer that most of them give."""

    ANSWERS = ("Rome", "the Paris", "paris.", "Rome", "Oslo", "Paris!", "")

    def test_each_sample_is_a_call_of_its_own_with_a_draw_of_its_own(self) -> None:
        llm = always("Think: t.\nAnswer: Rome")
        result, _ = play(llm, samples=21)
        assert len(llm.requests) == result.usage.calls == 21
        assert {sampling.temperature for _, sampling in llm.requests} == {0.7}
        assert len({sampling.sample for _, sampling in llm.requests}) == 21
        again = always("Think: t.\nAnswer: Rome")
        play(again, samples=21)
        assert llm.requests == again.requests

    def test_the_answer_that_most_samples_give_is_taken_in_the_words_of_the_first(self) -> None:
        llm = in_turn([f"Think: {n}.\nAnswer: {a}" for n, a in enumerate(self.ANSWERS)])
        result, trial = play(llm, samples=7)
        (step,) = trial.steps
        assert (step.action, step.thought) == ("finish[the Paris]", "1.")
        (note,) = (note for note in result.notes if note.kind == NOTE)
        assert note.data["votes"] == [1, 2, 5]
        assert [one["answer"] for one in note.data["samples"]][3:5] == ["Rome", "Oslo"]
        (measure,) = CotAgent.reporting.measures
        assert measure.of(result) == pytest.approx(100 * 3 / 7)
        assert measure.of(play(always("Answer: x"))[0]) is None

    @pytest.mark.parametrize(("answers", "places"), cases(__file__, "how_answers_are_counted"))
    def test_how_answers_are_counted(self, answers: list[str], places: list[int]) -> None:
        assert counted(answers) == places

    def test_case_punctuation_and_articles_make_no_difference(self) -> None:
        assert folded("The “Rolling” Stones!") == folded("rolling stones")
        assert folded("a") == "a"  # an answer that is nothing else stays what it is

    def test_where_no_sample_answers_nothing_is_answered(self) -> None:
        result, trial = play(always(""), samples=3)
        assert (result.success, result.invalid, result.end) == (False, 1, "budget")
        assert trial.steps[0].action == "(no action)"  # and not finish[], which is an answer


@pytest.mark.parametrize(
    ("text", "thought", "answer", "form"), cases(__file__, "what_is_read_out_of_a_reply")
)
def test_what_is_read_out_of_a_reply(text: str, thought: str, answer: str, form: str) -> None:
    reply = read(text, CARD, thinking=True)
    assert (reply.thought, reply.action, reply.form) == (thought, answer, form)


@pytest.mark.parametrize("kind", ODD)
def test_no_reply_breaks_an_episode(kind: str) -> None:
    for options in ({}, {"samples": 2}, {"thought": False}):
        result, trial = play(always(ODD[kind]), **options)
        assert result.end in ("done", "budget")
        assert len(trial.steps) == 1
        (note,) = (note for note in result.notes if note.kind == "replies")
        assert note.data["replies"] == result.usage.calls


@pytest.mark.parametrize("env", [ToyEnv(), EchoEnv()], ids=["toy", "echo"])
def test_an_environment_without_answers_is_refused_before_anything_is_paid(env: Any) -> None:
    with pytest.raises(LdmError, match=r"a task of (toy|echo) is none") as refusal:
        CotAgent.check(env.card, CotOptions())
    assert "act or react" in refusal.value.remedy
    llm = always("Answer: x")
    result, trials = run_episode(
        env, CotAgent(CotOptions(), Resources(llm=llm)), env.tasks("test")[0]
    )
    assert (result.end, trials, llm.requests) == ("error", (), [])
    assert "no single action answers it" in result.error


def test_another_form_of_answering_is_taken_from_the_card() -> None:
    card = Card("quiz", "", ("say ANSWER aloud",), answer="say ANSWER aloud")
    assert read("Answer: Say Rome aloud", card, thinking=False).action == "Rome"
    assert read("Answer: Rome aloud", card, thinking=False).action == "Rome aloud"
