"""The offline reasoner: it imitates by analogy, and knows no word of any environment."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldm.reason
from ldm.reason import Process, State, TypeView
from ldm.reason.indexing import cluster
from ldm.reason.offline import OfflineReasoner
from ldm.reason.relevance import learn
from ldm.reason.vocabulary import Lesson
from ldm.types import History, Outcome, Past, Recall
from tests.embedder import BagOfWords
from tests.processes import printed
from tests.reason.scripted import a_recall

START = "You are in a room. You see a box 1, a box 2, a box 3 and a table 1."
TEXTS = (
    st.lists(st.sampled_from(["take", "the", "Mug", "mug", "1", "in/on", "with"])).map(" ".join)
    | st.text()
)
KNIFE, SPOON = "put a knife on the table", "put a spoon on the table"


def recalled(
    goal: str, past: Past, observation: str, action: str, similarity: float = 0.9
) -> Recall:
    return a_recall(goal, past, observation, action, similarity, trajectory_id=str(len(past)))


AT_1: Past = ((START, "go to box 1"),)
HELD: Past = (*AT_1, ("In box 1 you see a knife 1.", "take knife 1 from box 1"))
SEARCHED: Past = (*AT_1, ("In box 1 you see nothing.", "go to box 2"))
#: An expert who looks for a knife, takes it and puts it where it belongs.
RECALLS = (
    recalled(KNIFE, (), START, "go to box 1"),
    recalled(KNIFE, AT_1, "In box 1 you see nothing.", "go to box 2"),
    recalled(KNIFE, AT_1, "In box 1 you see a knife 1.", "take knife 1 from box 1"),
    recalled(KNIFE, SEARCHED, "In box 2 you see a knife 1.", "take knife 1 from box 2"),
    recalled(KNIFE, HELD, "You hold the knife 1.", "go to table 1"),
    recalled(
        KNIFE, (*HELD, ("You hold the knife 1.", "go to table 1")), "On it: nothing.",
        "put knife 1 on table 1",
    ),
)  # fmt: skip


def demonstrations() -> list[Lesson]:
    """Experts who look for a thing in one box after the other, take it and bring it."""
    lessons = []
    for number, thing in enumerate(["knife", "cup", "plum", "fork", "book", "sock"] * 2):
        box = 1 + number % 3
        seen = f"In box {box} you see a pen 2 and a {thing} 1."
        steps = [(START if n == 1 else f"In box {n - 1} you see nothing.", f"go to box {n}")
                 for n in range(1, box + 1)]  # fmt: skip
        steps.append((seen, f"take {thing} 1 from box {box}"))
        steps.append((f"You hold the {thing} 1.", "go to table 1"))
        steps.append(("On it: nothing.", f"put {thing} 1 on table 1"))
        lessons += [
            Lesson(str(number), f"put a {thing} on the table", "pick", tuple(steps[:i]), *step)
            for i, step in enumerate(steps)
        ]
    return lessons


#: Learns from the recalls alone.
UNTAUGHT = OfflineReasoner(BagOfWords())
REASONER = OfflineReasoner(BagOfWords(), learn(demonstrations()))
PLACES = ("go to box 1", "go to box 2", "go to box 3", "go to table 1")
AT_3: Past = ((START, "go to box 3"),)
SEEN_AT_3 = "In box 3 you see a cup 1 and a spoon 2."
TAKING = (*PLACES, "take cup 1 from box 3", "take spoon 2 from box 3")


def decide(past: Past, observation: str, admissible: tuple[str, ...] | None) -> str:
    return REASONER.act(State(SPOON, History(past=past), observation, admissible), RECALLS).action


class TestFollowing:
    """Which recalls an action follows: those whose own action comes to it here."""

    def test_an_action_follows_those_who_did_the_same_with_another_thing(self) -> None:
        state = State(SPOON, History(past=AT_3), SEEN_AT_3, TAKING)
        answer = REASONER.act(state, RECALLS)
        assert (answer.action, answer.followed) == ("take spoon 2 from box 3", (2, 3))
        assert REASONER.followed(state, RECALLS, answer.action) == answer.followed
        assert not {2, 3} & set(REASONER.followed(state, RECALLS, "go to box 1"))

    def test_an_action_that_no_vote_can_come_to_follows_the_same_words(self) -> None:
        state = State(SPOON, History(), START, PLACES)
        assert REASONER.followed(state, RECALLS, "put knife 1 on table 1") == (5,)
        assert REASONER.followed(state, RECALLS, "sing") == ()
        assert REASONER.followed(State(SPOON, History(), START, ()), (), "sing") == ()


class TestActing:
    def test_a_search_moves_on_to_a_place_not_yet_visited(self) -> None:
        past: Past = ((START, "go to box 1"), ("In box 1 you see nothing.", "go to box 2"))
        assert decide(past, "In box 2 you see nothing.", PLACES) == "go to box 3"

    def test_the_thing_of_the_goal_is_taken_when_it_is_in_view(self) -> None:
        assert decide(AT_3, SEEN_AT_3, TAKING) == "take spoon 2 from box 3"

    def test_what_is_held_is_brought_to_where_it_belongs(self) -> None:
        past: Past = (*AT_3, ("In box 3 you see a spoon 2.", "take spoon 2 from box 3"))
        assert decide(past, "You hold the spoon 2.", PLACES) == "go to table 1"

    def test_an_action_that_did_not_help_is_not_repeated(self) -> None:
        past: Past = ((START, "go to box 1"), ("Nothing happens.", "go to box 1")) * 2
        assert decide(past, "Nothing happens.", PLACES) != "go to box 1"

    def test_without_recalls_it_does_what_was_done_least(self) -> None:
        past: Past = ((START, "go to box 1"),)
        state = State(SPOON, History(past=past), "In box 1 you see nothing.", PLACES)
        proposal = UNTAUGHT.act(state, ()).proposals[0]
        assert (proposal.action, proposal.confidence) == ("go to box 2", 0.0)
        assert UNTAUGHT.act(replace(state, admissible=None), ()).action == ""

    def test_where_actions_are_admissible_it_answers_with_one(self) -> None:
        for admissible in (("sing",), ("wait", "go to moon 9"), ("take", "go to")):
            assert decide((), START, admissible) in admissible

    def test_confidences_of_proposals_sum_to_one(self) -> None:
        state = State(SPOON, History(), START, PLACES)
        for z in (1, 2, 4):
            proposals = REASONER.propose(state, RECALLS, z).proposals
            assert len({p.action for p in proposals}) == len(proposals) <= z
            assert sum(p.confidence for p in proposals) == pytest.approx(1)
            ranked = [p.confidence for p in proposals]
            assert ranked == sorted(ranked, reverse=True)


class TestWithoutAdmissibleActions:
    def test_the_recalled_action_is_carried_over(self) -> None:
        assert decide(AT_3, SEEN_AT_3, None) == "take spoon 2 from box 3"

    def test_its_punctuation_is_kept(self) -> None:
        recall = recalled("buy red shoes", (), "Colours: [red] [blue]", "click[red]")
        state = State("buy blue shoes", History(), "Colours: [red] [blue]", None)
        assert re.fullmatch(r"click\[\w+\]", UNTAUGHT.act(state, (recall,)).action)


class TestHistories:
    def test_the_assessment_says_what_was_done_with_each_thing_of_the_goal(self) -> None:
        assessment = REASONER.notes(KNIFE, HELD).assessment
        assert assessment == "put: not yet; knife: take; table: not yet"

    def test_a_long_past_is_cut_from_its_beginning(self) -> None:
        past: Past = tuple(("x", f"open{n} box {n}") for n in range(30))
        summary = REASONER.notes(KNIFE, past).summary
        assert summary.startswith("(18 earlier); ")
        assert "open29" in summary

    def test_without_a_past_there_is_nothing_to_sum_up(self) -> None:
        assert REASONER.notes(KNIFE, ()).summary == ""

    @given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS), max_size=25))
    def test_notes_written_in_one_pass_are_those_of_each_step_by_itself(
        self, goal: str, steps: list[tuple[str, str]]
    ) -> None:
        alone = [REASONER.notes(goal, tuple(steps[:number])) for number in range(len(steps))]
        assert REASONER.annotate(goal, tuple(steps)) == tuple(alone)


def process(*actions: str, confidence: float = 0.5) -> Process:
    return Process("a goal", START, tuple((a, "x") for a in actions), (confidence,) * len(actions))


class TestComparingAndChoosing:
    @pytest.mark.parametrize(
        ("best", "ground", "key"),
        [("abc", "axc", 1), ("abc", "xyz", 0), ("abc", "ab", 2), ("ab", "abc", 1), ("", "a", 0)],
    )
    def test_the_key_step_is_the_first_that_differs(self, best: str, ground: str, key: int) -> None:
        assert REASONER.compare(process(*best), process(*ground)) == key

    def test_the_most_confident_process_is_chosen_the_first_on_a_tie(self) -> None:
        low, high = process("a", confidence=0.2), process("b", "c", confidence=0.7)
        assert REASONER.choose([low, high, high]) == 1
        assert REASONER.choose([process(), low]) == 1
        assert REASONER.choose([process()]) == 0


class TestClusters:
    @pytest.mark.parametrize("count", [1, 2, 3, 8, 60, 400])
    def test_are_a_partition_with_unique_names(self, count: int) -> None:
        texts = [f"thing {n % 7} of {n}" for n in range(count)]
        clustering = cluster(texts, BagOfWords().embed(texts))
        assert len(clustering.assignment) == count
        assert set(clustering.assignment) == set(range(len(clustering.names)))
        assert len(set(clustering.names)) == len(clustering.names) <= 12

    def test_equal_vectors_are_no_problem(self) -> None:
        texts = [f"text {n}" for n in range(40)]
        clustering = cluster(texts, np.tile(BagOfWords().embed(["x"]), (40, 1)))
        assert set(clustering.assignment) == set(range(len(clustering.names)))

    def test_a_text_belongs_to_the_nearest_centroid(self) -> None:
        vectors = BagOfWords().embed(["red apple", "fast car"])
        views = [TypeView(n, (n,), v) for n, v in zip(("fruit", "cars"), vectors, strict=True)]
        assert REASONER.classify_goal("a red apple", views) == 0
        assert REASONER.classify_observation("a car, fast", views) == 1


@pytest.mark.process
def test_decisions_do_not_depend_on_the_hash_seed() -> None:
    script = (
        "from tests.reason.test_offline import *\n"
        "for past in ((), AT_1, SEARCHED, HELD):\n"
        "    for actions in (PLACES, None):\n"
        "        state = State(SPOON, History(past=past), 'In box 2 a spoon 2.', actions)\n"
        "        print(REASONER.propose(state, RECALLS, 9))"
    )
    outputs = {printed(script, seed=seed) for seed in "12"}
    assert len(outputs) == 1
    assert "Proposal" in outputs.pop()


#: Words that only an environment would know; there is no use for them in a method.
_FOREIGN = """drawer fridge knife shirt cabinet countertop microwave sink lamp desklamp spatula egg
apple mug shelf plate clean heat cool toggle inventory webshop alfworld textcraft craft cart price
product click search buy color size take put move examine open close go"""
FOREIGN = frozenset(_FOREIGN.split())


def test_the_code_holds_no_word_of_any_environment() -> None:
    for path in Path(ldm.reason.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        documentation = {
            id(node.value) for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }  # fmt: skip
        for node in ast.walk(tree):
            if id(node) in documentation or not isinstance(node, ast.Constant):
                continue
            if isinstance(node.value, str):
                used = set(re.findall(r"[a-z]+", node.value.lower()))
                assert not used & FOREIGN, (path.name, node.lineno)


def test_weighing_tells_the_share_and_the_support_of_each_action() -> None:
    state = State(SPOON, History(past=AT_3), SEEN_AT_3, TAKING)
    agreements = REASONER.weigh(state, RECALLS, 9)
    answer = REASONER.act(state, RECALLS)
    assert agreements[0].action == answer.action
    assert agreements[0].share == pytest.approx(answer.votes[0].confidence, abs=0.01)
    assert sum(one.share for one in agreements) == pytest.approx(1)
    assert agreements[0].recalls == 2
    assert REASONER.weigh(state, RECALLS, 1) == agreements[:1]
    assert UNTAUGHT.weigh(state, (), 3) == ()


def with_outcome(recall: Recall, outcome: Outcome | None) -> Recall:
    return replace(recall, tuple=replace(recall.tuple, outcome=outcome))


class TestOutcomes:
    """What came of the recalled actions decides how much they count."""

    STATE = State(SPOON, History(), START, ("go to box 1", "go to table 1"))
    TO_BOX = recalled(KNIFE, (), START, "go to box 1")
    TO_TABLE = recalled(KNIFE, (), START, "go to table 1")

    def actions(self, *recalls: Recall) -> list[str]:
        return [p.action for p in UNTAUGHT.propose(self.STATE, recalls, 4).proposals]

    def test_full_and_unknown_ones_change_nothing(self) -> None:
        full = [with_outcome(recall, Outcome(1.0, 1.0)) for recall in RECALLS]
        assert UNTAUGHT.act(self.STATE, full) == UNTAUGHT.act(self.STATE, RECALLS)
        assert UNTAUGHT.propose(self.STATE, full, 4) == UNTAUGHT.propose(self.STATE, RECALLS, 4)
        assert UNTAUGHT.agree(self.STATE, full) == UNTAUGHT.agree(self.STATE, RECALLS)
        assert UNTAUGHT.weigh(self.STATE, full, 4) == UNTAUGHT.weigh(self.STATE, RECALLS, 4)

    def test_a_recall_counts_the_less_the_less_it_earned(self) -> None:
        half = with_outcome(self.TO_TABLE, Outcome(0.5, 0.5))
        little = with_outcome(self.TO_TABLE, Outcome(0.5, 0.2))
        alone = UNTAUGHT.weigh(self.STATE, (self.TO_BOX, self.TO_TABLE), 4)
        shares = {a.action: a.share for a in alone}
        for recall, voice in ((half, 0.75), (little, 0.6)):
            weighed = UNTAUGHT.weigh(self.STATE, (self.TO_BOX, recall), 4)
            got = {a.action: a.share for a in weighed}
            ratio = got["go to table 1"] / got["go to box 1"]
            before = shares["go to table 1"] / shares["go to box 1"]
            assert ratio < before
            assert voice * before <= ratio

    def test_the_worse_outcome_loses(self) -> None:
        for better, worse, first in (
            (self.TO_BOX, self.TO_TABLE, "go to box 1"),
            (self.TO_TABLE, self.TO_BOX, "go to table 1"),
        ):
            recalls = (better, with_outcome(worse, Outcome(0.3, 0.3)))
            assert UNTAUGHT.act(self.STATE, recalls).action == first
            assert UNTAUGHT.agree(self.STATE, recalls).action == first

    def test_what_earned_nothing_more_still_decides_where_it_is_alone(self) -> None:
        late = with_outcome(self.TO_TABLE, Outcome(1.0, 0.0))
        listed = replace(late, tuple=replace(late.tuple, possible=self.STATE.admissible))
        assert self.actions(listed)[0] == "go to table 1"

    def test_a_failure_that_was_kept_votes_like_all_others(self) -> None:
        failure = with_outcome(self.TO_TABLE, Outcome(0.0, 0.0))
        recalls, usual = (self.TO_BOX, failure), (self.TO_BOX, self.TO_TABLE)
        assert UNTAUGHT.act(self.STATE, recalls) == UNTAUGHT.act(self.STATE, usual)

    def test_a_warning_votes_against_its_action(self) -> None:
        warning = with_outcome(self.TO_TABLE, Outcome(0.0, -1.0))
        assert self.actions(warning, warning, self.TO_BOX)[0].startswith("go to box")
        agreed = UNTAUGHT.agree(self.STATE, (warning, self.TO_BOX, self.TO_BOX))
        assert (agreed.recalls, agreed.share <= 1) == (2, True)

    def test_warnings_alone_lead_to_what_they_do_not_warn_of(self) -> None:
        warning = with_outcome(self.TO_BOX, Outcome(0.0, -1.0))
        state = replace(self.STATE, admissible=("go to box 1", "look"))
        assert UNTAUGHT.act(state, (warning,)).action == "look"
