"""Check and download the official questions and articles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ldm.envs.download import published
from ldm.envs.metadata import DataCheck
from ldm.errors import LdmError
from ldm.worlds.hotpotqa import library
from ldm.worlds.hotpotqa.environment import LICENCE
from ldm.worlds.hotpotqa.library import Sources

FILES = published(__file__)


def check(path: Path) -> DataCheck:
    """Read all questions and articles below `path`, except archives of abstracts.

    left_out: training questions that share an article with a test question. missing: gold titles
    without an article. conflicts: titles with several texts, of which the first is kept.
    Raise LdmError if the questions are missing or are not JSON.
    """
    sources = Sources.find(path, "context")
    opened = library.open_library(sources, None)
    splits: dict[str, dict[str, int]] = {}
    left_out = 0
    missing: set[str] = set()
    for split in library.OFFICIAL_SPLITS:
        try:
            questions, omitted = library.select(split, opened.questions)
        except LdmError:  # the split's file is missing, or is not the official one
            continue
        splits[split] = dict(sorted(Counter(f"{q.kind} {q.level}" for q in questions).items()))
        left_out = max(left_out, omitted)
        titles = {title for question in questions for title in question.titles}
        missing |= {title for title in titles if opened.place(title) is None}
    archives = sorted(path.glob(library.ABSTRACTS))
    facts = {
        "licence": LICENCE,
        "files": [file.name for file in (*sources.files, *archives)],
        "articles": len(opened),
        "left_out": left_out,
        "missing": sorted(missing),
        "conflicts": list(opened.conflicts),
    }
    return DataCheck(library.ENV, path, splits, facts, opened.problems)


def files(path: Path) -> tuple[Path, ...]:
    """Return the files of questions and articles. Raise LdmError if there are no questions."""
    return Sources.find(path, "context").files
