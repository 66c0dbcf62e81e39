"""Pages are read by their labels.

The world is invented: "tap" and "ask" are its verbs, stones and beasts what one taps on.
"""

import pytest

from ldm.reason.pages import Page, descriptions, labels_of, named_labels, named_share, read_call
from ldm.types import Past, stable_hash

START = "The gate \n[Ask] "


def listing(*things: str) -> str:
    """A page with buttons and things, each with a code of its own and a description below."""
    entries = (f"[{code(text)}] \n{text} " for text in things)
    return "\n".join(["[Leave] ", "Found \n[More] ", *entries])


def code(text: str) -> str:
    return f"X{int(stable_hash(text, length=4), 16)}"


def thing(text: str, *options: str) -> str:
    return f"[Leave] \n[Up] \nshade {''.join(f'[{o}]' for o in options)}\n{text} \n[Take It] "


SHADES = ("grey", "white", "brown", "black")
WISH = "please fetch a spotted leopard in black"
THERE = ("An old crow", "A young leopard", "The spotted leopard", "A tame mule")
PAGE = listing(*THERE)
BEST = f"tap[{code(THERE[2])}]"
SEARCHED: Past = ((START, "ask[spotted leopard]"),)
OPENED: Past = (*SEARCHED, (PAGE, BEST))
LEOPARD = thing("The spotted leopard", *SHADES)
TAPPED: Past = (*OPENED, (LEOPARD, "tap[black]"))


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
        past = (*TAPPED, (LEOPARD, "tap[Up]"), ("[Up] \nMore of it.", "tap[Up]"))
        assert Page(WISH, past, LEOPARD, frozenset({"up"})).chosen == {"black", "up"}

    def test_leaving_the_page_ends_what_was_chosen_on_it(self) -> None:
        past = (*TAPPED, ("You tapped black.", "tap[Up]"), (PAGE, BEST))
        assert Page(WISH, past, LEOPARD).chosen == frozenset()
