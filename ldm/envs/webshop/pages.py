"""The site: what a page shows, what can be clicked on it, and where a click leads.

Everything here is a pure function of an immutable `Session`. The official environment renders HTML
and reads it back; its texts, and the oddities of its clicks, are reproduced without that detour.
Numbers in comments are those of the list of quirks that the golden sessions were made for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from ldm.envs.webshop.catalogue import Product

Page = Literal["index", "search_results", "item_page", "item_sub_page", "done"]
Kind = Literal["text", "button", "link", "option"]

PER_PAGE = 10
BUY, BACK, NEXT, PREVIOUS, SEARCH = "buy now", "back to search", "next >", "< prev", "search"
SUB_PAGES = ("Description", "Features", "Reviews")
#: Only where the site shows attributes.
ATTRIBUTES = "Attributes"
#: Shown on buying: the first line of the official page, whose rest tells the reward.
BOUGHT = "Thank you for shopping with us!"

_HOST = "http://127.0.0.1:3000"
_ACTION = re.compile(r"(.+)\[(.+)\]")
_CLICKABLE: tuple[Kind, ...] = ("button", "link", "option")
#: In the order in which the official code looks for them in the address (26).
_PAGES: tuple[Page, ...] = ("search_results", "item_page", "item_sub_page", "done")


class Shop(Protocol):
    """What pages need to know beyond the session."""

    def product(self, asin: str) -> Product: ...

    def listed(self, position: int) -> Product: ...

    def search(self, query: str, session: Session) -> tuple[int, ...] | None:
        """Positions of the products found, best first; None where the site has no answer."""
        ...

    def reward(self, session: Session) -> float:
        """What buying the session's product with its options earns."""
        ...


@dataclass(frozen=True, slots=True)
class Layout:
    """How the site is set up: products on a result page, and whether there are attribute pages."""

    per_page: int = PER_PAGE
    attributes: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """Where a shopper stands.

    number: the session's, the index of its goal. page: the kind of page that is open.
    query, found, at: the last search, the positions of the products found, the result page looked
    at, from 1.
    asin, options: the product looked at, and the options chosen, in the order of choosing.
    visited: products opened since the last time on the search page. sub: the open sub-page.
    score: what buying earned.
    """

    number: int
    instruction: str
    page: Page = "index"
    query: str = ""
    found: tuple[int, ...] = ()
    at: int = 0
    asin: str = ""
    options: tuple[tuple[str, str], ...] = ()
    visited: frozenset[str] = frozenset()
    sub: str = ""
    score: float | None = None

    @property
    def url(self) -> str:
        """The address of the open page, which the official code reads in odd places (26, 28)."""
        query = self.query.replace(" ", "+")
        chosen = dict(self.options)
        match self.page:
            case "index":
                return f"{_HOST}/{self.number}"
            case "search_results":
                return f"{_HOST}/search_results/{self.number}/{query}/{self.at}"
            case "done":
                return f"{_HOST}/done/{self.number}/{self.asin}/{chosen}"
        place = f"{self.number}/{self.asin}/{query}/{self.at}"
        if self.page == "item_page":
            return f"{_HOST}/item_page/{place}/{json.dumps(chosen)}"
        return f"{_HOST}/item_sub_page/{place}/{self.sub}/{chosen}"


class Node(NamedTuple):
    """A piece of a page. group: the name of the option whose value it is."""

    kind: Kind
    text: str
    group: str = ""


class Answer(NamedTuple):
    """What an action led to. valid: whether it did anything; bought: whether it was a purchase."""

    session: Session
    valid: bool
    bought: bool


def nodes(session: Session, shop: Shop, layout: Layout) -> tuple[Node, ...]:
    """The pieces of the open page, in their order."""
    match session.page:
        case "index":
            found = [
                Node("text", "WebShop"),
                Node("text", "Instruction: "),
                Node("text", session.instruction),
                Node("button", "Search"),
            ]
        case "done":
            found = _done(session)
        case _:
            found = [
                Node("text", "Instruction:"),
                Node("text", session.instruction),
                Node("button", "Back to Search"),
            ]
            show = {"search_results": _results, "item_page": _item}.get(session.page, _sub)
            found += show(session, shop, layout)
    # The official code skips text that is nothing but a line break (29).
    return tuple(node for node in found if node.text not in ("", "\n") or node.kind == "option")


def clickables(page: tuple[Node, ...]) -> dict[str, Node]:
    """What can be clicked, by its text in lower case: buttons, products, options (31).

    Where a value occurs twice it stands at its first place and means the last one (27).
    """
    found = {}
    for kind in _CLICKABLE:
        for node in page:
            if node.kind == kind:
                found[node.text if kind == "option" else node.text.lower()] = node
    return found


def parse(action: str) -> tuple[str, str] | None:
    """(name, argument in lower case) of an action; None where it has not the form name[…] (21)."""
    found = _ACTION.match(action)
    return (found[1], found[2].lower()) if found else None


def step(session: Session, action: str, there: Mapping[str, Node], shop: Shop) -> Answer:
    """Carry out an action as the official site does; one it does not know changes nothing.

    there: the `clickables` of the open page.
    """
    parsed = parse(action)
    if parsed:
        name, argument = parsed
        if name == "search":
            return _search(session, argument, shop)
        if name == "click" and argument != SEARCH and argument in there:
            return _click(session, argument, there, shop)
    return Answer(session, valid=False, bought=False)


def _click(session: Session, name: str, there: Mapping[str, Node], shop: Shop) -> Answer:
    """Click on what is called `name`; for buttons the name alone decides (27)."""
    place = _page_name(session)
    if name == BUY:
        bought = replace(session, page="done", score=shop.reward(session))
        return Answer(bought, valid=True, bought=True)
    if name == BACK:
        after = Session(session.number, session.instruction)
    elif name == NEXT and place == "search_results":
        after = _results_at(session, session.at + 1)
    elif name == PREVIOUS and place == "search_results":
        after = _results_at(session, session.at - 1)
    elif name == PREVIOUS and place == "item_page":
        after = _results_at(session, session.at)
    elif name == PREVIOUS and place == "item_sub_page":
        after = replace(session, page="item_page", sub="")
    elif name.capitalize() in (*SUB_PAGES, ATTRIBUTES):
        after = replace(session, page="item_sub_page", sub=name.capitalize())
    else:
        after = _opened(session, there[name])
    return Answer(after, valid=True, bought=False)


def _search(session: Session, query: str, shop: Shop) -> Answer:
    found = shop.search(query, session)
    if found is None:
        return Answer(session, valid=False, bought=False)
    searched = replace(session, query=query, found=found)
    return Answer(_results_at(searched, 1), valid=True, bought=False)


def _results_at(session: Session, at: int) -> Session:
    return replace(session, page="search_results", at=at, asin="", options=(), sub="")


def _opened(session: Session, node: Node) -> Session:
    """The product that a link leads to, or the product looked at with one more option."""
    session = replace(session, page="item_page", sub="")
    if node.kind == "link":
        return replace(session, asin=node.text, visited=session.visited | {node.text})
    return replace(session, options=tuple({**dict(session.options), node.group: node.text}.items()))


def _page_name(session: Session) -> Page:
    """The page that the official code takes the open one for, judging by its address (26)."""
    url = session.url
    return next((name for name in _PAGES if name in url), "index")


def _results(session: Session, shop: Shop, layout: Layout) -> list[Node]:
    at, size = session.at, layout.per_page
    found = [Node("text", f"Page {at} (Total results: {len(session.found)})")]
    if at > 1:
        found.append(Node("button", "< Prev"))
    found.append(Node("button", "Next >"))
    for position in session.found[(at - 1) * size : at * size]:
        product = shop.listed(position)
        found.append(Node("link", product.asin))
        found.append(Node("text", product.title))
        found.append(Node("text", product.price_tag))
    return found


def _item(session: Session, shop: Shop, layout: Layout) -> list[Node]:
    product = shop.product(session.asin)
    found = [Node("button", "< Prev")]
    for name, values in product.options:
        found.append(Node("text", name))
        found.extend(Node("option", value, name) for value in values)
    found.append(Node("text", product.title))
    found.append(Node("text", f"Price: {product.price_tag}"))
    found.append(Node("text", "Rating: N.A."))
    found.extend(Node("button", name) for name in SUB_PAGES)
    if layout.attributes:
        found.append(Node("button", ATTRIBUTES))
    found.append(Node("button", "Buy Now"))
    return found


def _sub(session: Session, shop: Shop, layout: Layout) -> list[Node]:
    product = shop.product(session.asin)
    match session.sub:
        case "Description":
            texts = [product.description]
        case "Features":
            texts = [f" {bullet}" for bullet in product.bullets]
        case "Attributes":
            about = [product.category, product.query, product.product_category]
            texts = [f" {attribute}" for attribute in product.attributes] + about
        case _:
            texts = []  # the official data have no reviews
    return [Node("button", "< Prev"), *(Node("text", text) for text in texts)]


def _done(session: Session) -> list[Node]:
    """The official page on what was bought, with its hidden blocks (30). No agent sees it."""
    options = json.dumps(dict(session.options), sort_keys=True)
    for character in "<>&'":
        options = options.replace(character, f"\\u{ord(character):04x}")
    code = ["Your code: ", "None", " (Paste it in your MTurk interface.)"]
    bought = ["Purchased", "asin", session.asin, "options", options]
    unknown = [
        t for name in ("attrs", "category", "query", "product category") for t in (name, "None")
    ]
    target = ["Target", "asin", "options", "attrs", "price upper", "instuction text"]
    target += ["category", "product category", "query", "Goal ", "None"]
    score = [
        "Reward",
        "Your score (min 0.0, max 1.0)",
        str(session.score),
        "Reward Details ",
        "None",
    ]
    return [Node("text", text) for text in (BOUGHT, *code, *bought, *unknown, *target, *score)]
