"""The reward of a purchase (Yao et al., NeurIPS 2022, §3.1), with the official code's quirks.

r_type · (attributes met + options met + price met) / (their number): 1 if everything fits. The
matching is fuzzy, so that a purchased "large" satisfies a requested "x-large". It compares nouns of
product titles, from the catalogue, else from spaCy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from threading import Lock
from typing import Any

from ldm.envs._base import facts
from ldm.errors import LdmError
from ldm.worlds.webshop.catalogue import Goal, Product, RequestedOption

MODEL = "en_core_web_sm"
INSTALL = 'Install one with: pip install "ldm-memory[webshop]".'
_NOUNS = ("NOUN", "PROPN")
#: Pipeline components that parts of speech do not depend on.
_UNUSED = ["parser", "ner", "lemmatizer", "senter"]
#: spaCy's model serves one thread of the process at a time.
_PARSING = Lock()


class Titles:
    """The nouns of titles. Each title is parsed once, by the parser of the process."""

    def __init__(self, nouns: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """Start with `nouns`, the nouns of titles that need no parser."""
        self._nouns = dict(nouns or {})

    def nouns(self, product: Product) -> tuple[str, ...]:
        """Return the noun tokens of a product's title, in lower case and with repeats.

        Raise LdmError if they must be parsed and no parser is installed.
        """
        if product.nouns is not None:
            return product.nouns
        nouns = self._nouns.get(product.title)
        if nouns is None:
            nouns = self._nouns[product.title] = self._parse(product.title)
        return nouns

    def _parse(self, title: str) -> tuple[str, ...]:
        with _PARSING:
            parsed = load_parser()(title)
        return tuple(t.text.lower() for t in parsed if t.pos_ in _NOUNS)


def parser_version() -> str:
    """Return name and version of the installed spaCy model, or "none"."""
    model = _installed()
    if model is None or model.dist is None:
        return "none"
    return f"{MODEL} {model.dist.version}"


def check_parser() -> EntryPoint:
    """Return the installed model; raise LdmError if there is none."""
    model = _installed()
    if model is None:
        raise LdmError(
            f"The reward reads product titles with spaCy's model {MODEL}, and no installed package "
            "provides it.",
            INSTALL,
        )
    return model


def _installed() -> EntryPoint | None:
    """Return the model, under its own name or repackaged under a longer one."""
    models = entry_points(group="spacy_models")
    fitting = sorted((m for m in models if m.name.startswith(MODEL)), key=lambda m: m.name)
    return fitting[0] if fitting else None


@cache
def load_parser() -> Any:
    """Return spaCy's model, loaded once a process; raise LdmError if it cannot be loaded."""
    model = check_parser()
    try:
        import spacy

        return spacy.load(model.value, exclude=_UNUSED)
    except (ImportError, OSError) as error:
        raise LdmError(
            f"spaCy's model {model.value} cannot be loaded: {error}.", INSTALL
        ) from error


#: Two texts whose similarity (of 100) is above this count as equal.
ALIKE = 85
#: Searched for within a value in this order; the first match replaces the value.
COLORS: list[str] = facts(__file__)["colors"]

_LATIN_1 = dict.fromkeys(range(0x80, 0x100))


def reward(
    goal: Goal, product: Product, options: Mapping[str, str], price: float, titles: Titles
) -> float:
    """Return the reward, in [0, 1], for buying `product` with `options` at `price` dollars."""
    same_query = product.query == goal.product.query
    same_category = len(product.category_set & goal.product.category_set) >= 2
    title = _title(titles.nouns(product), titles.nouns(goal.product))
    kind = _type(same_query or same_category or title > 0.2, title)
    attributes = sum(_has(product, attribute) for attribute in goal.attributes)
    options_met = sum(_met(option, options) for option in goal.options)
    affordable = price <= goal.price_cap
    parts = len(goal.attributes) + len(goal.options) + 1
    return kind * ((attributes + options_met + affordable) / parts)


@lru_cache(maxsize=20_000)
def color(value: str) -> str:
    """Return the first of the known colours that occurs in `value`, else the value itself."""
    return next((name for name in COLORS if name in value), value)


@lru_cache(maxsize=200_000)
def alike(first: str, second: str) -> int:
    """Return the similarity of two texts, 0–100: token_set_ratio of their words.

    It is 100 if the words of one are among those of the other; 0 if one has no word left.
    """
    from rapidfuzz import fuzz, utils

    words = (utils.default_process(text.translate(_LATIN_1)) for text in (first, second))
    return round(fuzz.token_set_ratio(*words))


def _title(purchased: tuple[str, ...], requested: tuple[str, ...]) -> float:
    """Return the distinct nouns in common, as a share of all noun tokens of the goal."""
    return len({*purchased} & {*requested}) / len(requested) if requested else 0.2


def _type(matches: bool, title: float) -> float:
    if title == 0.0:
        return 0.0
    if title < 0.1:
        return 0.1
    return 1.0 if matches else 0.5


def _has(product: Product, attribute: str) -> bool:
    if any(alike(own, attribute) > ALIKE for own in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


def _met(request: RequestedOption, options: Mapping[str, str]) -> bool:
    """Return whether any chosen value resembles the requested option, under any name."""
    if isinstance(request, str):
        text = color(request)
    else:
        # The official code compares the printed form of the pair; a colour matches in it only if
        # the name or the value is one.
        text = next((name for name in COLORS if name in request), str(request))
    return any(alike(color(value), text) > ALIKE for value in options.values())
