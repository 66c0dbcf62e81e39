"""The official logs of people shopping: one page event per line, in the order of each session.

An event records the page that was opened, not the click, so clicks are inferred: they are those
that lead from one page to the next on our site. A page is rebuilt if the catalogue holds its
products; otherwise the observation is "".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from ldm import records
from ldm.envs.formats import LINES, Assumed, FieldError, Text, parsed
from ldm.records import Problem
from ldm.text import read_lines
from ldm.types import Score, Step, Task, Trajectory
from ldm.worlds.webshop.catalogue import Catalogue, Files, Product, open_catalogue
from ldm.worlds.webshop.environment import KIND
from ldm.worlds.webshop.pages import CLICKED, PER_PAGE, Page, Session, bracket, nodes

SUFFIXES = LINES
SIGN = '"page", "url" and "goal"'
ENV = "webshop"
SPLIT = "recorded"
#: The most products that the search engine returns.
MOST_FOUND = 50
#: Larger page numbers are considered invalid, as people do not go that far.
LAST_PAGE = 1_000

#: Page → the fields of its content.
_NEEDED: dict[Page, tuple[str, ...]] = {
    "index": (),
    "search_results": ("keywords", "page", "search_result_asins"),
    "item_page": ("keywords", "page", "asin", "options"),
    "item_sub_page": ("keywords", "page", "asin", "options"),
    "done": ("asin", "options"),
}
#: Position of the sub-page's name in the path of its URL.
_SUB_AT = 5


def _literal(value: Any) -> Any:
    """Return a Python value whose printed form a log holds, or the value."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


PRINTED = BeforeValidator(_literal)


def _words(value: Any) -> Any:
    """Return a query, which may be a list of words, or the printed form of one."""
    words = _literal(value)
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        value = " ".join(words)
    return " ".join(value.split()) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Goal:
    instruction_text: Text
    asin: Any = None


def _url(text: str) -> str:
    urlsplit(text)  # raises ValueError
    return text


@dataclass(frozen=True, slots=True)
class Located:
    url: Annotated[str, AfterValidator(_url)]

    @property
    def path(self) -> list[str]:
        """The parts of the URL's path; the first is the page's name, except on the start page."""
        return [unquote(part) for part in urlsplit(self.url).path.strip("/").split("/")]

    @property
    def session(self) -> str:
        parts = self.path
        return parts[1] if parts[0] in _NEEDED and len(parts) > 1 else parts[0]


@dataclass(frozen=True, slots=True)
class Content:
    keywords: Annotated[str | None, BeforeValidator(_words)] = None
    page: Annotated[Annotated[int, Field(ge=1, le=LAST_PAGE)] | None, PRINTED] = None
    search_result_asins: Annotated[list[str] | None, PRINTED] = None
    asin: Text | None = None
    options: Annotated[dict[str, str] | None, PRINTED] = None


@dataclass(frozen=True, slots=True)
class Line(Located):
    page: Page
    goal: Goal
    content: Content | None = None
    reward: Score | None = None


class Event(NamedTuple):
    """A page that was opened. view: the state of a session of our site that shows this page.

    listed: the products on a result page. reward: that of the purchase, on the page after it.
    """

    session: str
    goal: Goal
    view: Session
    listed: tuple[str, ...] = ()
    reward: float | None = None


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like such an event."""
    if not (isinstance(value, dict) and {"page", "url", "goal"} <= value.keys()):
        return False
    return value["page"] in tuple(_NEEDED)  # it may be a list


def read(path: Path, assumed: Assumed) -> Iterator[Trajectory | Problem]:
    """Yield a problem for each invalid line of a log, and its sessions by their first events.

    A session with an invalid line is left out, as its clicks cannot be inferred. Pages are rebuilt
    from the product files in `assumed.data`.
    """
    catalogue = _catalogue(assumed.data) if assumed.data else None
    sessions: dict[str, list[Event]] = {}
    bad: set[str] = set()
    present = ""
    for number, text in read_lines(path):
        located = records.parse(text, Located, str(path), number, foreign=True)
        present = present if isinstance(located, Problem) else located.session
        event = parsed(text, Line, _event, str(path), number)
        if isinstance(event, Event):
            sessions.setdefault(event.session, []).append(event)
        else:
            bad.add(present)
            yield event
    for name, events in sessions.items():
        # An invalid first line belongs to the session that follows it.
        if name not in bad and not ("" in bad and name == next(iter(sessions))):
            yield _trajectory(name, events, catalogue)


@lru_cache(maxsize=1)
def _catalogue(data: str) -> Catalogue:
    """Return the catalogue in `data`, cached for the next log, as each file holds one session."""
    return open_catalogue(Files.find(Path(data), human=False))


def _event(line: Line) -> Event:
    if not line.session:
        raise FieldError("url", f"has no session: {line.url!r}")
    needed = _NEEDED[line.page]
    values: dict[str, Any] = {name: getattr(line.content, name, None) for name in needed}
    if missing := [name for name, value in values.items() if value is None]:
        raise FieldError(f"content.{missing[0]}", "missing")
    if line.page == "done" and line.reward is None:
        raise FieldError("reward", "missing")
    sub = "".join(line.path[_SUB_AT : _SUB_AT + 1]) if line.page == "item_sub_page" else ""
    if line.page == "item_sub_page" and not sub:
        raise FieldError("url", f"has no sub-page: {line.url!r}")
    view = Session(
        0,
        line.goal.instruction_text,
        line.page,
        query=values.get("keywords", ""),
        at=values.get("page", 0),
        asin=values.get("asin", ""),
        options=tuple(values.get("options", {}).items()),
        sub=sub.capitalize(),
    )
    listed = tuple(values.get("search_result_asins", ()))
    reward = line.reward if line.page == "done" else None
    return Event(line.session, line.goal, view, listed, reward)


def _trajectory(name: str, events: list[Event], catalogue: Catalogue | None) -> Trajectory:
    """Return a session as a trajectory, up to its first purchase; without one its score is 0."""
    goal, product = events[0].goal.instruction_text, events[0].goal.asin
    source = product if isinstance(product, str) else ""
    task = Task(f"human/{name}", ENV, SPLIT, goal, KIND, source)
    replay = _ClickReconstruction(Session(0, goal), catalogue)
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
                notice = CLICKED.format(value) if self.steps[-1].observation else ""
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
            if (asins := self.listed.get((now.query, now.at))) is None:
                return ""
            # Of the products on other pages only the number is visible; a full page is assumed to
            # belong to a full list.
            before = (now.at - 1) * PER_PAGE
            count = max(MOST_FOUND if len(asins) == PER_PAGE else 0, before + len(asins))
            now = replace(now, results=tuple(range(-before, count - before)))
            shelf = _Shelf(self.catalogue, asins)
        try:
            return bracket(now, nodes(now, shelf))
        except KeyError:
            return ""


class _Shelf(NamedTuple):
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
