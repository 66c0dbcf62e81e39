"""`python -m tests.integration.quick …` is `ldm …` with an embedder that takes no time to load.

LDM_TEST_SILENCE: the seconds after which a silent writer to a server counts as gone.
"""

from __future__ import annotations

import os

import ldm.embed
from ldm.cli import app
from ldm.embed import Embedder
from ldm.memory import locks
from tests.embedder import BagOfWords


def _bag_of_words(name: str | None = None) -> Embedder:
    return BagOfWords(name or "bag-of-words")


def main() -> None:
    """Run the command line with that embedder."""
    ldm.embed.load_embedder = _bag_of_words
    locks.SILENCE = float(os.environ.get("LDM_TEST_SILENCE", locks.SILENCE))
    app.main()


if __name__ == "__main__":
    main()
