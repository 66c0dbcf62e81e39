"""The nouns of product titles, which the reward compares: from the catalogue, else from spaCy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from threading import Lock
from typing import Any

from ldm.envs.webshop.catalogue import Product
from ldm.errors import LdmError

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
