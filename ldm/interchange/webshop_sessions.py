"""The official logs of people shopping: one page event per line, in the order of each session.

An event records the page that was opened, not the click, so clicks are inferred: they are those
that lead from one page to the next on our site. A page is rebuilt if the catalogue holds its
products; otherwise the observation is "".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ldm.envs.fields import FieldError, line_object, reward_in, text_in
from ldm.envs.formats import LINES, Assumed
from ldm.envs.webshop.card import KIND
from ldm.envs.webshop.catalogue import Files, Product
from ldm.envs.webshop.pages import Layout, Page, Session, nodes
from ldm.envs.webshop.render import bracket
from ldm.envs.webshop.store import Catalogue, Settings, open_catalogue
from ldm.records import Problem
from ldm.text import read_lines
from ldm.types import Step, Task, Trajectory

SUFFIXES = LINES
SIGN = '"page", "url" and "goal"'
HEAD = None
ENV = "webshop"
SPLIT = "recorded"
#: The most products that the search engine returns.
MOST_FOUND = 50
LAYOUT = Layout()
#: Larger page numbers are considered invalid, as people do not go that far.
LAST_PAGE = 1_000

_PAGES: tuple[Page, ...] = ("index", "search_results", "item_page", "item_sub_page", "done")
#: Position of the sub-page's name in the path of its URL.
_SUB_AT = 5


@dataclass(frozen=True, slots=True)
class Event:
    """A page that was opened. view: the state of a session of our site that shows this page.

    listed: the products on a result page. reward: that of the purchase, on the page after it.
    """

    line: int
    session: str
    goal: Mapping[str, Any]
    view: Session
    listed: tuple[str, ...] = ()
    reward: float | None = None


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like such an event."""
    if not (isinstance(value, dict) and {"page", "url", "goal"} <= value.keys()):
        return False
    return value["page"] in _PAGES


def read(path: Path, assumed: Assumed) -> Iterator[Trajectory | Problem]:
    """Yield a problem for each invalid line of a log, and its sessions by their first events.

    A session with an invalid line is left out, as its clicks cannot be inferred. Pages are rebuilt
    from the product files in `assumed.data`.
    """
    catalogue = _catalogue(assumed.data) if assumed.data else None
    file = str(path)
    sessions: dict[str, list[Event]] = {}
    bad: set[str] = set()
    present = ""
    for number, text in read_lines(path):
        entry = line_object(text, file, number)
        if not isinstance(entry, Problem):
            try:
                event = _event(entry, number)
                present = event.session
                sessions.setdefault(present, []).append(event)
                continue
            except FieldError as error:
                entry = Problem(file, number, error.field, str(error))
                present = _session_of(url) if (url := _url(text)) else present
        bad.add(present)
        yield entry
    for name, events in sessions.items():
        # An invalid first line belongs to the session that follows it.
        if name not in bad and not ("" in bad and name == next(iter(sessions))):
            yield _trajectory(name, events, catalogue)


@lru_cache(maxsize=1)
def _catalogue(data: str) -> Catalogue:
    """Return the catalogue in `data`, cached for the next log, as each file holds one session."""
    return open_catalogue(Files.find(Path(data), human=False), Settings())


def _url(text: bytes) -> str:
    line = line_object(text, "", 0)
    url = line.get("url") if isinstance(line, Mapping) else None
    return url if isinstance(url, str) else ""


def _event(line: Mapping[str, Any], number: int) -> Event:
    page = text_in(line, "page")
    if page not in _PAGES:
        raise FieldError("page", f"not one of {', '.join(_PAGES)}: {page!r}")
    goal = line.get("goal")
    if not isinstance(goal, Mapping):
        raise FieldError("goal", "missing or not an object")
    instruction = text_in(goal, "instruction_text", "goal.instruction_text")
    url = text_in(line, "url")
    session = _session_of(url)
    if not session:
        raise FieldError("url", f"has no session: {url!r}")
    view = Session(0, instruction, page)
    if page == "index":
        return Event(number, session, goal, view)
    content = line.get("content")
    if not isinstance(content, Mapping):
        raise FieldError("content", "missing or not an object")
    if page == "search_results":
        asins = tuple(_texts(content, "search_result_asins"))
        view = replace(view, query=_query(content), at=_page_number(content))
        return Event(number, session, goal, view, asins)
    view = replace(view, asin=text_in(content, "asin", "content.asin"), options=_options(content))
    if page == "done":
        return Event(number, session, goal, view, reward=reward_in(line))
    view = replace(view, query=_query(content), at=_page_number(content))
    if page == "item_sub_page":
        parts = _parts(url)
        if len(parts) <= _SUB_AT or not parts[_SUB_AT]:
            raise FieldError("url", f"has no sub-page: {url!r}")
        view = replace(view, sub=parts[_SUB_AT].capitalize())
    return Event(number, session, goal, view)


def _parts(url: str) -> list[str]:
    """Return the parts of a URL's path; the first is the page's name, except on the start page."""
    return [unquote(part) for part in urlsplit(url).path.strip("/").split("/")]


def _session_of(url: str) -> str:
    parts = _parts(url)
    return parts[1] if parts[0] in _PAGES and len(parts) > 1 else parts[0]


def _texts(content: Mapping[str, Any], name: str) -> list[str]:
    """Return the list of texts in a field, which may be the printed form of a Python list."""
    value = content.get(name)
    if isinstance(value, str):
        value = _literal(value)
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise FieldError(f"content.{name}", "missing or not a list of texts")
    return value


def _query(content: Mapping[str, Any]) -> str:
    value = content.get("keywords")
    if isinstance(value, str) and not isinstance(_literal(value), list):
        return " ".join(value.split())
    return " ".join(" ".join(_texts(content, "keywords")).split())


def _page_number(content: Mapping[str, Any]) -> int:
    value = content.get("page")
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= LAST_PAGE:
        raise FieldError("content.page", f"not a page number: {value!r:.40}")
    return number


def _options(content: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    value = content.get("options")
    if isinstance(value, str):
        value = _literal(value)
    if not isinstance(value, Mapping) or not all(
        isinstance(part, str) for pair in value.items() for part in pair
    ):
        raise FieldError("content.options", "missing or not an object of texts")
    return tuple(value.items())


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _trajectory(name: str, events: list[Event], catalogue: Catalogue | None) -> Trajectory:
    """Return a session as a trajectory, up to its first purchase; without one its score is 0."""
    goal = events[0].goal
    product = goal.get("asin")
    task = Task(
        id=f"human/{name}",
        env=ENV,
        split=SPLIT,
        goal=events[0].view.instruction,
        kind=KIND,
        source=product if isinstance(product, str) else "",
    )
    replay = _ClickReconstruction(Session(0, events[0].view.instruction), catalogue)
    opening = replay.observation()
    score = 0.0
    for event in events:
        replay.lead_to(event)
        if event.reward is not None:
            score = event.reward
            replay.steps[-1] = replace(replay.steps[-1], reward=score)
            break
    return Trajectory(
        task, opening, tuple(replay.steps), score=score, success=score >= 1.0, origin="human"
    )


@dataclass
class _ClickReconstruction:
    """The current state of a session, and the steps that led to it."""

    now: Session
    catalogue: Catalogue | None
    listed: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def lead_to(self, event: Event) -> None:
        """Add the steps that open the page of `event`."""
        view = event.view
        match view.page:
            case "index":
                if self.now.page != "index":
                    self._do("click[Back to Search]", Session(0, view.instruction))
            case "search_results":
                self.listed[view.query, view.at] = event.listed
                self._to_results(view)
            case _:
                self._to_item(view)
                if view.page == "item_sub_page":
                    sub = replace(self.now, page="item_sub_page", sub=view.sub)
                    self._do(f"click[{view.sub}]", sub)
                elif view.page == "done":
                    self._do("click[Buy Now]", replace(self.now, page="done"))

    def _to_results(self, view: Session) -> None:
        if self.now.page == "index" or self.now.query != view.query:
            visited = self.now.visited
            searched = Session(0, view.instruction, "search_results", query=view.query, at=1)
            self._do(f"search[{view.query}]", replace(searched, visited=visited))
        else:
            self._leave_item()
        while self.now.at != view.at:
            further = self.now.at < view.at
            after = replace(self.now, at=self.now.at + (1 if further else -1))
            self._do("click[Next >]" if further else "click[< Prev]", after)

    def _leave_item(self) -> None:
        """Go back to the results, through the product's page if a sub-page is open."""
        if self.now.page == "item_sub_page":
            self._do("click[< Prev]", replace(self.now, page="item_page", sub=""))
        if self.now.page == "item_page":
            results = replace(self.now, page="search_results", asin="", options=())
            self._do("click[< Prev]", results)

    def _to_item(self, view: Session) -> None:
        """Go to the product of `view` with its options chosen, and no sub-page open."""
        if self.now.page == "item_sub_page" and self.now.asin == view.asin:
            self._do("click[< Prev]", replace(self.now, page="item_page", sub=""))
        chosen = dict(self.now.options)
        is_open = self.now.page == "item_page" and self.now.asin == view.asin
        if not is_open or not chosen.keys() <= dict(view.options).keys():
            if view.page != "done":
                self._to_results(view)
            else:
                self._leave_item()
            visited = self.now.visited | {view.asin}
            item = replace(self.now, page="item_page", asin=view.asin, visited=visited)
            self._do(f"click[{view.asin}]", item)
            chosen = {}
        for name, value in view.options:
            if chosen.get(name) != value:
                chosen[name] = value
                self._do(f"click[{value}]", replace(self.now, options=tuple(chosen.items())))
                notice = f"You have clicked {value}." if self.steps[-1].observation else ""
                self.steps[-1] = replace(self.steps[-1], observation=notice)

    def _do(self, action: str, after: Session) -> None:
        self.now = after
        self.steps.append(Step(action, self.observation()))

    def observation(self) -> str:
        """Return the open page; "" after buying, and if the catalogue lacks its products."""
        now, shelf = self.now, _Shelf(self.catalogue)
        if now.page == "done" or (now.page != "index" and self.catalogue is None):
            return ""
        if now.page == "search_results":
            if (now.query, now.at) not in self.listed:
                return ""
            asins = self.listed[now.query, now.at]
            # Of the products on other pages only the number is visible; a full page is assumed to
            # belong to a full list.
            before = (now.at - 1) * LAYOUT.per_page
            full = len(asins) == LAYOUT.per_page
            count = max(MOST_FOUND if full else 0, before + len(asins))
            now = replace(now, results=tuple(range(-before, count - before)))
            shelf = _Shelf(self.catalogue, asins)
        try:
            return bracket(now, nodes(now, shelf, LAYOUT))
        except KeyError:
            return ""


@dataclass(frozen=True, slots=True)
class _Shelf:
    """The part of a catalogue that a page needs; position 0 is the first product on the page."""

    catalogue: Catalogue | None
    asins: tuple[str, ...] = ()

    def product(self, asin: str) -> Product:
        position = self.catalogue.position(asin) if self.catalogue else None
        if self.catalogue is None or position is None:
            raise KeyError(asin)
        return self.catalogue[position]

    def listed(self, position: int) -> Product:
        return self.product(self.asins[position])

    def search(self, query: str, session: Session) -> None:
        """Return None, as the results are in the log."""

    def reward(self, session: Session) -> float:
        return 0.0
