"""Votes for commands verb[argument] whose arguments are free: quoted from what was read.

The argument of a recalled command is searched in the texts known at that time: the goal, the
present observation, earlier ones. The words around it are searched in the same text of the present
state, and the words between them are the argument now: as "directed by Ada Ray." had led to
search[Ada Ray], "directed by Bo Lind." leads to search[Bo Lind]. An argument found in no text
("yes") stays as it is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ldm.reason.pages import read_call
from ldm.reason.voting import Ballot, Likeness, Poll
from ldm.types import Past, StateActionTuple

#: Words compared on either side of a quotation.
CONTEXT = 4
#: Longest quotation, in words.
LONGEST = 12
#: Words that have to fit on one side if none fits on the other.
ONE_SIDE = 2
#: The number of latest earlier observations in which an argument is searched.
EARLIER = 2

_WORD = re.compile(r"\w+(?:['’.-]\w+)*|[^\w\s]")
_START, _END, _NUMBER = "^", "$", "#"
_STOPS = frozenset(".?!;")


@dataclass(frozen=True, slots=True)
class QuoteWeights:
    """The cost of each difference, chosen on training questions, not on evaluated ones.

    `text`, `goal`, `scene` and `done` are the rates at which a recall's weight falls with the
    distance of its text, of the goal's plain words, of the observation's and of the commands done.
    `repeat` multiplies votes for commands done before, `lone` those for an argument that is in no
    text and no other recall, and `shape` those for a quotation of another form (a number for a
    name).
    """

    text: float = 12.0
    goal: float = 12.0
    scene: float = 3.0
    done: float = 4.0
    repeat: float = 0.1
    lone: float = 0.1
    shape: float = 0.3


class Token(NamedTuple):
    """A word or a mark of a text. word: in lower case. start, end: its characters."""

    word: str
    start: int
    end: int


class Quotation(NamedTuple):
    """A place of an argument: the text, the length in words, and the words around it."""

    text: str
    length: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A state or a recalled situation, read once.

    texts: name of a text → the text; the same names stand for the same texts in all states.
    done: the commands so far. verbs: the counts of their verbs.
    """

    texts: dict[str, str]
    goal_words: frozenset[str]
    seen_words: frozenset[str]
    done: Counter[str]
    verbs: Counter[str]


@dataclass(frozen=True, slots=True)
class QuotePrecedent:
    """A recalled situation, the command given in it, and the similarity of its text.

    quotations: the places of its argument. voice: see `ldm.reason.voting.voice_of`.
    """

    reading: Reading
    verb: str
    argument: str
    quotations: tuple[Quotation, ...]
    similarity: float
    voice: float = 1.0


def read(goal: str, past: Past, observation: str) -> Reading:
    """Read a state; past: the pairs (observation, action) before the present `observation`."""
    texts = {"goal": goal, "now": observation}
    for number, (before, _) in enumerate(reversed(past[-EARLIER:]), start=1):
        texts[f"earlier {number}"] = before
    actions = [action for _, action in past]
    verbs = Counter(call.verb for action in actions if (call := read_call(action)))
    return Reading(texts, _plain_words(goal), _plain_words(observation), Counter(actions), verbs)


def read_precedent(source: StateActionTuple, voice: float) -> QuotePrecedent:
    """Read a recalled tuple, whose action is a command verb[argument]; its similarity is 0."""
    reading = read(source.goal, source.history.past, source.observation)
    call = read_call(source.action)
    assert call is not None  # noqa: S101 - checked by the caller
    quotations = tuple(_quotations(call.argument, reading))
    return QuotePrecedent(reading, call.verb, call.argument, quotations, 0.0, voice)


def poll(present: Reading, precedents: Sequence[QuotePrecedent], weights: QuoteWeights) -> Poll:
    """Let the precedents vote; no two candidates are grouped."""
    if not precedents:
        return Poll((), (), ())
    shared = Counter((p.verb, p.argument.lower()) for p in precedents)
    closest = max(p.similarity for p in precedents)
    votes = []
    for precedent in precedents:
        arguments = _carried_over(precedent, present, weights)
        if not precedent.quotations:
            alone = shared[precedent.verb, precedent.argument.lower()] == 1
            arguments = {precedent.argument: weights.lone if alone else 1.0}
        likeness: dict[str, float] = {}
        for argument, like in arguments.items():
            action = f"{precedent.verb}[{argument}]"
            extra = max(0, present.done[action] - precedent.reading.done[_command(precedent)])
            likeness[action] = like * weights.repeat**extra
        votes.append((_weight(precedent, present, closest, weights), likeness))
    texts = tuple(dict.fromkeys(action for _, likeness in votes for action in likeness))
    ballots = tuple(
        Ballot(weight, Likeness.of((i, likeness.get(text, 0.0)) for i, text in enumerate(texts)))
        for weight, likeness in votes
    )
    return Poll(texts, tuple(range(len(texts))), ballots)


def _command(precedent: QuotePrecedent) -> str:
    return f"{precedent.verb}[{precedent.argument}]"


def _weight(
    precedent: QuotePrecedent, present: Reading, closest: float, weights: QuoteWeights
) -> float:
    theirs = precedent.reading
    distance = (
        weights.text * (closest - precedent.similarity)
        + weights.goal * _difference(theirs.goal_words, present.goal_words)
        + weights.scene * _difference(theirs.seen_words, present.seen_words)
        + weights.done * _apart(theirs.verbs, present.verbs)
    )
    return precedent.voice * math.exp(-distance)


def _difference(theirs: frozenset[str], mine: frozenset[str]) -> float:
    """Return the share of words that only one of two texts has, in [0, 1]."""
    union = len(theirs | mine)
    return 1 - len(theirs & mine) / union if union else 0.0


def _apart(theirs: Counter[str], mine: Counter[str]) -> float:
    """Return the distance of two counts of verbs, 0 for equal ones."""
    differences = sum(abs(theirs[verb] - mine[verb]) for verb in theirs.keys() | mine.keys())
    return differences / max(1, theirs.total(), mine.total())


def _carried_over(
    precedent: QuotePrecedent, present: Reading, weights: QuoteWeights
) -> dict[str, float]:
    """Return the present counterparts of the recalled argument with their similarity, in [0, 1]."""
    arguments: dict[str, float] = {}
    for quotation in precedent.quotations:
        text = present.texts.get(quotation.text)
        if text is None:
            continue
        argument, like = _between(text, quotation)
        if _shape(argument) != _shape(precedent.argument):
            like *= weights.shape
        if like > arguments.get(argument, 0.0):
            arguments[argument] = like
    return arguments


@lru_cache(maxsize=50_000)
def _between(text: str, quotation: Quotation) -> tuple[str, float]:
    """Return the text between the words around a quotation, and the share of them that was found.

    If the words of one side are missing, take as many words beside the other side as the quotation
    had. Return ("", 0) if nothing fits.
    """
    tokens = _tokens(text)
    words = _words(tokens)
    befores = [_common(reversed(words[:i]), reversed(quotation.before)) for i in range(len(words))]
    afters = [_common(iter(words[i:]), iter(quotation.after)) for i in range(len(words) + 1)]
    best = (0, 0, 0)  # words around, fewest words between, first place
    span = (0, 0)
    for start in range(1, len(words) - 1):
        for end in range(start + 1, min(start + LONGEST, len(words) - 1) + 1):
            before, after = befores[start], afters[end]
            both = before and after
            if both or (end - start == quotation.length and max(before, after) >= ONE_SIDE):
                rank = (before + after, start - end, -start)
                if rank > best or best == (0, 0, 0):
                    best, span = rank, (start, end)
            if words[end - 1] in _STOPS:
                break  # no quotation continues across the end of a sentence
    if not best[0]:
        return "", 0.0
    argument = text[tokens[span[0] - 1].start : tokens[span[1] - 2].end]
    return argument, best[0] / (len(quotation.before) + len(quotation.after))


def _common(words: Iterator[str], context: Iterator[str]) -> int:
    """Return the length of the common beginning."""
    count = 0
    for word, expected in zip(words, context, strict=False):
        if word != expected:
            break
        count += 1
    return count


def _quotations(argument: str, reading: Reading) -> Iterator[Quotation]:
    """Yield the places of an argument in all texts, the first one in each."""
    sought = [token.word for token in _tokens(argument)]
    if not sought:
        return
    for name, text in reading.texts.items():
        tokens = _tokens(text)
        words = _words(tokens)
        for start in range(1, len(words) - len(sought)):
            end = start + len(sought)
            if [token.word for token in tokens[start - 1 : end - 1]] == sought:
                before = tuple(words[max(0, start - CONTEXT) : start])
                yield Quotation(name, len(sought), before, tuple(words[end : end + CONTEXT]))
                break


def _words(tokens: Sequence[Token]) -> list[str]:
    """Return the words of a text between marks for its ends; all numbers are the same word."""
    inner = (_NUMBER if token.word[0].isdigit() else token.word for token in tokens)
    return [_START, *inner, _END]


@lru_cache(maxsize=50_000)
def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(Token(m.group().lower(), m.start(), m.end()) for m in _WORD.finditer(text))


@lru_cache(maxsize=50_000)
def _plain_words(text: str) -> frozenset[str]:
    """Return the words of `text` that are not names: lower-case words and marks."""
    return frozenset(m.group() for m in _WORD.finditer(text) if not m.group()[0].isupper()
                     and not m.group()[0].isdigit())  # fmt: skip


def _shape(argument: str) -> tuple[bool, bool]:
    """Return whether an argument begins with a capital, and whether it has a digit."""
    return argument[:1].isupper(), any(character.isdigit() for character in argument)
