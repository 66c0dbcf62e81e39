"""Free arguments of calls: where they are quoted from, and what stands around them there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

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


@lru_cache(20_000)
def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text between marks for its ends; all numbers are the same word."""
    inner = (_NUMBER if token[0].isdigit() else token for token, _, _ in _tokens(text))
    return (_START, *inner, _END)


@lru_cache(20_000)
def _tokens(text: str) -> tuple[tuple[str, int, int], ...]:
    return tuple((m.group().lower(), m.start(), m.end()) for m in _WORD.finditer(text))
