"""Texts within a budget of characters: passages that an action or the goal refers to are kept.

Short texts stay whole, long ones share the rest of the room evenly. Within a text, long lines are
cut first: codes and prices are short. If that does not suffice, the least relevant pieces go.

Free arguments of calls are quoted from such texts: `sources` says where from, and what stands
around them there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ldm.reason.pages import content_words, read_call, stem, tokens
from ldm.reason.reading import FUNCTION_WORDS, TEXTS, words
from ldm.types import Past

#: Words compared on either side of a quotation.
CONTEXT = 4
#: Longest quotation, in words.
LONGEST = 12
#: The latest earlier observations in which an argument is searched.
EARLIER = 2
#: Patterns of quotations that are tried.
PATTERNS = 300
#: Places of an argument in one text that are described.
PLACES = 3

_WORD = re.compile(r"\w+(?:['’.-]\w+)*|[^\w\s]")
_START, _END, _NUMBER = "^", "$", "#"
_STOPS = frozenset(".?!;")


#: The words before or after an argument.
Around = tuple[str, ...]


class Quotation(NamedTuple):
    """A pattern of quotations: the call's verb, the text, and the words around the argument.

    length: of the argument in words if only one side is given, otherwise 0.
    """

    verb: str
    source: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    length: int = 0


def sources(goal: str, past: Past, observation: str) -> dict[str, str]:
    """Return the texts of a state that arguments are quoted from, by name."""
    texts = {"goal": goal, "now": observation}
    for number, (before, _) in enumerate(reversed(past[-EARLIER:]), start=1):
        texts[f"earlier {number}"] = before
    return texts


def places(
    argument: str, texts: dict[str, str]
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield (source, words before, words after) of the places of an argument in texts."""
    for name, text in texts.items():
        for before, after in _places(argument, text):
            yield name, before, after


@lru_cache(50_000)
def _places(argument: str, text: str) -> tuple[tuple[Around, Around], ...]:
    sought = [token for token, _, _ in _tokens(argument)]
    if not sought:
        return ()
    tokens, plain, around = [token for token, _, _ in _tokens(text)], _words(text), []
    for start in range(1, len(plain) - len(sought)):
        end = start + len(sought)
        if tokens[start - 1] == sought[0] and tokens[start - 1 : end - 1] == sought:
            around.append((plain[max(0, start - CONTEXT) : start], plain[end : end + CONTEXT]))
            if len(around) == PLACES:
                break
    return tuple(around)


def facts_of(argument: str, texts: dict[str, str]) -> tuple[str, ...]:
    """Return what stands around an argument in each text, "nowhere" if it is in none."""
    facts: dict[str, None] = {}
    for name, before, after in places(argument, texts):
        facts[name] = None
        for distance, word in enumerate(reversed(before), 1):
            facts[f"{name} -{distance} {word}"] = None
        for distance, word in enumerate(after, 1):
            facts[f"{name} +{distance} {word}"] = None
        facts[f"{name} {before[-2:]} @"] = None
        facts[f"{name} @ {after[:2]}"] = None
        facts[f"{name} {before[-1:]} @ {after[:1]}"] = None
    return tuple(facts) or ("nowhere",)


def form_of(argument: str) -> str:
    """Return whether an argument begins with a capital, and whether it has a digit."""
    return f"{argument[:1].isupper()} {any(character.isdigit() for character in argument)}"


def patterns(
    examples: Iterable[tuple[str, str, str, dict[str, str]]], support: int
) -> tuple[tuple[Quotation, ...], tuple[tuple[str, str], ...]]:
    """Return patterns of quotations, and (verb, argument) of arguments that stand in no text.

    examples: (episode, verb, argument, texts).
    """
    quoted: dict[Quotation, set[str]] = defaultdict(set)
    free: dict[tuple[str, str], set[str]] = defaultdict(set)
    for episode, verb, argument, texts in examples:
        where = list(places(argument, texts))
        for source, *around in where:
            before, after = around[0][-2:], around[1][:2]
            size = len(_tokens(argument))
            quoted[Quotation(verb, source, before, after)].add(episode)
            quoted[Quotation(verb, source, before, (), size)].add(episode)
            quoted[Quotation(verb, source, (), after, size)].add(episode)
            quoted[Quotation(verb, source, before[-1:], after[:1])].add(episode)
        if not where:
            free[verb, argument].add(episode)
    many = [(-len(n), one) for one, n in quoted.items() if len(n) >= support]
    chosen = tuple(one for _, one in sorted(many)[:PATTERNS])
    return chosen, tuple(sorted(one for one, n in free.items() if len(n) >= support))


def quoted(known: Iterable[Sequence[Any]], texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (verb, argument) of what stands in texts as patterns say."""
    for one in map(Quotation._make, known):
        if (text := texts.get(one.source)) is not None:
            for argument in _between(text, one):
                yield one.verb, argument


@lru_cache(100_000)
def _between(text: str, one: Quotation) -> tuple[str, ...]:
    """Return the first texts that stand where a pattern says, at most PLACES."""
    before, after, length = one.before, one.after, one.length
    tokens, plain, matches = _tokens(text), _words(text), []
    for start in range(1, len(plain) - 1):
        if tuple(plain[max(0, start - len(before)) : start]) != before:
            continue
        last = start + (length or LONGEST)
        for end in range(start + (length or 1), min(last, len(plain) - 1) + 1):
            if tuple(plain[end : end + len(after)]) == after:
                matches.append(text[tokens[start - 1][1] : tokens[end - 2][2]])
                break
            if plain[end - 1] in _STOPS:
                break  # no quotation continues across the end of a sentence
        if len(matches) == PLACES:
            break
    return tuple(matches)


@lru_cache(TEXTS)
def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text between marks for its ends; all numbers are the same word."""
    inner = (_NUMBER if token[0].isdigit() else token for token, _, _ in _tokens(text))
    return (_START, *inner, _END)


@lru_cache(TEXTS)
def _tokens(text: str) -> tuple[tuple[str, int, int], ...]:
    return tuple((m.group().lower(), m.start(), m.end()) for m in _WORD.finditer(text))


#: Minimum characters of a token on average: product codes and numbers are cut small.
TOKEN = 3
#: Characters below which a line is not cut while there are pieces to leave out.
LINE = 48
#: Minimum lines of a page, whose parts are lines and not sentences.
PAGE = 4
GAP = "[…]"
#: Characters of the gaps before and after a piece.
MARKS = 2 * len(GAP) + 3

#: Long lines are divided after commas, semicolons and ends of sentences.
_PIECE = re.compile(r"(?<=[,;.!?])\s+")
#: A thing as a word and a number: "drawer 3".
_NUMBERED = re.compile(r"[^\W\d_]+ \d+")
#: A line that is a label and nothing else; the lines below belong to it: a title, a price.
_LABEL = re.compile(r"\[[^\[\]]+\]")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to be shown. action: the next one, whose names in the text must remain."""

    text: str
    action: str = ""


class Piece(NamedTuple):
    """A part of a text, kept or dropped as a whole: lines, or a part of line number `line`."""

    text: str
    line: int


def characters(tokens: int) -> int:
    """Return the minimum number of characters of so many tokens."""
    return tokens * TOKEN


def level(lengths: Sequence[int], room: int) -> int:
    """Return the maximum characters of each text so that all fit `room`."""
    left, count = max(0, room), len(lengths)
    for length in sorted(lengths):
        if length * count > left:
            return left // count
        left -= length
        count -= 1
    return max(lengths, default=0)


def fitted(passages: Sequence[Passage], room: int, goal: str) -> list[str]:
    """Return the texts of passages within `room` characters altogether."""
    most = level([len(one.text) for one in passages], room)
    return [excerpt(one.text, most, one.action, goal) for one in passages]


def excerpt(text: str, room: int, action: str = "", goal: str = "") -> str:
    """Return `text`, or its most relevant parts within `room` characters.

    action: the next one; the parts that it refers to have priority. goal: parts with its words come
    next.
    """
    if len(text) <= room:
        return text
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    most = level([len(line) for line in lines], room - len(lines))
    if len(lines) > 1 and most >= LINE:
        return "\n".join(_cut(line, most) for line in lines)
    if len(lines) < PAGE:
        pieces = [
            Piece(_cut(part, room - MARKS), number)
            for number, line in enumerate(lines)
            for part in _PIECE.split(line)
        ]
    else:
        pieces = [
            Piece("\n".join(_cut(line, LINE) for line in group), number)
            for number, group in enumerate(_groups(lines))
        ]
    return _joined(pieces, _chosen(pieces, room, action, goal))


def without_goal(opening: str, goal: str) -> str:
    """Return the opening without the lines that tell the goal, and without empty ones."""
    task = goal.casefold().rstrip(". ")
    lines = [line for line in opening.splitlines() if task not in line.casefold()]
    return "\n".join(line for line in lines if line.strip())


def referents(action: str) -> frozenset[str]:
    """Return the names that an action refers to, in lower case: a label, numbered things, or words.

    A label or thing is one name of several words; other actions have one name for each content word
    after the verb.
    """
    if call := read_call(action):
        return frozenset({call.label})
    rest = action.partition(" ")[2]
    numbered = _NUMBERED.findall(rest.lower())
    things = frozenset(x for x in numbered if x.partition(" ")[0] not in FUNCTION_WORDS)
    return things or frozenset(w for w in words(rest) if w not in FUNCTION_WORDS and w.isalpha())


def _groups(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of a page in groups: a line that is a label, with those after it."""
    groups: list[list[str]] = []
    open_group = False
    for line in lines:
        alone = _LABEL.fullmatch(line) is not None
        if alone or "[" in line or not open_group:
            groups.append([line])
            open_group = alone
        else:
            groups[-1].append(line)
    return groups


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(0, length - 1)].rstrip(" ;,") + "…"


def _chosen(pieces: Sequence[Piece], room: int, action: str, goal: str) -> list[int]:
    """Return the places of the pieces that stay, in their order."""
    names, goal_words = referents(action), content_words(goal)

    def rank(place: int) -> tuple[int, int, int]:
        text = pieces[place].text
        if _names(text, names):
            return 0, 0, place
        return (1, 0, place) if place == 0 else (2, -len(goal_words & content_words(text)), place)

    left, chosen = room - len(GAP) - 1, []
    for place in sorted(range(len(pieces)), key=rank):
        cost = len(pieces[place].text) + len(GAP) + 2
        if cost <= left:
            chosen.append(place)
            left -= cost
    return sorted(chosen)


def _names(text: str, names: frozenset[str]) -> bool:
    padded = f" {' '.join(stem(word) for word in tokens(text))} "
    return any(f" {' '.join(stem(w) for w in tokens(name))} " in padded for name in names if name)


def _joined(pieces: Sequence[Piece], places: Sequence[int]) -> str:
    """Return the pieces at `places` with their line breaks, and marks for the others."""
    parts: list[str] = []
    before = -1
    for place in places:
        same_line = parts and pieces[place].line == pieces[before].line
        parts.append(" " if same_line else "\n" if parts else "")
        parts.append(f"{GAP} " if place != before + 1 else "")
        parts.append(pieces[place].text)
        before = place
    if before != len(pieces) - 1:
        parts.append(f" {GAP}" if parts else GAP)
    return "".join(parts)
