"""The goals that an environment's controller knows, as its card lists them (DEPS, App. C)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from ldm.agents.formaliser import forms
from ldm.deps.plans import Goal
from ldm.embed import Embedder
from ldm.types import Card

#: Minimum cosine at which the nearest known goal stands for an unknown one.
FLOOR = 0.5

_COUNTED = re.compile(r"([a-z]+) (?:(?:\d+|COUNT) )?([a-z][a-z0-9_]*)(?: with [a-z0-9_]+)?")
_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a name or a sentence, ignoring plurals and underscores."""
    return tuple(map(_folded, _WORD.findall(text.casefold())))


@lru_cache(maxsize=4096)
def _folded(word: str) -> str:
    """Return a form that a word shares with its plural: "torch", "torches"; "leaf", "leaves"."""
    if word.endswith("s") and not word.endswith("ss") and len(word) > 2:
        word = word[:-1]
    if word.endswith("e") and len(word) > 2:
        word = word[:-1]
    if word.endswith("y") and len(word) > 2:
        word = word[:-1] + "i"
    return word[:-1] + "f" if word.endswith("v") else word


@dataclass(frozen=True)
class Vocabulary:
    """The verbs, items and sentences of a card's goals.

    actions: the card's grammar. items: verb → items, for goals of the form VERB COUNT ITEM.
    sentences: those of other forms.
    Without either, goals are sub-tasks in any words, for an executor that thinks and acts.
    """

    actions: tuple[str, ...]
    items: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()

    @classmethod
    def of(cls, card: Card) -> Vocabulary:
        """Return the vocabulary of a card."""
        return _vocabulary(card.goals, card.actions)

    @property
    def counted(self) -> bool:
        """Whether goals are of the form VERB COUNT ITEM."""
        return bool(self.items)

    @property
    def free(self) -> bool:
        """Whether goals are sub-tasks in any words: the environment has no controller."""
        return not self.items and not self.sentences

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All goals without counts, as input of a sentence encoder."""
        pairs = sorted((verb, item) for verb, items in self.items.items() for item in items)
        return (*(f"{verb} {item.replace('_', ' ')}" for verb, item in pairs), *self.sentences)

    @cached_property
    def _by_words(self) -> dict[str, dict[tuple[str, ...], str]]:
        return {
            verb: {words_of(item): item for item in sorted(items, reverse=True)}
            for verb, items in self.items.items()
        }

    @cached_property
    def _any_item(self) -> dict[tuple[str, ...], str]:
        return {
            words: item
            for verb in sorted(self._by_words)
            for words, item in self._by_words[verb].items()
        }

    @cached_property
    def _verbs(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        verbs: dict[tuple[str, ...], tuple[str, ...]] = {}
        for verb, items in sorted(self._by_words.items()):
            for words in items:
                verbs[words] = (*verbs.get(words, ()), verb)
        return verbs

    @cached_property
    def longest(self) -> int:
        """The number of words in the longest name of an item."""
        return max(map(len, self._any_item), default=0)

    def item(self, words: Sequence[str], verb: str = "") -> str:
        """Return the item with these words (`words_of`) among those of a verb, or ""."""
        known = self._by_words.get(verb, {}) if verb else self._any_item
        return known.get(tuple(words), "")

    def verb(self, words: Sequence[str]) -> str:
        """Return the only verb that goes with an item; "" if there are several or none."""
        verbs = self._verbs.get(tuple(words), ())
        return verbs[0] if len(verbs) == 1 else ""

    def sentence(self, text: str) -> str:
        """Return the known sentence or form of the grammar that `text` is; "" for none."""
        plain = " ".join(text.strip(" .!").split())
        folded = plain.casefold()
        if folded in self._sentences:
            return self._sentences[folded]
        return folded if any(form.fullmatch(plain) for form in forms(self.actions)) else ""

    @cached_property
    def _sentences(self) -> dict[str, str]:
        return {sentence.casefold(): sentence for sentence in self.sentences}

    def action(self, goal: Goal) -> str:
        """Return the action that names a goal to the controller, in the card's grammar."""
        if not goal.item:
            return goal.text
        count = f"{goal.count} " if goal.verb in self._with_count else ""
        tool = f" with {goal.tool}" if goal.tool and goal.verb in self._with_tool else ""
        return f"{goal.verb} {count}{goal.item}{tool}"

    @cached_property
    def _with_count(self) -> frozenset[str]:
        return frozenset(v for v in self.items if any(f"{v} COUNT " in f for f in self._grammar))

    @cached_property
    def _with_tool(self) -> frozenset[str]:
        return frozenset(
            v for v in self.items if any(f"{v} " in f and " with " in f for f in self._grammar)
        )

    @cached_property
    def _grammar(self) -> tuple[str, ...]:
        return tuple(
            form.strip() for line in self.actions for form in line.partition(":")[0].split(",")
        )


@lru_cache(maxsize=32)
def _vocabulary(goals: tuple[str, ...], grammar: tuple[str, ...]) -> Vocabulary:
    """Return a vocabulary, cached for all episodes."""
    items: dict[str, set[str]] = {}
    sentences = []
    for goal in goals:
        if match := _COUNTED.fullmatch(goal):
            items.setdefault(match[1], set()).add(match[2])
        else:
            sentences.append(goal)
    known = {verb: frozenset(names) for verb, names in items.items()}
    return Vocabulary(grammar, known, tuple(sentences))


class Nearest:
    """Finds the known goal that is nearest in meaning (§C.4), if its cosine is high enough."""

    def __init__(self, vocabulary: Vocabulary, embedding: Callable[[], Embedder]) -> None:
        self._vocabulary = vocabulary
        self._embedding = embedding

    @cached_property
    def _embedder(self) -> Embedder:
        return self._embedding()

    def __call__(self, text: str) -> str:
        """Return the nearest of `Vocabulary.names`; "" if none is near."""
        names = self._vocabulary.names
        if not names or not text.strip():
            return ""
        cosines = self._embedder.embed(names) @ self._embedder.embed([text])[0]
        best = int(cosines.argmax())
        return names[best] if cosines[best] >= FLOOR else ""
