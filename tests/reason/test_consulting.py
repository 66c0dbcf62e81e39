"""When a model is asked: where memory is unsure, refused, in a loop, far off, or before the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ldm.reason import Agreement, Notes, State
from ldm.reason.consulting import Consulting
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.prompting import PromptedOptions
from ldm.types import Card, History, Recall
from tests.embedder import BagOfWords
from tests.reason.scripted import Reply, Scripted, a_recall

EMBEDDER = BagOfWords()
FALLBACK = OfflineReasoner(EMBEDDER)
CARD = Card("post office", "", (), final=("seal ",))
SEEN = "You are at desk 1. On it you see: letter 1."
STATE = State(
    "post a letter",
    History(past=(("You are in an office.", "go to desk 1"),)),
    SEEN,
    ("go to desk 1", "go to drawer 2", "take letter 1", "seal letter 1"),
    steps=1,
    course=(("You are in an office.", "go to desk 1"),),
    kind="pick",
)
SURE = Agreement("take letter 1", 0.9, 5)


def recall(number: int, action: str, similarity: float = 0.9) -> Recall:
    own = {"task_id": f"train/{number}", "trajectory_id": f"t{number}"}
    past, possible = STATE.history.past, STATE.admissible
    return a_recall("post a letter", past, SEEN, action, similarity, possible=possible, **own)


ALIKE = tuple(recall(n, "take letter 1") for n in range(5))


def reason(
    state: State = STATE, agreed: Agreement = SURE, action: str = "take letter 1", **options: Any
) -> str:
    consulting = Consulting(**{"when": "unsure", **options})
    return consulting.reason(CARD, state, agreed, action)


class TestReasons:
    def test_there_is_none_where_recalls_agree(self) -> None:
        assert reason() == ""

    @pytest.mark.parametrize(("when", "why"), [("always", "always"), ("never", "")])
    def test_always_and_never_look_at_nothing(self, when: str, why: str) -> None:
        refused = replace(STATE, refused=True)
        assert reason(refused, Agreement("", 0.0, 0), "seal letter 1", when=when) == why

    @pytest.mark.parametrize(
        ("agreed", "why"),
        [
            (Agreement("take letter 1", 0.49, 5), "unsure"),
            (Agreement("take letter 1", 0.51, 5), ""),
            (Agreement("", 0.0, 0), "unsure"),
        ],
    )
    def test_a_vote_that_is_divided(self, agreed: Agreement, why: str) -> None:
        assert reason(agreed=agreed, certainty=0.5) == why

    def test_a_refusal(self) -> None:
        assert reason(replace(STATE, refused=True)) == "refused"

    def test_a_loop(self) -> None:
        been = replace(STATE, course=((SEEN, "take letter 1"), ("You are there.", "go to desk 1")))
        assert reason(been) == "loop"
        assert reason(been, action="go to drawer 2") == ""

    def test_what_cannot_be_undone(self) -> None:
        assert reason(action="seal letter 1") == "final"

    def test_a_share_of_the_steps_at_most(self) -> None:
        """Two at once, then one in four; one more before what cannot be undone."""
        for steps, most in [(0, 2), (3, 2), (4, 3), (8, 4), (48, 14)]:
            divided = Agreement("take letter 1", 0.2, 5)
            had = replace(STATE, steps=steps, consulted=most)
            assert reason(replace(had, consulted=most - 1), agreed=divided, share=0.25) == "unsure"
            assert reason(had, agreed=divided, share=0.25) == ""
            assert reason(replace(had, refused=True), share=0.25) == ""
            assert reason(had, action="seal letter 1", share=0.25) == "final"
            # Not only where the recalls agree on it: then least of all without a question.
            assert reason(had, agreed=divided, action="seal letter 1", share=0.25) == "unsure"
            had = replace(had, consulted=most + 1)
            assert reason(had, agreed=divided, action="seal letter 1", share=0.25) == ""

    def test_no_share_binds_where_nothing_is_listed(self) -> None:
        """What recalls come to by analogy need not be an action there."""
        hidden = replace(STATE, admissible=None, steps=4, consulted=20)
        divided = Agreement("take letter 1", 0.2, 5)
        assert reason(hidden, agreed=divided, share=0.25) == "unsure"
        assert reason(replace(hidden, refused=True), share=0.25) == "refused"
        assert reason(hidden, share=0.25) == ""


def reasoner(reply: Reply, when: str = "unsure") -> tuple[PromptedReasoner, Scripted]:
    model = Scripted(lambda question: SUB_GOALS if "Name its" in question else reply)
    options = PromptedOptions(consulting=Consulting(when))  # type: ignore[arg-type]
    return PromptedReasoner(model, CARD, FALLBACK, EMBEDDER, options), model


SUB_GOALS: Reply = {"sub_goals": [{"part": "find a letter", "check": "a letter"}]}
CHOICE = {"held": "", "proof": "", "complete": 0, "choice": 0, "action": "go to drawer 2"}
DIVIDED = tuple(
    recall(n, action)
    for n, action in enumerate(["take letter 1", "go to drawer 2", "seal letter 1"] * 2)
)


class TestDecisions:
    def test_of_memory_cost_no_call_and_are_the_votes(self) -> None:
        consulting, model = reasoner(CHOICE)
        answer = consulting.act(STATE, ALIKE)
        assert (answer.action, answer.reason) == ("take letter 1", "")
        assert answer == FALLBACK.act(STATE, ALIKE)
        assert model.prompts == []
        assert consulting.counts() == {"decided by memory": 1}

    def test_of_the_model_say_why_it_was_asked(self) -> None:
        consulting, _ = reasoner(CHOICE)
        answer = consulting.act(STATE, DIVIDED)
        assert (answer.action, answer.reason) == ("go to drawer 2", "unsure")
        assert consulting.counts()["consulted: unsure"] == 1

    def test_cost_no_call_in_a_search_unless_every_step_is_asked_about(self) -> None:
        assert reasoner(CHOICE)[0].searching is FALLBACK
        always, _ = reasoner(CHOICE, "always")
        assert always.searching is always

    def test_form_practice_without_a_call(self) -> None:
        consulting, model = reasoner(CHOICE)
        goals = ["post a letter", "open a parcel", "seal a letter"]
        assert consulting.cluster_goals(goals) == FALLBACK.cluster_goals(goals)
        assert consulting.cluster_observations(goals) == FALLBACK.cluster_observations(goals)
        steps = ((SEEN, "take letter 1"), ("You hold letter 1.", "seal letter 1"))
        assert consulting.annotate("post a letter", steps) == FALLBACK.annotate(
            "post a letter", steps
        )
        assert model.prompts == []

    def test_suggest_what_the_vote_is_between_and_nothing_that_hardly_any_recall_is_for(
        self,
    ) -> None:
        consulting, model = reasoner(CHOICE)
        consulting.act(replace(STATE, refused=True), (*ALIKE * 2, recall(9, "go to drawer 2")))
        suggestions = model.prompts[-1][-1].content.partition("<suggestions>")[2]
        assert "1. take letter 1" in suggestions
        assert "2. " not in suggestions.partition("</suggestions>")[0]
        consulting.act(STATE, DIVIDED)
        assert "3. " in model.prompts[-1][-1].content.partition("<suggestions>")[2]

    def test_ask_neither_for_sub_goals_nor_for_notes(self) -> None:
        consulting, model = reasoner(CHOICE)
        notes = consulting.notes("post a letter", STATE.history.past, SEEN, Notes())
        consulting.act(replace(STATE, notes=notes), DIVIDED)
        [question] = model.prompts
        assert "sub-goal" not in " ".join(message.content for message in question)

    def test_are_the_votes_where_nobody_may_be_asked(self) -> None:
        consulting, model = reasoner(CHOICE, "never")
        for recalls in (ALIKE, DIVIDED):
            assert consulting.act(STATE, recalls).action == FALLBACK.act(STATE, recalls).action
        assert model.prompts == []

    def test_recall_as_many_as_a_vote_needs_and_show_a_few(self) -> None:
        consulting, model = reasoner(CHOICE)
        assert consulting.recalls == FALLBACK.recalls
        consulting.act(STATE, DIVIDED * 3)
        assert model.prompts[-1][-1].content.count("Example ") == 5
