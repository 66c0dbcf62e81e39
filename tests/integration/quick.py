"""`python -m tests.integration.quick …` is `ldm …` with an embedder that takes no time to load.

Nothing is published to Chroma, which takes longer than most commands.
"""

import ldm.embed
from ldm.cli import app
from ldm.embed import Embedder
from ldm.memory import chroma
from ldm.memory.growing import GrowingMemory
from tests.embedder import BagOfWords
from tests.memory.desk import fold_here


def _bag_of_words(name: str | None = None) -> Embedder:
    return BagOfWords(name or "bag-of-words")


def main() -> None:
    """Run the command line with that embedder."""
    ldm.embed.load_embedder = _bag_of_words
    chroma.publish_beside = lambda *_, **__: None
    GrowingMemory._start_folding = fold_here  # type: ignore[method-assign,assignment]
    app.main()


if __name__ == "__main__":
    main()
