"""Verification of a model's proofs against the record."""

from __future__ import annotations

from collections.abc import Iterable

from ldm.reason.pages import content_words
from ldm.reason.progress import blank_if_nothing
from ldm.reason.reading import numbered

#: The minimum share of a proof's words in one observation.
SHARE = 0.75


def proves(proof: str, sub_goal: str, texts: Iterable[str]) -> bool:
    """Return whether a proof is about a sub-goal, and one of the observed texts shows it.

    sub_goal: with its check. A small model copies any line of the record.
    """
    return bool(content_words(proof) & content_words(sub_goal)) and shown_by(proof, texts)


def shown_by(proof: str, texts: Iterable[str]) -> bool:
    """Return whether one of the observed texts shows a proof.

    A model puts the record into its own words, so most of the words suffice; numbers must match,
    each with its thing, since another number is another thing.
    """
    proof = blank_if_nothing(proof)
    claimed = content_words(proof)
    numbers = {word for word in claimed if any(sign.isdigit() for sign in word)}

    def shows(text: str) -> bool:
        there = content_words(text)
        enough = len(claimed & there) >= SHARE * len(claimed)
        return enough and numbers <= there and numbered(proof) <= numbered(text)

    return bool(claimed) and any(map(shows, texts))
