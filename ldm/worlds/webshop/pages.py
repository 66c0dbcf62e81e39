"""The site: the contents of a page, its clickable elements, and the effect of a click.

Everything here is a pure function of an immutable `Session`. The official environment renders HTML
and parses it again; its texts, and the quirks of its clicks, are reproduced without that step.
Numbers in comments refer to the list of quirks that the golden sessions cover.

Observations have the official modes `text` and `text_rich`, and two in brackets: `bracket` is that
of ReAct's prompts, where a chosen option answers with a line alone; `page` that of LDM²'s (arXiv
2312.08402, Table 5), where the whole page stays above these lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Literal, NamedTuple, Protocol

from ldm.types import Step, Trajectory
from ldm.worlds.webshop.catalogue import Product

Mode = Literal["bracket", "page", "text", "text_rich"]

#: The answer of the published runners to an action without effect.
INVALID = "Invalid action!"
CLICKED = "You have clicked {}."
_CLICKED = re.compile(re.escape(CLICKED).replace(r"\{\}", "(.*)"))


def render(session: Session, page: Iterable[Node], mode: Mode) -> str:
    """Return the open page as text in the given mode."""
    modes = {"bracket": bracket, "page": whole, "text": text, "text_rich": text_rich}
    return modes[mode](session, page)


def text(session: Session, page: Iterable[Node]) -> str:
    """Return all texts of the page, stripped and joined by [SEP]."""
    return " [SEP] ".join(node.text.strip() for node in page if node.text)


def text_rich(session: Session, page: Iterable[Node]) -> str:
    """Return the texts of the page, one per line, with marks for clickable and clicked ones."""
    url = session.url
    lines, clicked = [], []
    for node in page:
        match node.kind:
            case "button":
                lines.append(f"[button] {node.text} [button_]\n")
            case "option":
                # The official code looks up in the URL whether it was clicked (28).
                if f'"{node.text}"' in url:
                    clicked.append(f"You have clicked {node.text}.\n")
                    lines.append(f"  [clicked button] {node.text} [clicked button_]\n")
                elif node.text:
                    lines.append(f"  [button] {node.text} [button_]\n")
            case "link":
                mark = "clicked button" if node.text in session.visited else "button"
                lines.append(f"\n[{mark}] {node.text} [{mark}_]\n")
            case _:
                lines.append(f"{node.text}\n")
    return "".join([*reversed(clicked), *lines])


def bracket(session: Session, page: Iterable[Node]) -> str:
    """Return the compact form of the published ReAct prompts (Yao et al., arXiv 2210.03629).

    Only the search page has the instruction; a chosen option has double brackets.
    """
    options = set(session.options)
    pieces = []
    if session.page != "index":
        page = dropwhile(lambda node: node.kind == "text", page)
    for node in page:
        match node.kind:
            case "button" | "link":
                pieces.append(f"\n[{node.text}] ")
            case "option":
                is_chosen = (node.group, node.text) in options
                pieces.append(f"[[{node.text}]]" if is_chosen else f"[{node.text}]")
            case _:
                words = "Webshop" if node.text == "WebShop" else node.text
                pieces.append(f"\n{words} " if words.strip() else "")
    return "".join(pieces).removeprefix("\n")


def whole(session: Session, page: Iterable[Node]) -> str:
    """Return the page in brackets, and below it the chosen options."""
    return _with_clicks(bracket(session, page))


def _with_clicks(page: str, *values: str) -> str:
    """Return a page in brackets with a line for each chosen option: those marked, then `values`.

    Of the options on one line of the page only the last one chosen counts.
    """
    unmarked = re.sub(r"\[\[(.*?)\]\]", r"[\1]", page)
    chosen: dict[str, str] = {}
    for value in (*re.findall(r"\[\[(.*?)\]\]", page), *values):
        line = next((one for one in unmarked.splitlines() if f"[{value}]" in one), value)
        chosen.pop(line, None)
        chosen[line] = value
    return "\n".join([unmarked, *map(CLICKED.format, chosen.values())])


def with_pages(recorded: Trajectory) -> Trajectory:
    """Return an episode recorded in the form `bracket` in the form `page`.

    Where the page was not recorded, nothing is: the line alone does not say what was seen.
    """
    page, values, steps = recorded.opening, list[str](), list[Step]()
    for step in recorded.steps:
        if match := _CLICKED.fullmatch(step.observation):
            values.append(match[1])
        elif step.action and step.observation != INVALID:
            page, values = step.observation, []
        refusal = [INVALID] if step.observation == INVALID else []
        observation = "\n".join([_with_clicks(page, *values), *refusal]) if page else ""
        steps.append(replace(step, observation=observation) if step.action else step)
    return replace(recorded, steps=tuple(steps))


Page = Literal["index", "search_results", "item_page", "item_sub_page", "done"]
Kind = Literal["text", "button", "link", "option"]

PER_PAGE = 10
#: The button that leads nowhere: a search needs its words.
SEARCH = "search"
SUB_PAGES = ("Description", "Features", "Reviews")
#: A sub-page without a button, unless an option's value is called so.
ATTRIBUTES = "Attributes"
#: The answer to a purchase: the first line of the official page; the rest reveals the reward.
BOUGHT = "Thank you for shopping with us!"

_HOST = "http://127.0.0.1:3000"
_ACTION = re.compile(r"(.+)\[(.+)\]")
_CLICKABLE: tuple[Kind, ...] = ("button", "link", "option")
#: In the order in which the official code searches for them in the URL (26).
_PAGES: tuple[Page, ...] = ("search_results", "item_page", "item_sub_page")


class Shelf(Protocol):
    """The products that pages show."""

    def product(self, asin: str) -> Product: ...

    def listed(self, position: int) -> Product: ...


class Shop(Shelf, Protocol):
    """What actions need beside the products."""

    def search(self, query: str, session: Session) -> tuple[int, ...] | None:
        """Return positions of products, best first; None if the site has no answer."""

    def reward(self, session: Session) -> float:
        """Return the reward of buying the session's product with its options."""


@dataclass(frozen=True, slots=True)
class Session:
    """A moment of a shopping session.

    number: the session's, the index of its goal. page: the kind of page that is open.
    query, results, at: the last search, its products' positions, the open result page, from 1.
    asin, options: the open product, and the options chosen, in the order of choosing.
    visited: products opened since the search page was last left. sub: the open sub-page.
    score: the reward of the purchase.
    """

    number: int
    instruction: str
    page: Page = "index"
    query: str = ""
    results: tuple[int, ...] = ()
    at: int = 0
    asin: str = ""
    options: tuple[tuple[str, str], ...] = ()
    visited: frozenset[str] = frozenset()
    sub: str = ""
    score: float | None = None

    @property
    def url(self) -> str:
        """The URL of the open page, which the official code reads in unexpected places (26, 28)."""
        query = self.query.replace(" ", "+")
        options = dict(self.options)
        match self.page:
            case "index":
                return f"{_HOST}/{self.number}"
            case "search_results":
                return f"{_HOST}/search_results/{self.number}/{query}/{self.at}"
        place = f"{self.number}/{self.asin}/{query}/{self.at}"
        if self.page == "item_page":
            return f"{_HOST}/item_page/{place}/{json.dumps(options)}"
        return f"{_HOST}/item_sub_page/{place}/{self.sub}/{options}"


class Node(NamedTuple):
    """A piece of a page. group: the name of the option whose value it is."""

    kind: Kind
    text: str
    group: str = ""


def nodes(session: Session, shop: Shelf, per_page: int = PER_PAGE) -> tuple[Node, ...]:
    """Return the nodes of the open page, in order. per_page: products on a page of results.

    The page after a purchase is not one of them: it reveals the reward.
    """
    if session.page == "index":
        texts = [Node("text", "WebShop"), Node("text", "Instruction: ")]
        pieces = [*texts, Node("text", session.instruction), Node("button", "Search")]
    else:
        pieces = [Node("text", "Instruction:"), Node("text", session.instruction)]
        pieces.append(Node("button", "Back to Search"))
        match session.page:
            case "search_results":
                pieces += _results(session, shop, per_page)
            case "item_page":
                pieces += _item(shop.product(session.asin))
            case _:
                pieces += _sub(session.sub, shop.product(session.asin))
    # The official code skips text that is nothing but a line break (29).
    return tuple(node for node in pieces if node.text not in ("", "\n") or node.kind == "option")


def clickables(page: tuple[Node, ...]) -> dict[str, Node]:
    """Return the clickable nodes by their lower-case text: buttons, products, options (31).

    A value that occurs twice has its first position, but refers to the last occurrence (27).
    """
    by_text = {}
    for kind in _CLICKABLE:
        for node in page:
            if node.kind == kind:
                by_text[node.text if kind == "option" else node.text.lower()] = node
    return by_text


def parse(action: str) -> tuple[str, str] | None:
    """Return an action's name and lower-case argument; None if it is not name[…] (21)."""
    match = _ACTION.match(action)
    return (match[1], match[2].lower()) if match else None


def step(
    session: Session, action: str, targets: Mapping[str, Node], shop: Shop
) -> tuple[Session, bool]:
    """Return the session after an action, as on the official site, and whether it had an effect.

    An unknown action changes nothing; if the page is "done", the session is a purchase.
    targets: the `clickables` of the open page.
    """
    parsed = parse(action)
    if parsed:
        name, argument = parsed
        if name == "search":
            positions = shop.search(argument, session)
            if positions is not None:
                results = replace(session, query=argument, results=positions)
                return _results_at(results, 1), True
        if name == "click" and argument != SEARCH and argument in targets:
            return _click(session, argument, targets, shop), True
    return session, False


def _click(session: Session, name: str, targets: Mapping[str, Node], shop: Shop) -> Session:
    """Click on the node called `name`; for buttons only the name matters (27)."""
    match name, _page_name(session):
        case "buy now", _:
            return replace(session, page="done", score=shop.reward(session))
        case "back to search", _:
            return Session(session.number, session.instruction)
        case "next >", "search_results":
            return _results_at(session, session.at + 1)
        case "< prev", "search_results":
            return _results_at(session, session.at - 1)
        case "< prev", "item_page":
            return _results_at(session, session.at)
        case "< prev", "item_sub_page":
            return replace(session, page="item_page", sub="")
    if name.capitalize() in (*SUB_PAGES, ATTRIBUTES):
        return replace(session, page="item_sub_page", sub=name.capitalize())
    return _opened(session, targets[name])


def _results_at(session: Session, at: int) -> Session:
    return replace(session, page="search_results", at=at, asin="", options=(), sub="")


def _opened(session: Session, node: Node) -> Session:
    """Return the session at the product of a link, or with one more option chosen."""
    session = replace(session, page="item_page", sub="")
    if node.kind == "link":
        return replace(session, asin=node.text, visited=session.visited | {node.text})
    return replace(session, options=tuple({**dict(session.options), node.group: node.text}.items()))


def _page_name(session: Session) -> Page:
    """Return the page that the official code detects from the URL of the open one (26)."""
    url = session.url
    return next((name for name in _PAGES if name in url), "index")


def _results(session: Session, shop: Shelf, size: int) -> list[Node]:
    at = session.at
    pieces = [Node("text", f"Page {at} (Total results: {len(session.results)})")]
    if at > 1:
        pieces.append(Node("button", "< Prev"))
    pieces.append(Node("button", "Next >"))
    for position in session.results[(at - 1) * size : at * size]:
        product = shop.listed(position)
        texts = Node("text", product.title), Node("text", product.price_tag)
        pieces += [Node("link", product.asin), *texts]
    return pieces


def _item(product: Product) -> list[Node]:
    pieces = [Node("button", "< Prev")]
    for name, values in product.options:
        pieces.append(Node("text", name))
        pieces.extend(Node("option", value, name) for value in values)
    texts = (product.title, f"Price: {product.price_tag}", "Rating: N.A.")
    pieces.extend(Node("text", text) for text in texts)
    pieces.extend(Node("button", name) for name in (*SUB_PAGES, "Buy Now"))
    return pieces


def _sub(name: str, product: Product) -> list[Node]:
    about = (product.category, product.query, product.product_category)
    texts = {
        "Description": [product.description],
        "Features": [f" {bullet}" for bullet in product.bullets],
        "Attributes": [*(f" {attribute}" for attribute in product.attributes), *about],
    }.get(name, ())  # the official data have no reviews
    return [Node("button", "< Prev"), *(Node("text", text) for text in texts)]
