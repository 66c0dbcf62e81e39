"""On pages the offline reasoner presses what plays the part of what was pressed before.

The world is invented: "tap" and "ask" are its verbs, stones and beasts what one taps on.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ldm.reason import State
from ldm.reason.offline import OfflineReasoner
from ldm.reason.page_votes import PagePrecedent, PageWeights, compose, poll
from ldm.reason.pages import Page, descriptions, labels_of, named_labels, named_share, read_call
from ldm.types import History, Past, Recall, stable_hash
from tests.embedder import BagOfWords
from tests.reason.scripted import a_recall

START = "The gate \n[Ask] "
WEIGHTS = PageWeights()


def listing(*things: str) -> str:
    """A page with buttons and things, each with a code of its own and a description below."""
    entries = (f"[{code(text)}] \n{text} " for text in things)
    return "\n".join(["[Leave] ", "Found \n[More] ", *entries])


def code(text: str) -> str:
    return f"X{int(stable_hash(text, length=4), 16)}"


def thing(text: str, *options: str) -> str:
    return f"[Leave] \n[Up] \nshade {''.join(f'[{o}]' for o in options)}\n{text} \n[Take It] "


def recalled(goal: str, past: Past, observation: str, action: str) -> PagePrecedent:
    call = read_call(action)
    assert call is not None
    return PagePrecedent(Page(goal, past, observation), call, 0.9)


def chosen(
    goal: str,
    past: Past,
    observation: str,
    precedents: list[PagePrecedent],
    admissible: tuple[str, ...] | None = None,
) -> str:
    return poll(Page(goal, past, observation), admissible, precedents, WEIGHTS).ranked()[0][0]


#: Three people who fetched a beast each: asked, opened what fitted, chose a shade, took it.
GOALS = (
    ("please fetch a striped tiger in grey", "striped tiger", "A striped tiger", "grey"),
    ("please fetch a woolly sheep in white", "woolly sheep", "The woolly sheep", "white"),
    ("please fetch a tame horse in brown", "tame horse", "One tame horse", "brown"),
)
SHADES = ("grey", "white", "brown", "black")
EPISODES = [
    [
        (START, f"ask[{words}]"),
        (listing(f"A dog of {shade}", text, f"A whale of {shade}"), f"tap[{code(text)}]"),
        (thing(text, *SHADES), f"tap[{shade}]"),
        (f"You tapped {shade}.", "tap[Take It]"),
    ]
    for _, words, text, shade in GOALS
]
MEMORY = [
    recalled(goal, tuple(steps[:i]), *steps[i])
    for (goal, *_), steps in zip(GOALS, EPISODES, strict=True)
    for i in range(len(steps))
]
WISH = "please fetch a spotted leopard in black"
THERE = ("An old crow", "A young leopard", "The spotted leopard", "A tame mule")
PAGE = listing(*THERE)
LISTED = ("tap[Leave]", "tap[More]", *(f"tap[{code(text)}]" for text in THERE))
BEST = f"tap[{code(THERE[2])}]"
SEARCHED: Past = ((START, "ask[spotted leopard]"),)
OPENED: Past = (*SEARCHED, (PAGE, BEST))
LEOPARD = thing("The spotted leopard", *SHADES)
TAPPED: Past = (*OPENED, (LEOPARD, "tap[black]"))


class TestImitation:
    def test_a_question_is_made_up_of_the_words_that_people_kept(self) -> None:
        action = chosen(WISH, (), START, MEMORY, (f"ask[{WISH}]",))
        assert action == "ask[spotted leopard black]"

    def test_of_a_list_it_opens_what_is_described_as_wanted(self) -> None:
        assert chosen(WISH, SEARCHED, PAGE, MEMORY, LISTED) == BEST

    def test_it_chooses_the_option_that_the_goal_names(self) -> None:
        assert chosen(WISH, OPENED, LEOPARD, MEMORY) == "tap[black]"

    def test_with_everything_chosen_it_does_what_people_did_then(self) -> None:
        assert chosen(WISH, TAPPED, "You tapped black.", MEMORY) == "tap[take it]"

    def test_what_was_opened_in_vain_is_not_opened_again(self) -> None:
        past = (*OPENED, (thing("The spotted leopard"), "tap[Up]"))
        assert chosen(WISH, past, PAGE, MEMORY, LISTED) == f"tap[{code(THERE[1])}]"

    def test_a_button_stands_for_itself(self) -> None:
        back = recalled("please fetch a red bat", SEARCHED, thing("A fat rat", "grey"), "tap[Up]")
        others = [p for p in MEMORY if p.call.label != "take it"]
        first = chosen(
            "please fetch a red bat", OPENED, thing("A fat rat", "grey"), [back, *others]
        )
        assert first == "tap[up]"

    def test_it_does_the_same_in_any_order_of_recalls(self) -> None:
        votes = poll(Page(WISH, SEARCHED, PAGE), None, MEMORY, WEIGHTS).ranked()
        again = poll(Page(WISH, SEARCHED, PAGE), None, MEMORY[::-1], WEIGHTS).ranked()
        assert [(a, round(v, 9)) for a, v in votes] == [(a, round(v, 9)) for a, v in again]

    def test_pages_that_were_not_recorded_teach_nothing(self) -> None:
        blind = [recalled(GOALS[0][0], SEARCHED, "", "tap[up]")]
        assert poll(Page(WISH, SEARCHED, PAGE), None, blind, WEIGHTS).ranked() == []
        assert poll(Page(WISH, SEARCHED, PAGE), None, [], WEIGHTS).ranked() == []


class TestTheSameGoal:
    """What was done for the same goal, in other words, is done again word for word."""

    def test_opens_the_same_thing_again_though_another_fits_better(self) -> None:
        page = listing("red round stone", "blue beast")
        others = [
            recalled("a red stone", (), listing("red stone", "pear"), f"tap[{code('red stone')}]")
            for _ in range(8)
        ]
        odd = recalled("a stone, round and red", (), page, f"tap[{code('blue beast')}]")
        goal = "a red round stone"
        assert chosen(goal, (), page, [*others, odd]) == f"tap[{code('red round stone').lower()}]"
        same = replace(odd, nearby=True)
        assert chosen(goal, (), page, [*others, same]) == f"tap[{code('blue beast').lower()}]"

    def test_asks_the_same_question_again(self) -> None:
        others = [recalled("a blue stone", (), START, "ask[blue stone]") for _ in range(8)]
        odd = recalled("a red stone", (), START, "ask[pebble]")
        goal, listed = "a stone, red", ("ask[a stone, red]",)
        assert chosen(goal, (), START, [*others, odd], listed) == "ask[stone]"
        same = replace(odd, nearby=True)
        assert chosen(goal, (), START, [*others, same], listed) == "ask[pebble]"

    @pytest.mark.parametrize(
        ("goal", "same"),
        [
            ("can you find me a smooth old stone for 30 coins", True),
            ("please get a smooth old stone for 30 coins", True),
            ("find me a smooth new stone for 30 coins", False),
            ("find me a smooth stone for 30 coins", True),  # what was more serves who asks for less
            ("find me a smooth old stone for 40 coins", False),
            ("find me a smooth old stone with moss that shines brightly for 30 coins", False),
        ],
    )
    def test_is_the_same_in_other_words_but_not_with_another_wish(
        self, goal: str, same: bool
    ) -> None:
        others = [
            recalled(f"find me a {kind} thing for {price} coins", (), START, "ask[thing]")
            for kind, price in (("smooth", 40), ("new", 20), ("get tiny", 50), ("wet", 60))
        ]
        precedent = recalled("find me a smooth old stone for 30 coins", (), START, "ask[pebble]")
        action = chosen(goal, (), START, [*others, replace(precedent, nearby=True)], ("ask[?]",))
        assert (action == "ask[pebble]") is same

    def test_counts_for_what_it_stands_for_where_that_is_not_possible(self) -> None:
        others = [recalled("a red stone", (), START, "ask[red stone]") for _ in range(8)]
        lost = listing("red lost stone", "pear")
        gone = recalled("a red stone", (), lost, f"tap[{code('red lost stone')}]")
        page = Page("a red stone", (), listing("red round stone", "blue beast"))
        plain = poll(page, None, [*others, gone], WEIGHTS)
        assert poll(page, None, [*others, replace(gone, nearby=True)], WEIGHTS) == plain


class TestOutcomes:
    """What came of a press decides how much it counts (`PagePrecedent.voice`)."""

    def test_full_voices_change_nothing(self) -> None:
        usual = poll(Page(WISH, OPENED, LEOPARD), None, MEMORY, WEIGHTS)
        assert usual == poll(
            Page(WISH, OPENED, LEOPARD), None, [replace(p, voice=1.0) for p in MEMORY], WEIGHTS
        )

    def test_a_vote_counts_what_was_earned(self) -> None:
        page = Page(WISH, OPENED, LEOPARD)
        usual = poll(page, None, MEMORY, WEIGHTS)
        softer = poll(page, None, [replace(p, voice=0.3) for p in MEMORY], WEIGHTS)
        weights = [ballot.weight for ballot in softer.ballots]
        assert weights == [0.3 * ballot.weight for ballot in usual.ballots]
        assert [b.likeness for b in softer.ballots] == [b.likeness for b in usual.ballots]

    def test_a_warning_votes_against_its_label_and_is_no_model_of_arguments(self) -> None:
        page = Page(WISH, TAPPED, "[Up] \n[Take It] ")
        up = replace(recalled(GOALS[0][0], TAPPED, thing("A rat", "grey"), "tap[Up]"), voice=-1.0)
        votes = dict(poll(page, None, [up, *MEMORY], WEIGHTS).ranked())
        usual = dict(poll(page, None, MEMORY, WEIGHTS).ranked())
        assert votes.get("tap[up]", 0.0) < usual["tap[up]"]
        alone = poll(page, None, [up], WEIGHTS)
        assert (alone.ranked(), "tap[up]" in alone.opposed()) == ([], True)
        warned = [replace(p, voice=-1.0) for p in MEMORY]
        assert poll(Page(WISH, (), START), (f"ask[{WISH}]",), warned, WEIGHTS).ranked() == []


class TestBounds:
    GOAL = "a red lamp, and price lower than 30.00 dollars"

    @pytest.mark.parametrize(
        ("first", "second", "best"),
        [("$29.00", "$10.00", 0), ("$31.00", "$10.00", 1),
         ("$12.00 to $99.00", "$10.00", 0), ("$1,200.00", "$10.00", 1)],
    )  # fmt: skip
    def test_what_costs_more_than_the_goal_allows_fits_less(
        self, first: str, second: str, best: int
    ) -> None:
        texts = (f"A red lamp \n{first}", f"A lamp \n{second}")
        answer = chosen(self.GOAL, SEARCHED, listing(*texts), MEMORY)
        assert answer == f"tap[{code(texts[best]).lower()}]"


class TestReading:
    def test_a_command_is_a_verb_with_a_label(self) -> None:
        call = read_call(" Tap[Take  It] ")
        assert call is not None
        assert (call.verb, call.label) == ("tap", "take it")
        assert read_call("go to shelf 1") is None

    def test_labels_stand_in_brackets_each_once(self) -> None:
        assert labels_of(thing("Rat", "grey", "[white]")) == (
            "leave", "up", "grey", "white", "take it",
        )  # fmt: skip

    def test_a_description_is_what_stands_below_a_label_alone_on_its_line(self) -> None:
        texts = descriptions(
            "[a] [b] \nboth \n[c] \nA cat [new] \n$3 \n[d] \n[e] \nA dog \ntwo [f]"
        )
        assert texts == {"c": "A cat [new] \n$3 ", "e": "A dog "}

    @pytest.mark.parametrize(
        ("label", "goal", "share"),
        [("dark red", "a dark red hat", 1.0), ("x-large", "size: x-large, and", 1.0),
         ("large", "size: x-large, and", 0.0), ("red dark", "a dark red hat", 0.5),
         ("dark blue", "a dark red hat", 0.25), ("hats", "a dark red hat", 1.0), ("!", "a", 0.0)],
    )  # fmt: skip
    def test_the_goal_names_a_label_by_its_words_in_a_row(
        self, label: str, goal: str, share: float
    ) -> None:
        assert named_share(label, goal) == share

    def test_a_label_within_a_longer_one_that_is_meant_is_not(self) -> None:
        page = "[Leave] \nsize [4][4 inch][6]"
        assert named_labels(page, "a nail of 4 inch") == {
            "leave": 0.0, "4": 0.5, "4 inch": 1.0, "6": 0.0,
        }  # fmt: skip

    def test_an_answer_without_labels_leaves_the_page_as_it_was(self) -> None:
        page = Page(WISH, TAPPED, "You tapped black.")
        assert page.observation == LEOPARD
        assert page.chosen == {"black"}

    def test_leaving_the_page_ends_what_was_chosen_on_it(self) -> None:
        past = (*TAPPED, ("You tapped black.", "tap[Up]"), (PAGE, BEST))
        assert Page(WISH, past, LEOPARD).chosen == frozenset()


class TestComposing:
    def test_numbers_share_the_fate_of_those_behind_the_same_word(self) -> None:
        goals = [(f"a cat of size {i} for {i + 3} coins", f"cat size {i}") for i in range(3, 6)]
        recalls = [recalled(goal, (), START, f"ask[{words}]") for goal, words in goals]
        assert compose("a cow of size 9 for 17 coins", recalls) == "cow size 9"

    def test_words_that_no_recalled_goal_has_are_kept_but_for_function_words(self) -> None:
        assert compose("please fetch the purple gnu with horns", MEMORY[::4]) == "purple gnu horns"


def test_the_offline_reasoner_decides_on_pages_in_this_way() -> None:
    reasoner = OfflineReasoner(BagOfWords())
    recalls = [
        a_recall(goal, tuple(steps[:n]), *steps[n], task_id=goal, trajectory_id=goal)
        for (goal, *_), steps in zip(GOALS, EPISODES, strict=True)
        for n in range(len(steps))
    ]
    state = State(WISH, History(past=SEARCHED), PAGE, LISTED)
    proposal = reasoner.act(state, recalls).proposals[0]
    assert proposal.action == BEST
    assert 0.3 < proposal.confidence <= 1
    free = reasoner.act(State(WISH, History(), START, None), recalls)
    assert re.fullmatch(r"ask\[[a-z ]+\]", free.action)
    answer = reasoner.act(state, recalls)
    assert answer.followed
    assert {recalls[i].tuple.step for i in answer.followed} == {1}  # they opened a beast, too
    bare = replace(recalls[0].tuple, observation="no labels here", action=BEST)
    shifted = reasoner.act(state, [Recall(bare, 0.9, "b", "g", "o"), *recalls])
    assert shifted.followed == tuple(i + 1 for i in answer.followed)
