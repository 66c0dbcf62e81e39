"""Facts about the labels of a page: what each is to the goal, beside the other labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ldm.reason.pages import Page, content_words, stem, tokens
from ldm.reason.reading import FUNCTION_WORDS

#: Occurrences of a word in goals from which it is judged by its own counts.
OWN_COUNTS = 2
#: Numbers of times that a label was pressed before, which are told apart.
PRESSED = (1, 2, 3)
#: Numbers of the goal's words that are missing on the pages shown, which are told apart.
MISSING = (0, 1, 2, 3)
#: A word of the goal matters if recorded arguments took it so often.
MATTERS = 0.2


def page_facts(page: Page, fixed: frozenset[str], matters: frozenset[str]) -> tuple[str, ...]:
    """Return facts on the fixed labels of a page, on what was done, and on what is left to do.

    matters: the words of the goal that matter.
    """
    left, (calls, pages) = f"left {page.open(fixed)}", page.since(fixed)
    done = [f"did {verb} {sort} {count}" for verb, sort, count in sorted(page.done(fixed))]
    here = [f"here {call} {min(n, 2)}" for call, n in sorted(Counter(calls).items())]
    present = [f"has {label}" for label in page.labels if label in fixed]
    missing = len(matters.difference(*map(content_words, pages)))
    last = f"last {calls[0] if calls else None}"
    facts = [f"missing {missing > n} {n}" for n in MISSING]
    pairs = [f"{one} {fact}" for one in (left, last) for fact in facts]
    more = [f"{left} {one}" for one in (*done, *here, last)]
    return (left, last, *present, *done, *here, *facts, *pairs, *more)


def phase_of(page: Page, fixed: frozenset[str]) -> tuple[str, str]:
    """Return the calls since an argument was made up, and since something of a list was chosen."""
    done = ";".join(f"{verb} {sort} x{count}" for verb, sort, count in sorted(page.done(fixed)))
    return done, ";".join(
        f"{call} x{n}" for call, n in sorted(Counter(page.since(fixed)[0]).items())
    )


def label_facts(page: Page, label: str, fixed: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """Return the part that a label plays on a page, and how it compares with the other labels.

    The part is its sort, or the label itself if it is a fixed one of many pages.
    """
    sort = page.sort(label, fixed)
    pressed = sum(call.label == label for call in page.past)
    facts = [
        *(f"pressed >= {n}" for n in PRESSED if pressed >= n),
        f"chosen {label in page.chosen}",
    ]
    named, beside = page.named_share(label), page.beside(label)
    if sort == "wanted":
        facts.append(f"named {int(4 * named)}")
    if sort in ("wanted", "fixed") and beside:
        best = max(map(page.named_share, beside))
        rank = "best" if named > best else "tied" if named == best else "worse"
        facts += [f"beside {rank}", f"beside chosen {any(x in page.chosen for x in beside)}"]
    if sort == "described":
        facts += page.offers.get(label, ())
    part = label if sort == "fixed" and label in fixed else sort
    return part, tuple(f"{sort} {fact}" for fact in facts)


def words_taken(examples: Iterable[tuple[str, str]]) -> tuple[tuple[str, float], ...]:
    """Return how often arguments of calls took each word of their goals; "" is for rare words.

    examples: (goal, argument) pairs.
    """
    occurrences: Counter[str] = Counter()
    included: Counter[str] = Counter()
    for goal, argument in examples:
        mine = {stem(word) for word in tokens(argument)}
        for key, word in _keyed(goal):
            occurrences[key] += 1
            included[key] += stem(word) in mine
    rare = [key for key, n in occurrences.items() if n < OWN_COUNTS]
    shares = {key: included[key] / n for key, n in occurrences.items() if n >= OWN_COUNTS}
    shares[""] = sum(included[key] for key in rare) / len(rare) if rare else 1.0
    return tuple(sorted(shares.items()))


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
