"""Imitation on pages: commands of the form verb[label], where one presses what one reads.

A label is of one of three sorts: it is *wanted* (the goal names it: a colour, a size), *described*
(the lines below it tell how well it fits the goal: a thing in a list), or *fixed* (a part of the
page: a button). A recalled press of a fixed label stands for the same label; one of a wanted or
described label, for the present label that fits best. An argument that is no label was made up from
the goal's words: it is made up anew, from the words that were kept in the recalled ones.

No word of any environment is known here, only the form of commands and English function words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from ldm.reasoner.situation import FUNCTION_WORDS
from ldm.reasoner.voting import Ballot, Poll
from ldm.types import Past

Sort = Literal["wanted", "described", "fixed", "made up"]

#: From this share of its words on, a label counts as named by the goal.
WANTED = 0.75
#: What a label whose words stand apart in the goal is worth, of one whose words stand together.
SCATTERED = 0.5
#: In this share of the recalled pages, a label is a part of the page.
FIXED = 0.5
#: How much the fit of a description may count against its place in the list.
FITS = (8.0, 2.0, 4.0, 16.0)
#: Places in a list from here on are taken together.
LAST_RANK = 9
#: How often a word must have been seen in recalled goals before its fate counts for itself.
SEEN = 2

_CALL = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.DOTALL)
_LABEL = re.compile(r"\[+([^\[\]\n]+)\]+")
_TOKEN = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*")
_AMOUNT = re.compile(r"[$€£]\s?(\d+(?:[.,]\d+)*)")
_BOUND = re.compile(
    r"\b(?:lower|less|under|below|cheaper|within|most|up to)\b(?: than)? [$€£]?(\d+(?:\.\d+)?)"
)


@dataclass(frozen=True, slots=True)
class PageWeights:
    """How fast a recall's voice falls with the distance of its text, of what was done and of what
    is still open; and what each difference of the labels costs. Chosen on training goals.
    """

    text: float = 1.0
    done: float = 6.0
    open: float = 4.0
    named: float = 12.0
    unlike: float = 0.01
    repeat: float = 0.1
    dear: float = 0.3


@dataclass(frozen=True, slots=True)
class Call:
    """A command verb[label]; the label in lower case."""

    text: str
    verb: str
    label: str


@lru_cache(maxsize=50_000)
def read_call(action: str) -> Call | None:
    """`action` as a call; None where it is no such command."""
    found = _CALL.fullmatch(action)
    return Call(action, found[1].lower(), _plain(found[2])) if found else None


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


@lru_cache(maxsize=50_000)
def tokens(text: str) -> tuple[str, ...]:
    """The words and numbers of `text` in lower case; "40.00" and "x-large" are one each."""
    return tuple(_TOKEN.findall(text.lower()))


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 and not word.endswith("ss") else word


@lru_cache(maxsize=50_000)
def content(text: str) -> frozenset[str]:
    """The words of `text` that mean something by themselves, without a plural's s."""
    return frozenset(_stem(word) for word in tokens(text) if word not in FUNCTION_WORDS)


@lru_cache(maxsize=20_000)
def labels_of(observation: str) -> tuple[str, ...]:
    """The labels of a page in their order, each once."""
    return tuple(dict.fromkeys(_plain(found) for found in _LABEL.findall(observation)))


@lru_cache(maxsize=20_000)
def descriptions(observation: str) -> Mapping[str, str]:
    """Label → the lines below it, for labels that stand alone on a line with text below."""
    found: dict[str, str] = {}
    label = ""
    for line in observation.splitlines():
        alone = _LABEL.fullmatch(line.strip())
        if alone:
            label = _plain(alone[1])
        elif label and line.strip():
            # The line right below may hold brackets of its own; further down they are labels.
            if label in found and _LABEL.search(line):
                label = ""
            else:
                found[label] = f"{found[label]}\n{line}" if label in found else line
    return found


@lru_cache(maxsize=20_000)
def _ranks(observation: str) -> Mapping[str, int]:
    told = descriptions(observation)
    return {label: min(rank, LAST_RANK) for rank, label in enumerate(told)}


@lru_cache(maxsize=20_000)
def _fits(goal: str, observation: str, dear: float) -> Mapping[str, float]:
    """Described label → how well its description fits the goal, in [0, 1], against the others'.

    A word counts the more, the fewer descriptions have it. An amount of money beyond a bound that
    the goal states makes it fit less.
    """
    wanted = content(goal)
    told = descriptions(observation)
    if not told:
        return {}
    shared = {label: wanted & content(text) for label, text in told.items()}
    spread = Counter(word for words in shared.values() for word in words)
    weights = {word: math.log(1 + len(told) / count) for word, count in spread.items()}
    total = math.fsum(weights[word] for word in sorted(weights)) or 1.0
    bound = _bound(goal)
    fits = {}
    for label, words in shared.items():
        fit = math.fsum(weights[word] for word in sorted(words)) / total
        fits[label] = fit * (dear if _least_amount(told[label]) > bound else 1.0)
    return fits


def _bound(goal: str) -> float:
    found = [float(number) for number in _BOUND.findall(goal.lower())]
    return min(found, default=math.inf)


def _least_amount(text: str) -> float:
    """The smallest amount of money in `text`; 0 where there is none."""
    return min((float(n.replace(",", "")) for n in _AMOUNT.findall(text)), default=0.0)


@lru_cache(maxsize=50_000)
def named(label: str, goal: str) -> float:
    """How much of a label the goal names, in [0, 1]: all of it where its words stand together."""
    words = [_stem(word) for word in tokens(label)]
    told = [_stem(word) for word in tokens(goal)]
    if not words:
        return 0.0
    if any(told[i : i + len(words)] == words for i in range(len(told) - len(words) + 1)):
        return 1.0
    meant = content(label)
    return SCATTERED * len(meant & content(goal)) / len(meant) if meant else 0.0


@lru_cache(maxsize=20_000)
def wanted_on(observation: str, goal: str) -> Mapping[str, float]:
    """Label of a page → how much of it the goal names; what a longer such label holds counts less.

    So "4" is not meant where the goal says "4 inch" and both are on the page.
    """
    shares = {label: named(label, goal) for label in labels_of(observation)}
    whole = [tokens(label) for label, share in shares.items() if share == 1.0]
    return {
        label: share * (SCATTERED if any(_within(tokens(label), other) for other in whole) else 1.0)
        for label, share in shares.items()
    }


def _within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    return len(part) < len(whole) and any(
        whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1)
    )


class Page:
    """A state with its past, read once: its labels, what was done, and what is still open."""

    def __init__(self, goal: str, past: Past, observation: str) -> None:
        self.goal = goal
        # An answer that shows no label leaves the page as it was.
        self._seen: list[str] = []
        for text in (*(seen for seen, _ in past), observation):
            self._seen.append(text if labels_of(text) or not self._seen else self._seen[-1])
        self.observation = self._seen[-1]
        self.labels = labels_of(self.observation)
        self.past = [call for _, action in past if (call := read_call(action))]
        self._acted = [(i, call) for i, (_, a) in enumerate(past) if (call := read_call(a))]

    def fit(self, label: str, dear: float) -> float:
        """How well a label's description fits the goal, 0 where it has none."""
        return _fits(self.goal, self.observation, dear).get(label, 0.0)

    def wanted(self, label: str) -> float:
        """How much of a label the goal names."""
        return wanted_on(self.observation, self.goal).get(label, 0.0)

    def rank(self, label: str) -> int:
        """The place of a described label among those of the page, from 0."""
        return _ranks(self.observation).get(label, LAST_RANK)

    def choice(
        self, label: str, dear: float
    ) -> tuple[tuple[float, int], tuple[tuple[float, int], ...]] | None:
        """(fit, place) of a described label, and of all that had not been pressed yet.

        None where it is no such label.
        """
        fits = _fits(self.goal, self.observation, dear)
        pressed = {call.label for call in self.past} - {label}
        if label not in fits or len(fits) < 2:
            return None
        there = tuple((fits[x], self.rank(x)) for x in fits if x not in pressed)
        return (fits[label], self.rank(label)), there

    def sort(self, label: str, fixed: frozenset[str]) -> Sort:
        """What sort of label it is on this page; `fixed` are the labels known as such."""
        return self._sort_at(-1, label, fixed)

    def _sort_at(self, place: int, label: str, fixed: frozenset[str]) -> Sort:
        seen = self._seen[place]
        if label not in labels_of(seen):
            return "made up" if label not in fixed else "fixed"
        # Sizes may be on every page: what the goal names is meant all the same.
        if wanted_on(seen, self.goal)[label] >= WANTED:
            return "wanted"
        return "described" if label in descriptions(seen) and label not in fixed else "fixed"

    @cached_property
    def chosen(self) -> frozenset[str]:
        """The labels that were pressed and have been on the page ever since."""
        here = frozenset(self.labels)
        found = set()
        for i, call in reversed(self._acted):
            here &= frozenset(labels_of(self._seen[i]))
            if call.label in here:
                found.add(call.label)
        return frozenset(found)

    def open(self, fixed: frozenset[str]) -> int:
        """How many labels that the goal names are not chosen yet; at most 2."""
        left = (x for x in self.labels if x not in self.chosen and self.sort(x, fixed) == "wanted")
        return min(2, sum(1 for _ in left))

    def done(self, fixed: frozenset[str]) -> frozenset[tuple[str, str, int]]:
        """What was done since the last made-up argument: (verb, sort or fixed label, how often)."""
        counts: Counter[tuple[str, str]] = Counter()
        for i, call in self._acted:
            sort = self._sort_at(i, call.label, fixed)
            if sort == "made up":
                counts.clear()
            counts[call.verb, call.label if sort == "fixed" else sort] += 1
        return frozenset((*event, min(2, count)) for event, count in counts.items())


@dataclass(frozen=True, slots=True)
class PagePrecedent:
    """A recalled page with what was pressed on it and the similarity of its text."""

    page: Page
    call: Call
    similarity: float


def poll(
    present: Page,
    admissible: Sequence[str] | None,
    precedents: Sequence[PagePrecedent],
    weights: PageWeights,
) -> Poll:
    """How the precedents vote on what can be pressed or entered; each candidate is its own sort."""
    precedents = [p for p in precedents if p.page.labels]  # else the page was not recorded
    if not precedents:
        return Poll((), (), ())
    fixed = _fixed(precedents)
    candidates = _candidates(present, admissible, precedents)
    sorts = {text: present.sort(call.label, fixed) for text, call in candidates.items()}
    done = Counter((call.verb, call.label) for call in present.past)
    fresh = {text for text, call in candidates.items() if not done[call.verb, call.label]}
    suits = _suits(present, candidates, sorts, _taste(precedents, weights), weights)
    # A thing in a list is as good as the best that is left makes it.
    best = max((suits[t] for t in suits if t in fresh and sorts[t] == "described"), default=1.0)
    ballots = []
    voices = _voices(present, precedents, fixed, weights)
    for precedent, voice in zip(precedents, voices, strict=True):
        pressed = precedent.call
        theirs = precedent.page.sort(pressed.label, fixed)
        repeats = precedent.page.past.count(pressed)
        likeness = [0.0] * len(candidates)
        for i, (text, call) in enumerate(candidates.items()):
            if call.verb != pressed.verb:
                continue
            if theirs != sorts[text] or (theirs == "fixed" and call.label != pressed.label):
                alike = weights.unlike
            else:
                alike = min(1.0, suits[text] / best) if theirs == "described" else suits[text]
            excess = max(0, done[call.verb, call.label] - repeats) + (call.label in present.chosen)
            likeness[i] = alike * weights.repeat**excess
        ballots.append(Ballot(voice, tuple(likeness)))
    return Poll(tuple(candidates), tuple(candidates), tuple(ballots))


def _fixed(precedents: Sequence[PagePrecedent]) -> frozenset[str]:
    """Labels that are a part of the page: on many of the recalled pages, whatever their goals."""
    goals: dict[str, set[str]] = {}
    for precedent in precedents:
        for label in precedent.page.labels:
            goals.setdefault(label, set()).add(precedent.page.goal)
    all_goals = {precedent.page.goal for precedent in precedents}
    need = max(2.0, FIXED * len(all_goals))
    return frozenset(label for label, of in goals.items() if len(of) >= need)


def _suits(
    present: Page,
    candidates: Mapping[str, Call],
    sorts: Mapping[str, Sort],
    taste: _Taste,
    w: PageWeights,
) -> dict[str, float]:
    """Text → how well its label suits the goal, above 0; 1 where that is no question."""
    suits = {}
    for text, call in candidates.items():
        suits[text] = 1.0
        if sorts[text] == "described":
            fit = present.fit(call.label, w.dear)
            suits[text] = math.exp(taste.score(fit, present.rank(call.label)))
        elif sorts[text] == "wanted":
            suits[text] = math.exp(-w.named * (1.0 - present.wanted(call.label)))
    return suits


@dataclass(frozen=True, slots=True)
class _Taste:
    """How recalled choices among described labels were made.

    fit: how much the fit of a description counted. places: the logarithm of how often a place in
    the list was chosen, against the most frequent place.
    """

    fit: float
    places: tuple[float, ...]

    def score(self, fit: float, rank: int) -> float:
        """The logarithm of how likely a label is chosen, but for a constant."""
        return self.fit * fit + self.places[rank]


def _taste(precedents: Sequence[PagePrecedent], w: PageWeights) -> _Taste:
    """The taste that makes the recalled choices most likely, of a few."""
    choices = [found for p in precedents if (found := p.page.choice(p.call.label, w.dear))]
    counts = [1.0] * (LAST_RANK + 1)
    for chosen, _ in choices:
        counts[chosen[1]] += 1
    places = tuple(math.log(count / max(counts)) for count in counts)

    def likelihood(taste: _Taste) -> float:
        total = 0.0
        for chosen, all_there in choices:
            scores = [taste.score(*one) for one in all_there]
            most = max(scores)
            spread = math.log(math.fsum(math.exp(score - most) for score in scores))
            total += taste.score(*chosen) - most - spread
        return round(total, 9)

    return max((_Taste(fit, places) for fit in FITS), key=likelihood)


def _voices(
    present: Page, precedents: Sequence[PagePrecedent], fixed: frozenset[str], w: PageWeights
) -> list[float]:
    nearest = max(p.similarity for p in precedents)
    done, open_ = present.done(fixed), present.open(fixed)
    voices = []
    for p in precedents:
        theirs = p.page.done(fixed)
        union = done | theirs
        apart = 1 - len(done & theirs) / len(union) if union else 0.0
        distance = (
            w.text * (nearest - p.similarity)
            + w.done * apart
            + w.open * abs(open_ - p.page.open(fixed))
        )
        voices.append(math.exp(-distance))
    return voices


def _candidates(
    present: Page, admissible: Sequence[str] | None, precedents: Sequence[PagePrecedent]
) -> dict[str, Call]:
    """Text → call of what can be done: the admissible calls, and arguments made up anew.

    Where no actions are listed, the labels of the page with the recalled verbs.
    """
    verbs = list(dict.fromkeys(p.call.verb for p in precedents))
    made = [p for p in precedents if p.call.label not in p.page.labels]
    if admissible is None:
        pressed = {p.call.verb for p in precedents if p.call.label in p.page.labels}
        texts = [f"{v}[{label}]" for v in verbs if v in pressed for label in present.labels]
        free = {p.call.verb for p in made}
    else:
        texts = list(admissible)
        calls = [call for text in texts if (call := read_call(text))]
        free = {call.verb for call in calls if call.label not in present.labels}
    composed = []
    for verb in verbs:
        like = [p for p in made if p.call.verb == verb]
        if verb in free and like and (argument := compose(present.goal, like)):
            composed.append(f"{verb}[{argument}]")
            texts = [t for t in texts if not _is_free(t, verb, present)]
    found = ((text, read_call(text)) for text in (*composed, *texts))
    return {text: call for text, call in found if call}


def _is_free(text: str, verb: str, present: Page) -> bool:
    call = read_call(text)
    return call is not None and call.verb == verb and call.label not in present.labels


def compose(goal: str, precedents: Sequence[PagePrecedent]) -> str:
    """An argument from the goal's words: those that recalled arguments kept of recalled goals.

    A word that recalled goals do not have, or hardly, is kept if most such words were; a number is
    judged by the word before it.
    """
    seen: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for precedent in precedents:
        used = {_stem(word) for word in tokens(precedent.call.label)}
        for key, word in _keyed(precedent.page.goal):
            seen[key] += 1
            kept[key] += _stem(word) in used
    rare = [key for key, count in seen.items() if count < SEEN]
    usual = sum(kept[key] for key in rare) >= len(rare) / 2
    words = []
    for key, word in _keyed(goal):
        known = seen[key] >= SEEN
        if kept[key] / seen[key] >= 0.5 if known else usual and word not in FUNCTION_WORDS:
            words.append(word)
    return " ".join(dict.fromkeys(words))


def _keyed(goal: str) -> list[tuple[str, str]]:
    """(under which its fate is remembered, word) of a goal's words."""
    words = tokens(goal)
    return [
        (f"# after {before}" if word[0].isdigit() else _stem(word), word)
        for before, word in zip(("", *words), words, strict=False)
    ]
