"""The nouns of product titles, which the reward compares: from the catalogue, else from spaCy."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from threading import Lock
from typing import Any

from ldm.envs.webshop.catalogue import Product
from ldm.errors import LdmError

MODEL = "en_core_web_sm"
INSTALL = 'Install one with: pip install "ldm[webshop]".'
_NOUNS = ("NOUN", "PROPN")
#: What a part of speech does not depend on.
_UNUSED = ["parser", "ner", "lemmatizer", "senter"]


class Titles:
    """Reads titles; each text is parsed once. The parser is loaded when it is first needed."""

    def __init__(self, known: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """known: title → nouns that are known already."""
        self._nouns = dict(known or {})
        self._parser: Any = None
        self._lock = Lock()

    def nouns(self, product: Product) -> tuple[str, ...]:
        """The noun tokens of a product's title, in lower case and with repeats.

        Raises LdmError where they must be parsed and no parser is installed.
        """
        if product.nouns is not None:
            return product.nouns
        found = self._nouns.get(product.title)
        if found is None:
            with self._lock:
                found = self._parse(product.title)
            self._nouns[product.title] = found
        return found

    def _parse(self, title: str) -> tuple[str, ...]:
        if self._parser is None:
            self._parser = _load()
        return tuple(t.text.lower() for t in self._parser(title) if t.pos_ in _NOUNS)


def parser_version() -> str:
    """Name and version of the installed spaCy model, "none" where there is none."""
    found = _installed()
    if found is None or found.dist is None:
        return "none"
    return f"{MODEL} {found.dist.version}"


def check_parser() -> EntryPoint:
    """The installed model. Raises LdmError where there is none."""
    found = _installed()
    if found is None:
        raise LdmError(
            f"The reward reads product titles with spaCy's model {MODEL}, and no installed package "
            "provides it.",
            INSTALL,
        )
    return found


def _installed() -> EntryPoint | None:
    """The model, under its own name or repackaged under a longer one."""
    models = entry_points(group="spacy_models")
    fitting = sorted((m for m in models if m.name.startswith(MODEL)), key=lambda m: m.name)
    return fitting[0] if fitting else None


def _load() -> Any:
    found = check_parser()
    try:
        import spacy

        return spacy.load(found.value, exclude=_UNUSED)
    except (ImportError, OSError) as error:
        raise LdmError(
            f"spaCy's model {found.value} cannot be loaded: {error}.", INSTALL
        ) from error
