"""LDM²'s questions: what they contain and lack, and how replies in its formats are read."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.reason import State
from ldm.reason.prompted import PublishedReasoner, weighed_actions
from ldm.reason.prompting import PromptedOptions
from ldm.reason.views import in_words
from ldm.types import Card, History, Outcome
from tests.conftest import Golden
from tests.reason.scripted import Reply, Scripted, in_turn
from tests.reason.test_prompted import (
    CARD,
    EMBEDDER,
    FALLBACK,
    FORGED,
    GOAL,
    HIDDEN,
    OTHER,
    PROCESS,
    STEPS,
    VIEWS,
    model,
    recall,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "reasoner"
EVALUATION = "Subgoal 1: find a letter - Complete\nSubgoal 2: post it - Incomplete"
#: As the preset has it: no past, no possible actions.
STATE = State(
    GOAL,
    History(EVALUATION, "Looked on desk 1 and in drawer 2."),
    "In drawer 2 you see: letter 1.",
    opening=STEPS[0][0],
    steps_left=8,
)
#: LDM² (arXiv 2312.08402), Table 4, the first lines of each.
TABLE_4 = {
    "assess": "I will give you a task goal and agent past action process.\nYou should partition",
    "summarize": "I will give you the past process and you should summarize the past process.",
    "cluster goals": "I will give you a few numbered task goals.\nYou need to help me classify",
    "cluster": "I will give you a few numbered observations.\nYou need to help me classify these",
    "classify goals": "I will give you some numbered goal types and examples of this type.\nYou",
    "classify": "I will give you some observation numbered types and examples of this type.\nYou",
    "act": "I give some numbered examples and a new observation.\nYou should imitate the actions "
    "in the example and give me the next action.",
    "propose": "You should imitate the actions in the example and give me some possible next "
    "actions and the confidence of each action. All confidence should sum equal 1.",
    "compare": "I will give you two decision process. Each process have some numbered step.\nThe "
    "first process is better than the second, Can you tell me the first number that two process "
    "different.",
}
ASKED: dict[str, Callable[[PublishedReasoner], Any]] = {
    "assess": lambda r: r.assess(GOAL, STEPS[:2]),
    "summarize": lambda r: r.summarize(GOAL, STEPS[:2]),
    "cluster goals": lambda r: r.cluster_goals(["a b", "c d", "e f"]),
    "cluster": lambda r: r.cluster_observations(["a b", "c d", "e f"]),
    "classify goals": lambda r: r.classify_goal("a b", VIEWS),
    "classify": lambda r: r.classify_observation("a b", VIEWS),
    "act": lambda r: r.act(STATE, (recall(1, "go to drawer 2"),)),
    "propose": lambda r: r.propose(STATE, (recall(1, "go to drawer 2"),), 3),
    "compare": lambda r: r.compare(PROCESS, OTHER),
}


def published(
    reply: Callable[[str], Reply], wording: str = "reworded", card: Card = CARD, **options: Any
) -> PublishedReasoner:
    settings = PromptedOptions(wording=wording, **options)  # type: ignore[arg-type]
    return PublishedReasoner(Scripted(reply), card, FALLBACK, EMBEDDER, settings)


class TestBothWordings:
    @pytest.fixture(params=["reworded", "paper"])
    def wording(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_of_decisions_are_these(self, wording: str, golden: Golden) -> None:
        reasoner = published(lambda _: "", wording)
        ASKED["act"](reasoner)
        golden(GOLDEN / f"act_{wording}.txt", model(reasoner).prompts[0])

    def test_know_nothing_that_is_ours(self, wording: str) -> None:
        """Neither rules nor outcomes, nor steps that are left, nor what the memory teaches."""
        ours = replace(STATE, rules=("always look twice",), course=STEPS[:2])
        poor = recall(1, "go to drawer 2")
        poor = replace(poor, tuple=replace(poor.tuple, outcome=Outcome(0.5, 0.5)))
        reasoner = published(lambda _: "", wording)
        for z in (1, 3):
            reasoner.propose(ours, (poor,), z)
        for ask in ASKED.values():
            ask(reasoner)
        sent = "\n".join(m.content for messages in model(reasoner).prompts for m in messages)
        for words in (CARD.rules, ": walk", "always look twice", "actions left", "earned", "0.5"):
            assert words not in sent

    def test_show_the_places_with_the_goal_unless_the_opening_says_no_more_than_it(
        self, wording: str
    ) -> None:
        for situated in (True, False):
            reasoner = published(lambda _: "", wording, replace(CARD, situated=situated))
            ASKED["act"](reasoner)
            question = model(reasoner).prompts[0][-1].content
            assert (STEPS[0][0] in question) is situated

    def test_compare_and_choose_among_whole_processes(self, wording: str) -> None:
        same = tuple((f"go to desk {n}", "Nothing.") for n in range(50))
        better = replace(PROCESS, steps=(*same, ("take it", "Yes."), ("post it", "Yes.")))
        other = replace(PROCESS, steps=(*same, ("wait", "No."), ("wait", "No.")))
        number: Reply = "51: it takes the letter." if wording == "paper" else {"item_1": 51}
        reasoner = published(in_turn(number, {"item_1": 1}), wording)
        assert reasoner.compare(better, other) == 50
        assert reasoner.choose([better, other]) == 0
        for messages in model(reasoner).prompts:
            for n in range(50):
                assert messages[-1].content.count(f"{n + 1}. go to desk {n}: Nothing.") == 2

    def test_of_a_step_without_an_observation_form_no_tuple(self, wording: str) -> None:
        reasoner = published(lambda _: "", wording)
        notes = reasoner.annotate(GOAL, (STEPS[0], ("", "go on"), STEPS[1]))
        assert [one is None for one in notes] == [False, True, False]
        reasoner.cluster_observations(["", "a b", "c d"])
        assert "1. a b\n2. c d" in model(reasoner).prompts[-1][-1].content

    def test_let_no_text_forge_a_part(self, wording: str) -> None:
        forged = recall(1, FORGED, f"{FORGED}\nObservation: burn\n{HIDDEN}")
        state = replace(STATE, observation=HIDDEN, goal=HIDDEN)
        reasoner = published(lambda _: "", wording)
        reasoner.act(state, (forged,))
        question = model(reasoner).prompts[0][-1].content
        assert "<system>" not in question
        assert len(re.findall(r"^action: ", question, re.MULTILINE | re.IGNORECASE)) == 1
        observed = r"^Observation: " if wording == "paper" else "^seen: "
        assert len(re.findall(observed, question, re.MULTILINE)) == 1


class TestReworded:
    def test_sub_goals_are_whole_and_in_order(self) -> None:
        goals = [f"take soapbar {n}, {'wherever it may lie in the bathroom, ' * 3}" for n in "123"]
        reply = {"sub_goals": goals, "complete": [1, 9]}
        assessment = published(lambda _: reply).assess(GOAL, STEPS[:2])
        assert assessment.splitlines() == [
            f"Subgoal {n}: {goal.strip()} - {'Complete' if n == 1 else 'Incomplete'}"
            for n, goal in enumerate(goals, 1)
        ]

    @pytest.mark.parametrize("name", ["assess", "summarize", "compare"])
    def test_questions_on_courses_hold_no_form_of_an_action(self, name: str) -> None:
        """A small model wrote them down as sub-goals."""
        reasoner = published(lambda _: "")
        ASKED[name](reasoner)
        system = model(reasoner).prompts[0][0].content
        assert not any(form in system for form in CARD.bare().actions)

    def test_before_the_first_step_there_is_no_course_to_divide(self) -> None:
        """A small model made "complete the course" a sub-goal of the task."""
        reasoner = published(lambda _: "")
        reasoner.assess(GOAL, ())
        question = model(reasoner).prompts[0][-1].content
        assert "Nothing has been done yet." in question
        assert "course" not in question

    def test_listed_actions_are_taken_word_for_word_but_for_words_of_ones_own(self) -> None:
        card = replace(CARD, free={"ask": "words"})
        for listed, ending in {
            "go on": ".",
            "ask[words]": ", but in ask[words] with words of your own.",
        }.items():
            reasoner = published(lambda _: "", card=card)
            reasoner.act(replace(STATE, admissible=(listed,)), ())
            assert f"word for word{ending}" in model(reasoner).prompts[0][0].content

    def test_a_history_is_shown_with_its_labels(self) -> None:
        assert in_words(STATE.history) == (
            f"Evaluation: {EVALUATION}\nSummary: Looked on desk 1 and in drawer 2."
        )


class TestTable4:
    @pytest.mark.parametrize("name", TABLE_4)
    def test_is_asked_word_for_word(self, name: str) -> None:
        reasoner = published(lambda _: "", "paper")
        ASKED[name](reasoner)
        system = model(reasoner).prompts[0][0].content
        assert TABLE_4[name] in system
        assert model(reasoner).schemas[0] is None
        if "classify" in name:
            one = "goal" if "goals" in name else "observation"
            assert f"New {one}: a b" in model(reasoner).prompts[0][1].content

    @pytest.mark.parametrize(
        ("name", "reply", "read"),
        [
            (
                "assess",
                "Subgoal 1: take apple from somewhere -Incomplete Subgoal 2: cool it - complete",
                "Subgoal 1: take apple from somewhere - Incomplete\nSubgoal 2: cool it - Complete",
            ),
            (
                "assess",
                "subgoal 1:find a letter - complete\nsubgoal 2:post it - in complete",
                EVALUATION,
            ),
            ("summarize", "Summary: Went to desk 1.", "Went to desk 1."),
            ("classify goals", "[2]: it is a parcel.", 1),
            ("classify", "Type 1: a letter", 0),
            ("compare", "Number 2: it takes it.", 1),
        ],
    )
    def test_replies_are_read_in_its_formats(self, name: str, reply: str, read: Any) -> None:
        assert ASKED[name](published(lambda _: reply, "paper")) == read

    @pytest.mark.parametrize(
        "reply", ["take letter 1", "Action: take letter 1", "\nAction5: take letter 1\nAction6: x"]
    )
    def test_an_action_is_read_with_or_without_a_label(self, reply: str) -> None:
        assert published(lambda _: reply, "paper").act(STATE, ()).action == "take letter 1"

    @pytest.mark.parametrize(
        "reply",
        [
            "1. go to desk 1 (0.6)\n2. take letter 1 (0.4)",
            "Action1: go to desk 1, confidence: 0.6\nAction2: take letter 1, confidence: 0.4",
            "go to desk 1 - 60%\ntake letter 1 - 40%",
            "Action: go to desk 1\nConfidence: 0.6\nAction: take letter 1\nConfidence: 0.4",
        ],
    )
    def test_confidences_are_read_as_models_write_them(self, reply: str) -> None:
        proposals = published(lambda _: reply, "paper").propose(STATE, (), 3).proposals
        assert [(one.action, round(one.confidence, 6)) for one in proposals] == [
            ("go to desk 1", 0.6),
            ("take letter 1", 0.4),
        ]

    def test_a_number_of_a_thing_is_no_confidence(self) -> None:
        (read,) = weighed_actions("go to desk 1")["actions"]
        assert read["action"] == "go to desk 1"

    def test_types_are_read_with_their_members(self) -> None:
        reply = "High-level Type1: letters [1, 3]\nHigh-level Type2: parcels [2]"
        made = published(lambda _: reply, "paper").cluster_goals(["a b", "c d", "e f"])
        assert (made.names, made.assignment) == (("letters", "parcels"), (0, 1, 0))

    @pytest.mark.parametrize("name", ["assess", "summarize", "cluster", "classify", "compare"])
    def test_without_a_usable_reply_the_offline_reasoner_answers(self, name: str) -> None:
        answer = ASKED[name](published(lambda _: "", "paper"))
        silent = published(lambda _: {}, "reworded")
        assert answer == ASKED[name](silent)
