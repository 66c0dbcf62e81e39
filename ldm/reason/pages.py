"""Pages with labels, read without a model: commands of the form verb[label] press what they name.

A label on a page is *wanted* (the goal names it: a colour, a size), *described* (the lines below it
tell how well it fits the goal: a thing in a list), or *fixed* (a part of the page: a button). An
argument of a command that is no label of the page was *made up*.

No word of any environment is known here, only the form of commands and English function words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Literal

from ldm.reason.reading import FUNCTION_WORDS, TEXTS
from ldm.types import Past

Sort = Literal["wanted", "described", "fixed", "made up"]

#: A label counts as named by the goal from this share of its words on.
WANTED = 0.75
#: The value of a label whose words stand apart in the goal; 1 if they stand together.
SCATTERED = 0.5
#: Places in a list from which on labels are told apart.
RANKS = (1, 2, 3, 5)

_CALL = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.DOTALL)
_LABEL = re.compile(r"\[+([^\[\]\n]+)\]+")
_TOKEN = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*")
_AMOUNT = re.compile(r"[$€£]\s?(\d+(?:[.,]\d+)*)")
_BOUND = re.compile(
    r"\b(?:lower|less|under|below|cheaper|within|most|up to)\b(?: than)? [$€£]?(\d+(?:\.\d+)?)"
)


@dataclass(frozen=True, slots=True)
class Call:
    """A command verb[argument]. label: the argument in lower case."""

    text: str
    verb: str
    label: str
    argument: str


@lru_cache(50_000)
def read_call(action: str) -> Call | None:
    """Return an action as a call, or None if it does not have the form verb[label]."""
    match = _CALL.fullmatch(action)
    return Call(action, match[1].lower(), _plain(match[2]), match[2]) if match else None


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


@lru_cache(50_000)
def tokens(text: str) -> tuple[str, ...]:
    """Return the words and numbers of `text` in lower case; "40.00" and "x-large" are one each."""
    return tuple(_TOKEN.findall(text.lower()))


def stem(word: str) -> str:
    """Return `word` without a plural's s."""
    return word[:-1] if word.endswith("s") and len(word) > 3 and not word.endswith("ss") else word


@lru_cache(50_000)
def content_words(text: str) -> frozenset[str]:
    """Return the stems of the content words of `text`."""
    return frozenset(stem(word) for word in tokens(text) if word not in FUNCTION_WORDS)


@lru_cache(TEXTS)
def labels_of(observation: str) -> tuple[str, ...]:
    """Return the labels of a page in their order, each once."""
    return tuple(dict.fromkeys(_plain(label) for label in _LABEL.findall(observation)))


@lru_cache(TEXTS)
def has_lines_of_labels(observation: str) -> bool:
    """Return whether a label stands alone on a line, as on a page but not in prose."""
    return any(_LABEL.fullmatch(line.strip()) for line in observation.splitlines())


@lru_cache(TEXTS)
def lines_of_labels(observation: str) -> Mapping[str, tuple[str, ...]]:
    """Map each label to the labels of its line."""
    by_label: dict[str, tuple[str, ...]] = {}
    for line in observation.splitlines():
        labels = tuple(map(_plain, _LABEL.findall(line)))
        for label in labels:
            by_label.setdefault(label, labels)
    return by_label


@lru_cache(TEXTS)
def descriptions(observation: str) -> Mapping[str, str]:
    """Map each label that stands alone on a line, with text below, to the lines below it."""
    texts: dict[str, str] = {}
    label = ""
    for line in observation.splitlines():
        alone = _LABEL.fullmatch(line.strip())
        if alone:
            label = _plain(alone[1])
        elif label and line.strip():
            # The line right below may hold brackets of its own; further down they are labels.
            if label in texts and _LABEL.search(line):
                label = ""
            else:
                texts[label] = f"{texts[label]}\n{line}" if label in texts else line
    return texts


@lru_cache(TEXTS)
def _fits(goal: str, observation: str) -> Mapping[str, float]:
    """Map each described label to the fit of its description with the goal, in [0, 1].

    A word counts more, the fewer descriptions have it.
    """
    goal_words = content_words(goal)
    texts = descriptions(observation)
    if not texts:
        return {}
    shared = {label: goal_words & content_words(text) for label, text in texts.items()}
    spread = Counter(word for words in shared.values() for word in words)
    weights = {word: math.log(1 + len(texts) / count) for word, count in spread.items()}
    total = math.fsum(weights[word] for word in sorted(weights)) or 1.0
    return {
        label: math.fsum(weights[word] for word in sorted(words)) / total
        for label, words in shared.items()
    }


def _price_bound(goal: str) -> float:
    """Return the lowest price bound in the goal, infinity without one."""
    return min((float(number) for number in _BOUND.findall(goal.lower())), default=math.inf)


def _least_amount(text: str) -> float:
    """Return the smallest amount of money in `text`, or 0."""
    return min((float(n.replace(",", "")) for n in _AMOUNT.findall(text)), default=0.0)


@lru_cache(50_000)
def named_share(label: str, goal: str) -> float:
    """Return the share of a label that the goal names: 1 if its words stand together there."""
    label_stems = tuple(stem(word) for word in tokens(label))
    goal_stems = tuple(stem(word) for word in tokens(goal))
    if not label_stems:
        return 0.0
    if _contains(goal_stems, label_stems):
        return 1.0
    words = content_words(label)
    return SCATTERED * len(words & content_words(goal)) / len(words) if words else 0.0


@lru_cache(TEXTS)
def named_labels(observation: str, goal: str) -> Mapping[str, float]:
    """Map each label of a page to the share of its words that the goal names.

    A label that is part of a longer one counts less: "4" is not meant if the goal says "4 inch" and
    both are on the page.
    """
    shares = {label: named_share(label, goal) for label in labels_of(observation)}
    complete = [tokens(label) for label, share in shares.items() if share == 1.0]
    return {
        label: share * (SCATTERED if _is_part(tokens(label), complete) else 1.0)
        for label, share in shares.items()
    }


def _is_part(words: tuple[str, ...], others: list[tuple[str, ...]]) -> bool:
    return any(len(words) < len(other) and _contains(other, words) for other in others)


def _contains(words: tuple[str, ...], part: tuple[str, ...]) -> bool:
    """Return whether the words of `part` stand together, in order, in `words`."""
    return any(words[i : i + len(part)] == part for i in range(len(words) - len(part) + 1))


class Page:
    """A state with its past, read once: its labels, the calls done, and the labels still open."""

    def __init__(
        self, goal: str, past: Past, observation: str, fixed: frozenset[str] = frozenset()
    ) -> None:
        """Read a state.

        past: the pairs (observation, action) before the present `observation`. fixed: labels known
        to be fixed.
        """
        self.goal, self.fixed = goal, fixed
        # An observation without labels leaves the page as it was.
        self._pages: list[str] = []
        for text in (*(before for before, _ in past), observation):
            self._pages.append(text if labels_of(text) or not self._pages else self._pages[-1])
        self.observation = self._pages[-1]
        self.labels = labels_of(self.observation)
        self.past = [call for _, action in past if (call := read_call(action))]
        self._calls = [(i, call) for i, (_, a) in enumerate(past) if (call := read_call(a))]

    def named_share(self, label: str) -> float:
        """Return the share of a label that the goal names, in [0, 1]."""
        return named_labels(self.observation, self.goal).get(label, 0.0)

    def beside(self, label: str) -> tuple[str, ...]:
        """Return the other labels on the line of a label."""
        return tuple(x for x in lines_of_labels(self.observation).get(label, ()) if x != label)

    @cached_property
    def offers(self) -> Mapping[str, tuple[str, ...]]:
        """Map the described labels to facts on how well each fits, and on its place in the list.

        A fit is told as a share of the best one not pressed yet, of those within the goal's bound.
        Each fact includes the lower ones, so that a list may be longer than all recorded ones.
        """
        fits = _fits(self.goal, self.observation)
        pressed = {call.label for call in self.past}
        over = {
            x: _least_amount(y) > _price_bound(self.goal)
            for x, y in descriptions(self.observation).items()
        }
        left = [x for x in fits if x not in pressed and not over[x]] or list(fits)
        best = max((fits[x] for x in left), default=0.0) or 1.0
        return {
            label: (
                f"over {over[label]}",
                *(f"fit >= {n}" for n in range(1, 11) if 10 * fit >= n * best - 1e-9),
                *(f"rank >= {n}" for n in RANKS if rank >= n),
            )
            for rank, (label, fit) in enumerate(fits.items())
        }

    def sort(self, label: str, step: int = -1) -> Sort:
        """Return the sort of a label on this page, or on that of a step."""
        page = self._pages[step]
        if label not in labels_of(page):
            return "made up" if label not in self.fixed else "fixed"
        # A size may be on every page: a label named by the goal is wanted all the same.
        if named_labels(page, self.goal)[label] >= WANTED:
            return "wanted"
        return "described" if label in descriptions(page) and label not in self.fixed else "fixed"

    def _latest(self) -> Iterator[tuple[int, Call, Sort]]:
        """Return the calls since something of a list was chosen or entered, the latest first."""
        calls = ((i, x, self.sort(x.label, i)) for i, x in reversed(self._calls))
        return takewhile(lambda one: one[2] not in ("described", "made up"), calls)

    @cached_property
    def chosen(self) -> frozenset[str]:
        """The labels of the page whose pressing, see `since`, left them on the next page."""
        pressed = ((i, call.label) for i, call, _ in self._latest())
        stayed = frozenset(x for i, x in pressed if x in labels_of(self._pages[i + 1]))
        return stayed.intersection(self.labels)

    @cached_property
    def open(self) -> int:
        """The number of wanted labels not chosen yet, at most 2."""
        labels = (x for x in self.labels if x not in self.chosen)
        return min(2, sum(self.sort(x) == "wanted" for x in labels))

    @cached_property
    def since(self) -> tuple[list[tuple[str, str]], list[str]]:
        """The calls since something of a list was chosen or entered, and their pages.

        Each call is (verb, sort or fixed label).
        """
        calls, pages = list[tuple[str, str]](), [self.observation]
        for i, call, sort in self._latest():
            calls.append((call.verb, call.label if sort == "fixed" else sort))
            pages.append(self._pages[i])
        return calls, pages

    @cached_property
    def done(self) -> frozenset[tuple[str, str, int]]:
        """The calls since the last made-up argument.

        Each item is (verb, sort or fixed label, count up to 2).
        """
        counts: Counter[tuple[str, str]] = Counter()
        for i, call in self._calls:
            sort = self.sort(call.label, i)
            if sort == "made up":
                counts.clear()
            counts[call.verb, call.label if sort == "fixed" else sort] += 1
        return frozenset((*event, min(2, count)) for event, count in counts.items())


#: How often a word was taken counts as if it had been so often one of those that occur once.
ALIKE = 5
#: Numbers of times that a label was pressed before, which are told apart.
PRESSED = (1, 2, 3)
#: Numbers of the goal's words that are missing on the pages shown, which are told apart.
MISSING = (0, 1, 2, 3)
#: A word of the goal matters if recorded arguments took it so often.
MATTERS = 0.2


def page_facts(page: Page, matters: frozenset[str]) -> tuple[str, ...]:
    """Return facts on the fixed labels of a page, on what was done, and on what is left to do.

    matters: the words of the goal that matter.
    """
    left, (calls, pages) = f"left {page.open}", page.since
    done = [f"did {verb} {sort} {count}" for verb, sort, count in sorted(page.done)]
    here = [f"here {call} {min(n, 2)}" for call, n in sorted(Counter(calls).items())]
    present = [f"has {label}" for label in page.labels if label in page.fixed]
    missing = len(matters.difference(*map(content_words, pages)))
    last = f"last {calls[0] if calls else None}"
    facts = [f"missing {missing > n} {n}" for n in MISSING]
    pairs = [f"{one} {fact}" for one in (left, last) for fact in facts]
    more = [f"{left} {one}" for one in (*done, *here, last)]
    return (left, last, *present, *done, *here, *facts, *pairs, *more)


def phase_of(page: Page) -> tuple[str, str]:
    """Return the calls since an argument was made up, and since something of a list was chosen."""
    done = ";".join(f"{verb} {sort} x{count}" for verb, sort, count in sorted(page.done))
    return done, ";".join(f"{call} x{n}" for call, n in sorted(Counter(page.since[0]).items()))


def label_facts(page: Page, label: str) -> tuple[str, tuple[str, ...]]:
    """Return the part that a label plays on a page, and how it compares with the other labels.

    The part is its sort, or the label itself if it is a fixed one of many pages.
    """
    sort, chosen = page.sort(label), page.chosen
    pressed = sum(call.label == label for call in page.past)
    facts = [*(f"pressed >= {n}" for n in PRESSED if pressed >= n), f"chosen {label in chosen}"]
    named, beside = page.named_share(label), page.beside(label)
    if sort == "wanted":
        facts.append(f"named {int(4 * named)}")
    if sort in ("wanted", "fixed") and beside:
        best = max(map(page.named_share, beside))
        rank = "best" if named > best else "tied" if named == best else "worse"
        facts += [f"beside {rank}", f"beside chosen {any(x in chosen for x in beside)}"]
    if sort == "described":
        facts += page.offers.get(label, ())
    part = label if sort == "fixed" and label in page.fixed else sort
    return part, tuple(f"{sort} {fact}" for fact in facts)


def words_taken(examples: Iterable[tuple[str, str]]) -> tuple[tuple[str, float], ...]:
    """Return how often arguments of calls took each word of their goals; "" is for unknown words.

    What was taken for few goals is judged by words that occur once, too: shares of two or three are
    chance, and a search without the goal's colour misses the product.

    examples: (goal, argument) pairs.
    """
    occurrences: Counter[str] = Counter()
    included: Counter[str] = Counter()
    for goal, argument in examples:
        mine = {stem(word) for word in tokens(argument)}
        for key, word in _keyed(goal):
            occurrences[key] += 1
            included[key] += stem(word) in mine
    rare = [key for key, n in occurrences.items() if n == 1]
    usual = sum(included[key] for key in rare) / len(rare) if rare else 1.0
    shares = {
        key: (included[key] + ALIKE * usual) / (n + ALIKE) if n == 1 or included[key] else 0.0
        for key, n in occurrences.items()
    }
    return tuple(sorted({**shares, "": usual}.items()))


def composed(goal: str, shares: Mapping[str, float], least: float = 0.5) -> str:
    """Return an argument of the goal's words that recorded arguments took so often at least."""

    def belongs(key: str, word: str) -> bool:
        if key in shares:
            return shares[key] >= least
        return shares.get("", 1.0) >= least and word not in FUNCTION_WORDS

    return " ".join(dict.fromkeys(word for key, word in _keyed(goal) if belongs(key, word)))


def _keyed(goal: str) -> list[tuple[str, str]]:
    """Return (key, word) of a goal's words; a number is judged by the word before it."""
    goal_tokens = tokens(goal)
    return [
        (f"# after {before}" if word[0].isdigit() else stem(word), word)
        for before, word in zip(("", *goal_tokens), goal_tokens, strict=False)
    ]
