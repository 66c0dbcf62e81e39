"""Votes by analogy between pages: a recalled press votes for the labels that play the same part.

A recalled press of a fixed label votes for the same label; one of a wanted or described label, for
the present label that fits best (the sorts are those of `ldm.reason.pages`). A made-up argument is
composed again, from the goal's counterparts of the words that recalled arguments took from their
goals. Actions for the same goal in other words, or for one that asked for more, are repeated word
for word if possible, and count as much as all others together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ldm.reason.pages import LAST_RANK, Call, Page, Sort, content_words, read_call, stem, tokens
from ldm.reason.reading import FUNCTION_WORDS
from ldm.reason.voting import Ballot, Likeness, Poll

#: A label on at least this share of the recalled goals' pages is a fixed part of the page.
FIXED = 0.5
#: Candidate weights of a description's fit against its place in the list.
FIT_WEIGHTS = (8.0, 2.0, 4.0, 16.0)
#: Words that ask for something without describing it.
_ASKING = """
buy can could find get give help like look looking need please purchase search show want would
"""
ASKING = frozenset(_ASKING.split())
#: Minimum occurrences of a word in recalled goals to be judged by its own counts.
MIN_OCCURRENCES = 2


@dataclass(frozen=True, slots=True)
class PageWeights:
    """The cost of each difference, chosen on training goals, not on evaluated ones.

    `text`, `done` and `open` are the rates at which a recall's weight falls with the distance of
    its text, of the actions done and of the labels still open. `named` is the rate at which a vote
    falls with the share of a wanted label that the goal does not name. `unlike` multiplies votes
    for labels of another sort, `repeat` those for actions done before, and `over_price` the fit of
    things that cost more than the goal allows.
    """

    text: float = 1.0
    done: float = 6.0
    open: float = 4.0
    named: float = 12.0
    unlike: float = 0.01
    repeat: float = 0.1
    over_price: float = 0.3


@dataclass(frozen=True, slots=True)
class PagePrecedent:
    """A recalled page, the call made on it, and the similarity of its text.

    voice: the value of its vote, by the call's outcome (`ldm.reason.voting.voice_of`).
    nearby: whether only nearly identical goals recall it.
    """

    page: Page
    call: Call
    similarity: float
    voice: float = 1.0
    nearby: bool = False


def poll(
    present: Page,
    admissible: Sequence[str] | None,
    precedents: Sequence[PagePrecedent],
    weights: PageWeights,
) -> Poll:
    """Let the precedents vote on the calls possible on a page; no two candidates are grouped.

    admissible: the possible actions; None for the page's labels with the recalled verbs.
    """
    precedents = [p for p in precedents if p.page.labels]  # others' pages were not recorded
    if not precedents:
        return Poll((), (), ())
    fixed = _fixed_labels(precedents)
    same = _same_goals(present.goal, precedents)
    candidates = _candidates(present, admissible, precedents, same)
    sorts = {text: present.sort(call.label, fixed) for text, call in candidates.items()}
    done = Counter((call.verb, call.label) for call in present.past)
    fresh = {text for text, call in candidates.items() if not done[call.verb, call.label]}
    suits = _suitability(present, candidates, sorts, _preference(precedents, weights), weights)
    # Things in a list are judged relative to the best remaining one.
    best = max((suits[t] for t in suits if t in fresh and sorts[t] == "described"), default=1.0)
    ballots = []
    vote_weights = _vote_weights(present, precedents, fixed, weights)
    possible = {(call.verb, call.label) for call in candidates.values()}
    repeated = [
        p.page.goal in same and p.nearby and (p.call.verb, p.call.label) in possible
        for p in precedents
    ]
    if any(repeated):
        vote_weights = [
            weight if again else weight / len(precedents)
            for weight, again in zip(vote_weights, repeated, strict=True)
        ]
    for precedent, vote_weight, again in zip(precedents, vote_weights, repeated, strict=True):
        pressed = precedent.call
        sort = precedent.page.sort(pressed.label, fixed)
        repeats = precedent.page.past.count(pressed)
        likeness = [0.0] * len(candidates)
        for i, (text, call) in enumerate(candidates.items()):
            if call.verb != pressed.verb:
                continue
            if again:
                alike = 1.0 if call.label == pressed.label else weights.unlike
            elif sort != sorts[text] or (sort == "fixed" and call.label != pressed.label):
                alike = weights.unlike
            else:
                alike = min(1.0, suits[text] / best) if sort == "described" else suits[text]
            excess = max(0, done[call.verb, call.label] - repeats) + (call.label in present.chosen)
            likeness[i] = alike * weights.repeat**excess
        ballots.append(Ballot(vote_weight, Likeness.of(enumerate(likeness))))
    return Poll(tuple(candidates), tuple(range(len(candidates))), tuple(ballots))


def _same_goals(goal: str, precedents: Sequence[PagePrecedent]) -> frozenset[str]:
    """Return the nearby goals that ask for everything that `goal` does, perhaps in other words.

    They have its words, except words of asking, those of most recalled goals, and those of no
    recalled goal. Numbers have to match.
    """
    nearby = {p.page.goal for p in precedents if p.nearby}
    if not nearby:
        return frozenset()
    goals = {p.page.goal for p in precedents}
    counts = Counter(word for recalled in goals for word in content_words(recalled))
    usual = {word for word, count in counts.items() if count >= max(2.0, FIXED * len(goals))}
    words = content_words(goal) - usual - ASKING
    unknown = {word for word in words if word not in counts}
    meant = words - unknown
    numbers = any(character.isdigit() for word in unknown for character in word)
    if not meant or numbers or len(unknown) > len(meant) / 2:
        return frozenset()
    return frozenset(other for other in nearby if meant <= content_words(other))


def _fixed_labels(precedents: Sequence[PagePrecedent]) -> frozenset[str]:
    """Return the labels on many of the recalled pages, whatever their goals."""
    goals: dict[str, set[str]] = {}
    for precedent in precedents:
        for label in precedent.page.labels:
            goals.setdefault(label, set()).add(precedent.page.goal)
    all_goals = {precedent.page.goal for precedent in precedents}
    threshold = max(2.0, FIXED * len(all_goals))
    return frozenset(label for label, of in goals.items() if len(of) >= threshold)


@dataclass(frozen=True, slots=True)
class _Preference:
    """The criteria of recalled choices among described labels.

    fit: the weight of a description's fit. ranks: the logarithm of how often each place in the list
    was chosen, relative to the most frequent one.
    """

    fit: float
    ranks: tuple[float, ...]

    def score(self, fit: float, rank: int) -> float:
        """Return the log-likelihood that a label is chosen, up to a constant."""
        return self.fit * fit + self.ranks[rank]


def _preference(precedents: Sequence[PagePrecedent], weights: PageWeights) -> _Preference:
    """Return the preference that makes the recalled choices most likely, over FIT_WEIGHTS."""
    choices = [
        choice
        for p in precedents
        if p.voice > 0 and (choice := p.page.choice(p.call.label, weights.over_price))
    ]
    counts = [1.0] * (LAST_RANK + 1)
    for chosen, _ in choices:
        counts[chosen[1]] += 1
    ranks = tuple(math.log(count / max(counts)) for count in counts)

    def likelihood(preference: _Preference) -> float:
        total = 0.0
        for chosen, alternatives in choices:
            scores = [preference.score(*alternative) for alternative in alternatives]
            most = max(scores)
            spread = math.log(math.fsum(math.exp(score - most) for score in scores))
            total += preference.score(*chosen) - most - spread
        return round(total, 9)

    return max((_Preference(fit, ranks) for fit in FIT_WEIGHTS), key=likelihood)


def _suitability(
    present: Page,
    candidates: Mapping[str, Call],
    sorts: Mapping[str, Sort],
    preference: _Preference,
    weights: PageWeights,
) -> dict[str, float]:
    """Map each candidate to the fit of its label with the goal, above 0; fixed ones to 1."""
    suits = {}
    for text, call in candidates.items():
        suits[text] = 1.0
        if sorts[text] == "described":
            fit = present.fit(call.label, weights.over_price)
            suits[text] = math.exp(preference.score(fit, present.rank(call.label)))
        elif sorts[text] == "wanted":
            suits[text] = math.exp(-weights.named * (1.0 - present.named_share(call.label)))
    return suits


def _vote_weights(
    present: Page, precedents: Sequence[PagePrecedent], fixed: frozenset[str], weights: PageWeights
) -> list[float]:
    """Return the weight of each precedent's vote, in [-1, 1] without 0."""
    nearest = max(p.similarity for p in precedents)
    done, open_labels = present.done(fixed), present.open(fixed)
    vote_weights = []
    for p in precedents:
        theirs = p.page.done(fixed)
        union = done | theirs
        distance = (
            weights.text * (nearest - p.similarity)
            + weights.done * (1 - len(done & theirs) / len(union) if union else 0.0)
            + weights.open * abs(open_labels - p.page.open(fixed))
        )
        vote_weights.append(p.voice * math.exp(-distance))
    return vote_weights


def _candidates(
    present: Page,
    admissible: Sequence[str] | None,
    precedents: Sequence[PagePrecedent],
    same: frozenset[str],
) -> dict[str, Call]:
    """Return the candidates as text → call: admissible calls, and newly composed arguments.

    same: see `_same_goals`; arguments made up for them can be entered again.
    """
    verbs = list(dict.fromkeys(p.call.verb for p in precedents))
    made_up = [p for p in precedents if p.voice > 0 and p.call.label not in p.page.labels]
    if admissible is None:
        pressed = {p.call.verb for p in precedents if p.call.label in p.page.labels}
        texts = [f"{v}[{label}]" for v in verbs if v in pressed for label in present.labels]
        free = {p.call.verb for p in made_up}
    else:
        texts = list(admissible)
        calls = [call for text in texts if (call := read_call(text))]
        free = {call.verb for call in calls if call.label not in present.labels}
    composed = []
    for verb in verbs:
        examples = [p for p in made_up if p.call.verb == verb]
        if verb in free and examples and (argument := compose(present.goal, examples)):
            composed.append(f"{verb}[{argument}]")
            texts = [text for text in texts if not _is_free(text, verb, present)]
    again = [
        p.call.text for p in made_up if p.nearby and p.page.goal in same and p.call.verb in free
    ]
    candidates = ((text, read_call(text)) for text in (*composed, *again, *texts))
    return {text: call for text, call in candidates if call}


def _is_free(text: str, verb: str, present: Page) -> bool:
    """Return whether an action is a call of `verb` with an argument that is no label."""
    call = read_call(text)
    return call is not None and call.verb == verb and call.label not in present.labels


def compose(goal: str, precedents: Sequence[PagePrecedent]) -> str:
    """Compose an argument from the goal's words, as the recalled arguments were made up.

    A word is included if at least half of the recalled arguments included it when their goal had
    it. A rare word is included if most rare words were; a number is judged by the word before it.
    """
    occurrences: Counter[str] = Counter()
    included: Counter[str] = Counter()
    for precedent in precedents:
        argument = {stem(word) for word in tokens(precedent.call.label)}
        for key, word in _keyed(precedent.page.goal):
            occurrences[key] += 1
            included[key] += stem(word) in argument
    rare = [key for key, count in occurrences.items() if count < MIN_OCCURRENCES]
    include_rare = sum(included[key] for key in rare) >= len(rare) / 2

    def belongs(key: str, word: str) -> bool:
        if occurrences[key] >= MIN_OCCURRENCES:
            return included[key] / occurrences[key] >= 0.5
        return include_rare and word not in FUNCTION_WORDS

    return " ".join(dict.fromkeys(word for key, word in _keyed(goal) if belongs(key, word)))


def _keyed(goal: str) -> list[tuple[str, str]]:
    """Return (key, word) of a goal's words; a word's occurrences are counted under its key."""
    words = tokens(goal)
    return [
        (f"# after {before}" if word[0].isdigit() else stem(word), word)
        for before, word in zip(("", *words), words, strict=False)
    ]
