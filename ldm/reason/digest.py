"""The findings of an episode, extracted from its record without a model, complete and brief.

A digest replaces observations that do not fit a prompt. Places are things written with a number
that a step was about; items are the labels of a list on a page, with the lines below them.
No word of any environment is known here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ldm.reason.pages import (
    content_words,
    descriptions,
    labels_of,
    read_call,
    stem,
    tokens,
    without_amounts,
)
from ldm.reason.reading import FUNCTION_WORDS, Words, words
from ldm.text import counted
from ldm.types import Past

#: The minimum number of labels of a list, described by equally many lines.
LISTED = 2

_LABEL = re.compile(r"\[+([^\[\]\n]+)\]+")


@dataclass(frozen=True, slots=True)
class Digest:
    """The places and items of an episode, one line each.

    places: with the observations there and the actions on them. unseen: names of other places.
    items: with the description, and for opened ones the words of the goal that they lack and
    another item has. steps: the numbers, from 1, of the steps whose observations are replaced.
    """

    places: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    steps: frozenset[int] = frozenset()

    def __len__(self) -> int:
        """Return the minimum number of its characters in a prompt."""
        lines = (*self.places, *self.items)
        return sum(len(line) + 1 for line in lines) + sum(len(name) + 2 for name in self.unseen)


def digest_of(goal: str, course: Past, observation: str, room: int) -> Digest:
    """Return the digest of an episode, empty if it does not fit `room` characters.

    Items that do not fit are counted: first those that were not opened and share fewest words with
    the goal.

    course: the pairs (observation, action) before the present `observation`.
    """
    observations = [*(text for text, _ in course), observation]
    actions = [action for _, action in course]
    places, held = _places(observations, actions)
    named = [name for name in _numbered(observations[0]) if name not in places] if places else []
    items, pages = _items(observations, actions)
    item_lines = _item_lines(goal, items)
    lines = tuple(
        f"{' '.join(name)}: {'; '.join(entries)}"
        for name, entries in sorted(places.items(), key=lambda pair: _natural(pair[0]))
    )
    unseen = tuple(" ".join(name) for name in sorted(named, key=_natural))
    whole = Digest(lines, unseen, tuple(item_lines.values()), frozenset(held | pages))
    if len(whole) <= room:
        return whole
    left = room - len(Digest(lines, unseen))
    if left < 0 or not items:
        return Digest()
    goal_words = content_words(goal)
    fitting: list[_Item] = []
    for item in sorted(
        items, key=lambda one: (not one.opened, -len(goal_words & content_words(one.text)))
    ):
        left -= len(item_lines[item.label]) + 1
        if left >= 0:
            fitting.append(item)
    visible = [item_lines[item.label] for item in items if item in fitting]
    others = f"({counted(len(items) - len(visible), 'other')})"
    return Digest(lines, unseen, (*visible, others), frozenset(held | pages))


def _item_lines(goal: str, items: Sequence[_Item]) -> dict[str, str]:
    """Return a line for each item, by its label.

    An opened item lacks the words of the goal that another item has and it does not. Amounts of
    money do not count: another item may cost as much as the goal allows.
    """
    words_of = {item.label: item.words for item in items}
    any_words = frozenset().union(*words_of.values())
    named = [
        token for token in dict.fromkeys(tokens(without_amounts(goal))) if stem(token) in any_words
    ]
    return {
        item.label: item.line([token for token in named if stem(token) not in own])
        for item, own in zip(items, words_of.values(), strict=True)
    }


def _places(
    observations: Sequence[str], actions: Sequence[str]
) -> tuple[dict[Words, list[str]], set[int]]:
    """Return the observations and later actions at each place, and the steps that they cover.

    A step about one thing that its observation names shows it, unless the observation only repeats
    the action. Entries begin with the latest one that named other things too, as earlier ones are
    outdated or repeated.
    """
    logs: dict[Words, list[tuple[int, str]]] = {}
    held: set[int] = set()
    for number, action in enumerate(actions, 1):
        after = " ".join(observations[number].split())
        about, named = _numbered(action.partition(" ")[2]), _numbered(after)
        if not about or about[-1] not in named:
            continue
        log = logs.setdefault(about[-1], [])
        held.add(number)
        if len(about) > 1 or set(words(after)) <= {*words(action), *FUNCTION_WORDS}:
            log.append((number, f"then {action}"))
            continue
        if log and log[-1][0] == number - 1:
            log.pop()  # the same visit: going there, then opening it
        if len(named) > 1:
            log.clear()
        if all(text != after for _, text in log):
            log.append((number, after))
    return {name: [text for _, text in log] for name, log in logs.items()}, held


@dataclass(slots=True)
class _Item:
    """An item of a list. visits: step, pages read and options chosen of each. pages: seen."""

    label: str
    text: str
    visits: list[tuple[int, list[str], list[str]]] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)

    @property
    def opened(self) -> bool:
        return bool(self.visits)

    @property
    def words(self) -> frozenset[str]:
        return frozenset().union(*map(content_words, (self.text, *self.pages)))

    def line(self, lacking: Sequence[str]) -> str:
        """Return the item's line. lacking: words that none of its pages has."""
        remarks = []
        for number, read, chosen in self.visits:
            parts = [f"opened at step {number}"]
            parts += [f"read {', '.join(read)}"] if read else []
            parts += [f"chose {', '.join(chosen)}"] if chosen else []
            remarks.append(", ".join(parts))
        remarks += [f"not seen there: {', '.join(lacking)}"] if self.opened and lacking else []
        return f"[{self.label}] {self.text}" + (f" ({'; '.join(remarks)})" if remarks else "")


def _items(observations: Sequence[str], actions: Sequence[str]) -> tuple[list[_Item], set[int]]:
    """Return the items of all lists, in the order in which they came, and the steps with lists.

    An item is open from the press of its label until a list appears, a page that was seen while no
    item was open, or a page that no press led to. A press that leaves the labels unchanged chooses
    an option; another one leads to a page that is read.
    """
    items: dict[str, _Item] = {}
    lists: set[int] = set()
    outside: set[str] = set()
    page, opened = "", None
    for number, text in enumerate(observations):
        before, page = page, text if labels_of(text) else page
        listed = _listed(text)
        if listed:
            lists.add(number)
        for label, description in listed.items():
            items.setdefault(label.lower(), _Item(label, description))
        call = read_call(actions[number - 1]) if number else None
        if call is not None and call.label not in labels_of(before):
            call = None
        if call is not None and call.label in items:
            opened = items[call.label]
            opened.visits.append((number, [], []))
        elif opened is None or listed or page in outside or (call is None and page != before):
            opened = None
        elif call is not None:
            _, read, chosen = opened.visits[-1]
            name = _spelt(before, call.label)
            if labels_of(page) == labels_of(before):
                chosen.append(name)
            elif page not in observations[:number]:  # going back is not reading
                read.append(name)
        if opened is None:
            outside.add(page)
        else:
            opened.pages.append(text)
    return list(items.values()), lists


def _listed(page: str) -> dict[str, str]:
    """Return the labels of a list on a page with their descriptions; {} without a list.

    Items of one list have equally many lines; a button above the list has others below it.
    """
    texts = descriptions(page)
    counts = Counter(text.count("\n") for text in texts.values())
    lines, count = max(counts.items(), key=lambda pair: (pair[1], pair[0]), default=(0, 0))
    if count < LISTED:
        return {}
    return {
        _spelt(page, label): " ".join(text.split())
        for label, text in texts.items()
        if text.count("\n") == lines
    }


def _spelt(page: str, label: str) -> str:
    """Return a label as the page spells it."""
    names = (" ".join(name.split()) for name in _LABEL.findall(page))
    return next((name for name in names if name.lower() == label), label)


def _numbered(text: str) -> list[Words]:
    """Return the distinct things of a text written as a word and a number, in order."""
    tokens = words(text)
    pairs = zip(tokens, tokens[1:], strict=False)
    return list(
        dict.fromkeys(
            (a, b) for a, b in pairs if b.isdigit() and not a.isdigit() and a not in FUNCTION_WORDS
        )
    )


def _natural(name: Words) -> tuple[str, int]:
    return name[0], int(name[1])
