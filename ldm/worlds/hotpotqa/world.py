"""The answers of search, lookup and finish, word for word as in ReAct (Yao et al., 2023).

The quirks (n) are numbered in `docs/decisions/hotpotqa.md`, which also lists the differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

#: Sentences that a search shows, and similar titles that a miss lists.
SHOWN = 5
NO_RESULTS = "No more results.\n"
FINISHED = "Episode finished."
#: A page with these words lists other articles (9).
MAY_REFER = "may refer to:"
#: Texts with fewer words are no part of a page (5).
_FEWEST_WORDS = 3


class Page(NamedTuple):
    """An article that can be read, as the sentences of all its paragraphs in order."""

    sentences: tuple[str, ...]

    @classmethod
    def of(cls, paragraphs: tuple[str, ...]) -> Page:
        """Return the page with these paragraphs, divided into sentences as officially (5, 6)."""
        sentences = []
        for paragraph in paragraphs:
            # Only single blanks separate words here.
            if len(paragraph.split(" ")) < _FEWEST_WORDS:
                continue
            for line in paragraph.split("\n"):
                if line.strip():
                    sentences += [s.strip() + "." for s in line.strip().split(". ") if s.strip()]
        return cls(tuple(sentences))


class Miss(NamedTuple):
    """No article has the title that was searched, or several can be meant (9): `ambiguous`.

    titles: of those meant, and of similar ones, best first.
    """

    titles: tuple[str, ...]
    ambiguous: bool = False


#: Returns the article with a title, or the titles to choose from.
Ask = Callable[[str], Page | Miss]


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of reading; never modified, only replaced.

    page: the open article. keyword: of the last lookup. matches: the sentences that contain it.
    following: the index of the match that the same lookup shows next.
    """

    page: Page | None = None
    keyword: str | None = None
    matches: tuple[str, ...] = ()
    following: int = 0


class Reply(NamedTuple):
    """The answer to an action.

    reading: the state after it. valid: whether it was an action at all (3). answer: the argument of
    `finish`; None for another action.
    """

    text: str
    reading: Reading
    valid: bool = True
    answer: str | None = None


def apply_action(action: str, reading: Reading, ask: Ask) -> Reply:
    """Carry out one action (2). ask: searches a collection of articles."""
    action = action.strip()
    if (title := _argument(action, "search")) is not None:
        return _search(title, reading, ask)
    if (keyword := _argument(action, "lookup")) is not None:
        return _look_up(keyword, reading)
    if (answer := _argument(action, "finish")) is not None:
        return Reply(FINISHED, reading, answer=answer)
    if _argument(action, "think") is not None:
        return Reply("Nice thought.", reading)
    return Reply(f"Invalid action: {action}", reading, valid=False)


def _argument(action: str, verb: str) -> str | None:
    """Return the text between the brackets; None if the action has another form."""
    if action.startswith(f"{verb}[") and action.endswith("]"):
        return action[len(verb) + 1 : -1]
    return None


def _search(title: str, reading: Reading, ask: Ask) -> Reply:
    """Open an article; if there is none, the open one stays open (8)."""
    answer = ask(title)
    if isinstance(answer, Page):
        return Reply(" ".join(answer.sentences[:SHOWN]), Reading(answer))
    what = f"[{title}]" if answer.ambiguous else title
    return Reply(f"Could not find {what}. Similar: {list(answer.titles[:SHOWN])}.", reading)


def _look_up(keyword: str, reading: Reading) -> Reply:
    """Show the next sentence with `keyword`; another keyword starts at the first (11, 12)."""
    if keyword != reading.keyword:
        sentences = reading.page.sentences if reading.page else ()
        sought = keyword.lower()
        matches = tuple(sentence for sentence in sentences if sought in sentence.lower())
        reading = replace(reading, keyword=keyword, matches=matches, following=0)
    place, count = reading.following, len(reading.matches)
    if place >= count:
        return Reply(NO_RESULTS, reading)
    text = f"(Result {place + 1} / {count}) {reading.matches[place]}"
    return Reply(text, replace(reading, following=place + 1))
