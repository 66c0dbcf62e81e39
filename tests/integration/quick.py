"""`python -m tests.integration.quick …` is `ldm …` with an embedder that takes no time to load."""

from __future__ import annotations

import ldm.embed
from ldm.cli import app
from ldm.embed import Embedder
from tests.embedder import BagOfWords


def _bag_of_words(name: str | None = None) -> Embedder:
    return BagOfWords(name or "bag-of-words")


def main() -> None:
    """Run the command line with that embedder."""
    ldm.embed.load_embedder = _bag_of_words
    app.main()


if __name__ == "__main__":
    main()
