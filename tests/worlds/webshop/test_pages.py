import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldm.worlds.webshop import pages
from ldm.worlds.webshop.catalogue import Product, open_catalogue
from ldm.worlds.webshop.environment import World
from ldm.worlds.webshop.pages import Session, render
from ldm.worlds.webshop.reward import Titles
from tests.worlds.webshop.conftest import edge_files, lines


def compare(world: World, session: Session, theirs: dict[str, Any]) -> None:
    """Hold an open page to a golden one: both texts, clickables, address and session."""
    page = pages.nodes(session, world)
    assert render(session, page, "text_rich") == theirs["observation_text_rich"]
    assert render(session, page, "text") == theirs["observation_text"]
    assert list(pages.clickables(page)) == theirs["available_actions"]["clickables"]
    assert (session.page == "index") == theirs["available_actions"]["has_search_bar"]
    assert session.url == theirs["url"]
    state = theirs.get("session_state")
    if state is not None:
        assert (session.asin or None) == state["asin"]
        assert (session.at or None) == state["page"]
        assert dict(session.options) == state["options"]
        assert session.visited == set(state["visited"])


def replay(world: World, path: Path) -> int:
    """Replay golden sessions up to the purchase; returns the number of steps."""
    number = 0
    for episode in lines(path):
        session = world.start(episode["goal_index"])
        compare(world, session, episode["initial"])
        for step in episode["steps"]:
            number += 1
            there = pages.clickables(pages.nodes(session, world))
            after, valid = pages.step(session, step["action"], there, world)
            if "exception" in step:
                # What crashes the official environment does nothing here.
                assert (after, valid) == (session, False)
                break
            session = after
            bought = valid and session.page == "done"
            assert bought == step["done"]
            assert (session.score if bought else 0) == step["reward"]
            if bought:
                break
            compare(world, session, step)
    return number


def test_pages_and_rewards_are_the_official_ones_step_by_step(world: World, golden: Path) -> None:
    assert replay(world, golden / "episodes.jsonl") == 811


@pytest.mark.slow
def test_so_are_those_of_the_edge_products(golden: Path, parsed: Titles) -> None:
    edge = golden / "edge"
    world = World(open_catalogue(edge_files(golden)), titles=parsed)
    assert replay(world, edge / "episodes.jsonl") == 291
    human = open_catalogue(edge_files(golden, human=True))
    world = World(human, titles=parsed)
    assert replay(world, edge / "episodes_human.jsonl") == 10


class Recorded:
    """A shop whose only product is read back from a recorded page in brackets."""

    def __init__(self, *products: Product) -> None:
        self.products = products

    def product(self, asin: str) -> Product:
        return next(product for product in self.products if product.asin == asin)

    def listed(self, position: int) -> Product:
        return self.products[position] if position < len(self.products) else self.products[0]

    def search(self, query: str, session: Session) -> tuple[int, ...] | None:
        return None

    def reward(self, session: Session) -> float:
        return 0.0


def listed_product(asin: str, title: str, price: str, options: str = "") -> Product:
    """A product of which a recorded page tells this much."""
    prices = tuple(float(amount) for amount in re.findall(r"[\d.]+", price))
    groups = re.findall(r"(?m)^(.+?) (\[.*\])$", options)
    values = tuple((name, tuple(inner[1:-1].split("]["))) for name, inner in groups)
    return Product(asin, title, "", (), values, prices, "", "", "", ())


def recorded(official: Path) -> Iterator[tuple[str, Session, Recorded]]:
    """(page, session, shop) of every page of the published runs that shows products."""
    for episode in lines(official / "react_episodes.jsonl"):
        start = Session(0, episode["instruction"])
        for step in episode["steps"]:
            page = step["observation"]
            if page.startswith("Webshop"):
                yield page, start, Recorded()
            elif match := re.match(r"\[Back to Search\] \nPage 1 \(Total results: (\d+)\)", page):
                items = re.findall(r"\n\[(\w{10})\] \n(.*) \n(\$.*?) (?=\n|$)", page)
                session = Session(0, "", "search_results", "q", tuple(range(int(match[1]))), 1)
                yield page, session, Recorded(*(listed_product(*item) for item in items))
            elif match := re.fullmatch(
                r"\[Back to Search\] \n\[< Prev\] \n((?:.+ \[.*\]\n)*)(.*) \nPrice: (.*) "
                r"\nRating: .*\n\[Description\] \n\[Features\] \n\[Reviews\] \n\[Buy Now\] ",
                page,
            ):
                product = listed_product("B000000000", match[2], match[3], match[1])
                session = Session(0, "", "item_page", "q", (0,), 1, asin=product.asin)
                yield page, session, Recorded(product)


def test_pages_in_brackets_have_the_published_form(official: Path) -> None:
    kinds = {"index": 0, "search_results": 0, "item_page": 0}
    for page, session, shop in recorded(official):
        nodes = pages.nodes(session, shop, per_page=3)
        assert render(session, nodes, "bracket") == page
        kinds[session.page] += 1
    assert kinds["index"] == 501
    assert kinds["search_results"] > 500
    assert kinds["item_page"] > 480


def test_known_products_appear_in_the_published_pages(official: Path, world: World) -> None:
    count = 0
    for page, _, shop in recorded(official):
        for product in shop.products:
            position = world.catalogue.position(product.asin)
            if position is not None:
                listed = world.listed(position)
                assert f"[{listed.asin}] \n{listed.title} \n{listed.price_tag} " in page
                count += 1
    assert count == 3


@pytest.fixture
def item_page(small_world: World) -> Session:
    """The page of a product with options."""
    session = small_world.start(0)
    for action in ("search[number 3 lamp]", "click[B000000003]"):
        session = act(small_world, session, action)
    return session


def act(world: World, session: Session, action: str) -> Session:
    there = pages.clickables(pages.nodes(session, world))
    after, valid = pages.step(session, action, there, world)
    assert valid, action
    return after


def rendered(world: World, session: Session) -> str:
    return render(session, pages.nodes(session, world), "bracket")


def test_a_chosen_option_has_two_brackets(small_world: World, item_page: Session) -> None:
    after = act(small_world, item_page, "click[rose]")
    assert "\ncolor [black][light blue][rose]\nsize [small]" in rendered(small_world, item_page)
    assert "\ncolor [black][light blue][[rose]]\nsize [small]" in rendered(small_world, after)


def test_options_survive_a_sub_page_but_no_way_back(small_world: World, item_page: Session) -> None:
    chosen = act(small_world, item_page, "click[rose]")
    there = act(small_world, chosen, "click[Description]")
    assert "A fine soap, made for homes." in rendered(small_world, there)
    assert act(small_world, there, "click[< Prev]") == chosen
    back = act(small_world, chosen, "click[< prev]")
    assert (back.page, back.options, back.asin) == ("search_results", (), "")
    assert "B000000003" in back.visited
    assert act(small_world, back, "click[Back to Search]") == small_world.start(0)


@pytest.mark.parametrize(
    "action",
    ["click[search]", "click[no such thing]", "click[]", "search[]", "Search[lamp]",
     " search[lamp]", "buy it", "", "search[<a> solid wood]", "search[<c>]"],
)  # fmt: skip
def test_the_unknown_changes_nothing(small_world: World, item_page: Session, action: str) -> None:
    there = pages.clickables(pages.nodes(item_page, small_world))
    assert pages.step(item_page, action, there, small_world) == (item_page, False)


def test_the_page_before_the_first_and_after_the_last_are_empty(small_world: World) -> None:
    session = act(small_world, small_world.start(0), "search[lamp]")
    for _ in range(3):
        session = act(small_world, session, "click[next >]")
    assert "[B0" not in rendered(small_world, session)
    assert "Page 4 (Total results:" in rendered(small_world, session)


def test_special_words_ask_for_other_things_than_a_search(small_world: World) -> None:
    start = small_world.start(0)
    everything = act(small_world, start, "search[<c> garden]")
    assert len(everything.results) == 30
    assert len(act(small_world, start, "search[<c> nothing]").results) == 0
    lamps = act(small_world, start, "search[<q> lamps]").results
    assert [small_world.listed(i).query for i in lamps] == ["lamps"] * 5
    some = act(small_world, start, "search[<r>]").results
    assert sorted(some) == list(range(30))
    assert act(small_world, start, "search[<r>]").results == some
    assert act(small_world, small_world.start(1), "search[<r>]").results != some


def test_pages_can_hold_another_number_of_products(small_world: World) -> None:
    session = act(small_world, small_world.start(0), "search[<c> garden]")
    asins: list[str] = []
    for _ in range(10):
        page = pages.nodes(session, small_world, per_page=3)
        asins += [node.text for node in page if node.kind == "link"]
        session = act(small_world, session, "click[next >]")
    assert asins == [f"B{i:09d}" for i in range(30)]
