"""When a model is asked: where memory is unsure, refused, in a loop, far off, or before the end."""

from dataclasses import replace
from typing import Any

import pytest

from ldm.reason import Agreement, State
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.prompting import Consulting, PromptedOptions
from ldm.reason.relevance import LeftOut, Relevance
from ldm.reason.vocabulary import Vocabulary
from ldm.types import Card, History, Proposal, Recall
from tests.embedder import BagOfWords
from tests.reason.scripted import Reply, Scripted, a_recall, in_turn

EMBEDDER = BagOfWords()
FALLBACK = OfflineReasoner(EMBEDDER)
CARD = Card("post office", "", (), final=("seal ",))
SEEN = "You are at desk 1. On it you see: letter 1."
STATE = State(
    "post a letter",
    History(past=(("You are in an office.", "go to desk 1"),)),
    SEEN,
    ("go to desk 1", "go to drawer 2", "take letter 1", "seal letter 1"),
    course=(("You are in an office.", "go to desk 1"),),
    kind="pick",
)
SURE = Proposal("take letter 1", 0.9)


def recall(number: int, action: str, similarity: float = 0.9) -> Recall:
    own = {"task_id": f"train/{number}", "trajectory_id": f"t{number}"}
    past, possible = STATE.history.past, STATE.admissible
    return a_recall("post a letter", past, SEEN, action, similarity, possible=possible, **own)


ALIKE = tuple(recall(n, "take letter 1") for n in range(5))


LEFT_OUT = LeftOut(parts=((0.6, 0.6, 10),))


def reason(
    state: State = STATE, vote: Proposal = SURE, left_out: LeftOut = LEFT_OUT, **options: Any
) -> str:
    learnt = Relevance(Vocabulary(rare=frozenset({"take _"})), left_out=left_out)
    return Consulting(**{"when": "unsure", **options}).reason(CARD, state, vote, learnt)


class TestReasons:
    def test_there_is_none_where_memory_is_sure(self) -> None:
        assert reason() == ""

    @pytest.mark.parametrize(("when", "why"), [("always", "always"), ("never", "")])
    def test_always_and_never_look_at_nothing(self, when: str, why: str) -> None:
        refused = replace(STATE, refused=("wait",))
        assert reason(refused, Proposal("seal letter 1", 0.0), when=when) == why

    @pytest.mark.parametrize(("sure", "why"), [(0.49, "unsure"), (0.51, ""), (0.0, "unsure")])
    def test_a_vote_that_was_more_often_wrong_where_steps_were_left_out(
        self, sure: float, why: str
    ) -> None:
        assert reason(vote=replace(SURE, confidence=sure)) == why

    def test_a_memory_that_cannot_tell_how_often_it_is_right(self) -> None:
        assert reason(left_out=LeftOut()) == "unsure"
        assert reason(left_out=LeftOut(), certainty=0.5) == ""
        assert reason(certainty=1.0, vote=replace(SURE, confidence=1.0)) == "unsure"

    def test_a_refusal(self) -> None:
        assert reason(replace(STATE, refused=("wait",))) == "refused"

    def test_a_loop(self) -> None:
        been = replace(STATE, course=((SEEN, "take letter 1"), ("You are there.", "go to desk 1")))
        assert reason(been) == "loop"
        assert reason(been, Proposal("go to drawer 2", 0.9)) == ""

    def test_trying_one_thing_after_another_since_the_last_phase_began(self) -> None:
        tried = tuple(("Nothing.", f"go to drawer {n}") for n in (4, 5))
        vote = Proposal("go to drawer 2", 0.99)
        for course, why in (
            (tried, "trying"),
            (tried[:1], ""),
            ((*tried, ("Nothing.", "take letter 1")), ""),
        ):
            assert reason(replace(STATE, course=course), vote) == why

    def test_what_cannot_be_undone_unless_nearly_all_such_were_right(self) -> None:
        assert [reason(vote=Proposal("seal it", sure)) for sure in (0.89, 0.91)] == ["final", ""]

    def test_a_plan_is_followed_until_what_the_goal_names_comes_in_sight(self) -> None:
        planned = replace(STATE, plan=("go to drawer 2",), led=True)
        for sure, why in ((0.4, "unsure"), (0.6, "")):
            assert reason(planned, replace(SURE, confidence=sure)) == why
        for known in (
            {"observation": "Nothing."},
            {"course": ((SEEN, "wait"),)},
            {"plan": ("go to drawer 2", "take letter 1")},
        ):
            assert reason(replace(planned, **known), replace(SURE, confidence=0.8)) == "planned"
        later = replace(planned, plan=("go to drawer 2", "take letter 1"))  # memory does it first
        assert [reason(later), reason(later, when="always")] == ["", "planned"]

    @pytest.mark.parametrize(("size", "why"), [("3", "planned"), ("4", "unsure")])
    def test_a_plan_ends_at_what_the_goal_names_whole(self, size: str, why: str) -> None:
        shop = replace(STATE, goal="nuts in a pack of 4", plan=("tap[up]",), led=True)
        labels = f"tap[pack of {size}]", "tap[up]"
        shop = replace(shop, observation=f"[pack of {size}][up]", admissible=labels)
        assert reason(shop, Proposal("tap[up]", 0.6)) == why

    def test_a_thing_that_the_goal_only_describes_unless_all_such_were_right(self) -> None:
        learnt = Relevance(Vocabulary(pressed=frozenset({"tap"})), left_out=LEFT_OUT)
        shop = replace(STATE, goal="nuts", observation="[C1]\nNuts, salted\n$3", admissible=None)
        assert Consulting("unsure").reason(CARD, shop, Proposal("tap[C1]", 0.9), learnt) == "unsure"

    @pytest.mark.parametrize(("sure", "why"), [(0.89, "unsure"), (0.91, "")])
    def test_a_vote_after_a_step_of_the_model_unless_nearly_all_such_were_right(
        self, sure: float, why: str
    ) -> None:
        for led, expected in ((True, why), (False, "")):
            known = replace(STATE, led=led, course=((SEEN, "wait"),))
            assert reason(known, replace(SURE, confidence=sure)) == expected

    def test_a_plan_ends_where_it_is_refused_or_impossible(self) -> None:
        planned = replace(STATE, plan=("go to drawer 2",))
        unsure = replace(SURE, confidence=0.4)
        assert reason(replace(planned, refused=("wait",)), unsure) == "refused"
        assert reason(replace(planned, plan=("fly away",))) == "impossible"
        hidden = replace(planned, admissible=None, course=((SEEN, "wait"),), plan=("fly away",))
        assert reason(hidden, unsure) == "planned"


def reasoner(reply: Reply, when: str = "unsure") -> tuple[PromptedReasoner, Scripted]:
    model = Scripted(lambda _: reply)
    options = PromptedOptions(consulting=Consulting(when, 0.5))  # type: ignore[arg-type]
    return PromptedReasoner(model, CARD, FALLBACK, EMBEDDER, options), model


CHOICE = {"choice": 0, "action": "go to drawer 2"}
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
        consulting.act(replace(STATE, refused=("wait",)), (*ALIKE * 2, recall(9, "go to drawer 2")))
        suggestions = model.prompts[-1][-1].content.partition("<suggestions>")[2]
        assert "1. take letter 1" in suggestions
        assert "2. " not in suggestions.partition("</suggestions>")[0]
        consulting.act(STATE, DIVIDED)
        assert "3. " in model.prompts[-1][-1].content.partition("<suggestions>")[2]

    def test_say_in_the_question_why_it_is_asked(self) -> None:
        consulting, model = reasoner(CHOICE)
        consulting.act(replace(STATE, refused=("wait",)), ALIKE)
        assert "Now: your last action was refused.\n" in model.prompts[-1][-1].content
        consulting.act(replace(STATE, plan=("fly away",)), ALIKE)
        assert "Now: fly away, which you planned, is not" in model.prompts[-1][-1].content

    def test_of_the_model_may_plan_further_ones_that_cost_no_call(self) -> None:
        consulting, model = reasoner({**CHOICE, "then": ["take letter 1", " "]})
        first = consulting.act(STATE, DIVIDED)
        assert first.plan == ("take letter 1",)
        then = consulting.act(replace(STATE, plan=first.plan), DIVIDED)
        assert (then.action, then.reason, then.plan) == ("take letter 1", "planned", ())
        assert len(model.prompts) == 1

    def test_of_memory_that_the_plan_has_later_leave_the_rest_of_it(self) -> None:
        consulting, model = reasoner(CHOICE)
        plan = "go to drawer 2", "take letter 1", "seal letter 1"
        answer = consulting.act(replace(STATE, plan=plan), ALIKE)
        assert (answer.action, answer.plan) == ("take letter 1", (plan[0], plan[2]))
        assert model.prompts == []

    def test_that_are_impossible_are_asked_for_once_more_and_then_the_votes(self) -> None:
        for second, action in [
            ({"choice": 0, "action": "go to drawer 2"}, "go to drawer 2"),
            ({"choice": 0, "action": "fly away"}, FALLBACK.act(STATE, DIVIDED).action),
        ]:
            llm = Scripted(in_turn({"choice": 0, "action": "fly away"}, second))
            options = PromptedOptions(consulting=Consulting("unsure", 1.0))
            asked_twice = PromptedReasoner(llm, CARD, FALLBACK, EMBEDDER, options)
            assert asked_twice.act(STATE, DIVIDED).action == action
            assert "<named>\nfly away\n</named>" in llm.prompts[1][-1].content
            assert asked_twice.counts()["asked again"] == 1

    def test_suggest_equal_things_on_one_line(self) -> None:
        consulting, model = reasoner(CHOICE)
        drawers = tuple(f"go to drawer {n}" for n in range(2, 5))
        state = replace(STATE, admissible=("take letter 1", *drawers), refused=("wait",))
        consulting.act(state, [recall(n, "go to drawer 9") for n in range(4)])
        assert "1. go to drawer 2, 3, 4 (" in model.prompts[-1][-1].content
        alike = Agreement("take cup 1 from desk 1", 1.0, 1, ("take cup 2 from desk 1",))
        assert alike.text == "take cup 1, 2 from desk 1"
        assert Agreement("get 1 egg", 1.0, 1, ("get 5 egg",)).text == "get 1 egg, 5 egg"

    def test_show_the_rules_that_say_more_than_all_suggestions(self) -> None:
        consulting, model = reasoner(CHOICE)
        rules = ("at a desk → take … (9 of 9)", "at a desk → go to … (5 of 9)", "→ wait (1 of 1)")
        drawers = [recall(n, f"go to drawer {2 + n % 2}") for n in range(4)]
        admissible = ("take letter 1", "go to drawer 2", "go to drawer 3")
        state = replace(STATE, admissible=admissible, rules=rules, refused=("wait",))
        consulting.act(state, drawers)
        question = model.prompts[-1][-1].content
        assert [rule in question for rule in rules] == [True, False, False]

    def test_recall_as_many_as_a_vote_needs_and_show_none(self) -> None:
        consulting, model = reasoner(CHOICE)
        assert consulting.recalls == FALLBACK.recalls
        consulting.act(STATE, DIVIDED * 3)
        assert "<example" not in model.prompts[-1][-1].content
