"""Calls verb[argument] in the learnt rule: labels of pages, made-up and quoted arguments, lines."""

import numpy as np
import pytest

from ldm.memory.lessons import packed, unpacked
from ldm.reason.excerpts import facts_of
from ldm.reason.features import Situation
from ldm.reason.pages import Page, composed, label_facts, words_taken
from ldm.reason.relevance import Relevance, learn
from ldm.reason.vocabulary import Lesson, read_command
from ldm.types import Past

START = "Find it:\n{}\n[Search]"
COLOURS = ("red", "blue", "green", "black", "white", "brown")
THINGS = ("lamp", "chair", "table", "shirt", "clock", "mug")


def goal_of(colour: str, thing: str) -> str:
    """Return what is asked for."""
    return f"please find a {colour} {thing}, price lower than 50 dollars"


def results(thing: str, fitting: int) -> str:
    """Return a page with a list in which one thing fits."""
    offers = [
        f"[P{i}{thing}]\nFine {thing if i == fitting else 'spoon'}\n${i + 10}" for i in range(3)
    ]
    return "[Back]\n" + "\n".join(offers)


def item(thing: str) -> str:
    """Return the page of a thing with options."""
    return f"[Back]\ncolor [{']['.join(COLOURS)}]\nFine {thing}\n[Buy]"


def session(number: int, colour: str, thing: str) -> list[Lesson]:
    """Return a session in which the thing that fits and the colour that was asked for are taken."""
    goal, fitting = goal_of(colour, thing), number % 3
    steps = [
        (START.format(goal), f"search[{colour} {thing}]"),
        (results(thing, fitting), f"click[P{fitting}{thing}]"),
        (item(thing), f"click[{colour}]"),
        (f"You have clicked {colour}.", "click[Buy]"),
    ]
    return [
        Lesson(str(number), goal, "buy", tuple(steps[:i]), text, action)
        for i, (text, action) in enumerate(steps)
    ]


@pytest.fixture(scope="module")
def shop() -> Relevance:
    """Return what twelve sessions teach, written and read again."""
    pairs = [(COLOURS[i % 6], THINGS[(i * 5 + i // 6) % 6]) for i in range(12)]
    lessons = [one for i, pair in enumerate(pairs) for one in session(i, *pair)]
    return unpacked(packed(learn(lessons, calibrated=False)))


def chosen(
    rule: Relevance, goal: str, past: Past, text: str, listed: tuple[str, ...] | None = None
) -> str:
    """Return the first action."""
    return rule.rank(Situation(rule.vocabulary, goal, "buy", past, text), listed).ranked()[0][0]


@pytest.mark.parametrize("listing", [True, False])
def test_a_shop_of_other_things(shop: Relevance, listing: bool) -> None:
    goal, thing = goal_of("black", "kettle"), "kettle"
    texts = [START.format(goal), results(thing, 2), item(thing), "You have clicked black."]
    expected = ["search[black kettle]", f"click[P2{thing}]", "click[black]", "click[Buy]"]
    past: Past = ()
    for text, action in zip(texts, expected, strict=True):
        page = Page(goal, past, text)
        listed = (*(f"click[{label}]" for label in page.labels), f"search[{goal}]")
        first = chosen(shop, goal, past, text, listed if listing else None)
        assert first.lower() == action.lower()
        past = (*past, (text, action))


def test_facts_of_labels() -> None:
    goal = "a red lamp, price lower than 50 dollars"
    offers = "[Back]\n[P1]\nRed lamp\n$60\n[P2]\nLamp of red\n$40\n[P3]\nRed mug\n$10"
    page = Page(goal, (), offers, frozenset(["back"]))
    facts = {x: label_facts(page, x)[1] for x in ("p1", "p2", "p3")}
    assert "described over True" in facts["p1"]
    assert "described over False" in facts["p2"]
    assert "described fit >= 10" in facts["p2"]
    assert "described fit >= 10" not in facts["p3"]
    assert "described rank >= 1" not in facts["p1"]
    assert "described rank >= 2" in facts["p3"]
    options = "color [red][blue]\n[Back]"
    page = Page(goal, ((options, "click[blue]"),), options, frozenset(["back"]))
    part, red = label_facts(page, "red")
    assert part == "wanted"
    assert {"wanted beside best", "wanted beside chosen True"} <= set(red)
    assert label_facts(page, "back")[0] == "back"


def test_words_of_goals_in_arguments() -> None:
    taken = words_taken(
        [
            ("please find a red lamp lower than 50 dollars", "red lamp"),
            ("please find a blue chair lower than 40 dollars", "blue chair"),
        ]
    )
    assert composed("please find a green mug lower than 30 dollars", dict(taken)) == "green mug"


def questions() -> list[Lesson]:
    """Return episodes in which a director is looked up, and the birthplace answered."""
    names = ["Ada Ray", "Bo Lind", "Cy Moss", "Di Falk", "Ed Horn"]
    lessons = []
    for i, name in enumerate(names):
        goal = f"Where was the director of Film {i} born?"
        steps = [
            (f"Question: {goal}", f"search[Film {i}]"),
            (f"Film {i} is a drama. Directed by {name}. Anna Holt wrote it.", f"search[{name}]"),
            (f"{name} was born in Town{i}. The family came from Old{i}.", f"finish[Town{i}]"),
        ]
        lessons += [
            Lesson(str(i), goal, "bridge", tuple(steps[:n]), text, action)
            for n, (text, action) in enumerate(steps)
        ]
    return lessons


def test_free_arguments_are_quoted_from_where_recorded_ones_stood() -> None:
    content = packed(learn(questions(), calibrated=False))
    rule = unpacked(content)
    assert np.shares_memory(rule.columns, np.frombuffer(content, np.uint8))  # a file's stay there
    goal = "Where was the director of Film 9 born?"
    past: Past = ()
    for text, action in [
        (f"Question: {goal}", "search[Film 9]"),
        ("Film 9 is a comedy. Directed by Zoe Pike. Anna Holt wrote it.", "search[Zoe Pike]"),
        ("Zoe Pike was born in Elm. The family came from Oak.", "finish[Elm]"),
    ]:
        assert chosen(rule, goal, past, text) == action
        past = (*past, (text, action))


def test_what_stands_around_an_argument() -> None:
    texts = {"now": "It was directed by Ada Ray. In 1970 it won."}
    facts = facts_of("Ada Ray", texts)
    assert {"now -1 by", "now +1 .", "now ('directed', 'by') @"} <= set(facts)
    assert "now +1 #" in facts_of("In", texts)
    assert facts_of("yes", texts) == ("nowhere",)


def test_actions_that_stand_in_texts_as_lines_are_candidates() -> None:
    def listing(*recipes: str) -> str:
        return "Commands:\n" + "\n".join(recipes)

    lessons = [
        Lesson(
            str(i), f"make {what}.", "", (), listing(f"make 1 {what} using 2 logs, 1 rope"), action
        )
        for i, what in enumerate(["raft", "swing", "fence", "tent"])
        for action in [f"make 1 {what} using 2 logs, 1 rope"]
    ]
    rule = learn(lessons, calibrated=False)
    text = listing("make 3 masts using 4 poles, 2 nails", "burn 2 poles", "nothing")
    now = Situation(rule.vocabulary, "make masts.", "", (), text)
    assert rule.candidates.of(now) == ["make 3 masts using 4 poles, 2 nails"]


def test_the_argument_of_a_call_fills_one_slot() -> None:
    call = read_command("click[9 ft by 12 ft, to go]")
    assert call.frame == "click [_]"
    assert len(call.fillers) == 1
    assert call.filled(["x"]) == "click[x]"
