"""How possible actions are listed to a model, and what it may answer."""

import pytest

from ldm.envs import load_env
from ldm.envs.metadata import card_of
from ldm.reason.replies import match_action
from ldm.types import Card

SHOP = card_of(load_env("webshop"))
PLAIN = Card("x", "", ())


def test_a_free_argument_is_offered_as_such() -> None:
    assert SHOP is not None
    listed = SHOP.offered(["search[Show me a shirt, size: m, and price lower than 50.00 dollars]"])
    assert listed == ("search[your own keywords]",)


@pytest.mark.parametrize(
    ("action", "meant"),
    [("search[your own keywords]", "search[all of it]"), ("search[keywords]", "search[keywords]"),
     ("click[Next]", "click[Next]"), ("", "")],
)  # fmt: skip
def test_a_copied_form_means_the_action_that_is_listed(action: str, meant: str) -> None:
    assert SHOP is not None
    assert SHOP.listed(action, ["click[Next]", "search[all of it]"]) == meant
    assert SHOP.listed(action, None) == SHOP.listed(action, ["click[Back]"]) == action


def test_what_is_sorted_as_text_is_listed_by_number() -> None:
    sorted_as_text = ["go to shelf 1", "go to shelf 10", "go to shelf 2", "look"]
    by_number = ("go to shelf 1", "go to shelf 2", "go to shelf 10", "look")
    assert PLAIN.offered(sorted_as_text) == by_number


def test_what_is_listed_in_an_order_of_its_own_stays_in_it() -> None:
    page = ("click[Back]", "click[Next]", "click[B10]", "click[B2]", "click[A]")
    assert PLAIN.offered(page) == page


@pytest.mark.parametrize(
    ("answer", "action", "how"),
    [("search[red shirt]", "search[red shirt]", "free"),
     ("Action: Search[red  shirt] ", "search[red shirt]", "free"),
     ("search[your own keywords]", "search[all of it]", "normalised"),
     ("search[]", "search[all of it]", "normalised"),
     ("search[all of it]", "search[all of it]", "exact"), ("click[Next]", "click[Next]", "exact")],
)  # fmt: skip
def test_a_free_argument_is_taken_as_it_is(answer: str, action: str, how: str) -> None:
    admissible, free = ["search[all of it]", "click[Next]"], {"search": "your own keywords"}
    assert match_action(answer, admissible, free) == (action, how)
