"""Whether something was seen: what a model gives as a proof is compared with the record."""

from __future__ import annotations

from collections.abc import Iterable

from ldm.reason.entities import numbered
from ldm.reason.pages import content_words
from ldm.reason.progress import blank_if_nothing

#: The least share of a proof's words that must stand in one observation.
SHARE = 0.75


def proves(proof: str, sub_goal: str, texts: Iterable[str]) -> bool:
    """Return whether a proof speaks of a sub-goal, and one of the texts that were seen says it.

    sub_goal: with what is seen as soon as it is done. A small model copies any line of the record.
    """
    return bool(content_words(proof) & content_words(sub_goal)) and shown_by(proof, texts)


def shown_by(proof: str, texts: Iterable[str]) -> bool:
    """Return whether one of the texts that were seen says what a proof says.

    A model puts the record into its own words, so most of the words suffice; all numbers must be
    there, each with its thing, since another number is another thing.
    """
    proof = blank_if_nothing(proof)
    claimed = content_words(proof)
    numbers = {word for word in claimed if any(sign.isdigit() for sign in word)}

    def shows(text: str) -> bool:
        there = content_words(text)
        enough = len(claimed & there) >= SHARE * len(claimed)
        return enough and numbers <= there and numbered(proof) <= numbered(text)

    return bool(claimed) and any(map(shows, texts))
