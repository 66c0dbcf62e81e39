"""Check and download the official questions and articles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ldm.envs.download import RemoteFile
from ldm.envs.metadata import DataReport
from ldm.errors import LdmError
from ldm.worlds.hotpotqa.environment import LICENCE
from ldm.worlds.hotpotqa.library import Sources, open_library
from ldm.worlds.hotpotqa.questions import ENV, OFFICIAL_SPLITS, select
from ldm.worlds.hotpotqa.questions import FILES as NAMES

_SERVER = "http://curtis.ml.cmu.edu/datasets/hotpot"
#: The checksums are those of the loader of this dataset in Hugging Face's `datasets`.
_DEV = RemoteFile(
    f"{_SERVER}/hotpot_dev_distractor_v1.json",
    sha256="4e9ecb5c8d3b719f624d66b60f8d56bf227f03914f5f0753d6fa1b359d7104ea",
)
_TRAIN = RemoteFile(
    f"{_SERVER}/hotpot_train_v1.1.json",
    sha256="26650cf50234ef5fb2e664ed70bbecdfd87815e6bffc257e068efea5cf7cd316",
)
FILES = {"dev": (_DEV,), "all": (_DEV, _TRAIN)}


def check(path: Path) -> DataReport:
    """Read all questions and articles below `path`.

    left_out: training questions that share an article with a test question. missing: gold titles
    without an article. conflicts: titles with several texts, of which the first is kept.
    Raise LdmError if the questions are missing or are not JSON.
    """
    sources = _sources(path)
    library = open_library(sources, None)
    splits: dict[str, dict[str, int]] = {}
    left_out = 0
    missing: set[str] = set()
    for split in OFFICIAL_SPLITS:
        try:
            questions, omitted = select(split, library.questions)
        except LdmError:  # the split's file is missing, or is not the official one
            continue
        splits[split] = dict(sorted(Counter(f"{q.kind} {q.level}" for q in questions).items()))
        left_out = max(left_out, omitted)
        titles = {title for question in questions for title in question.titles}
        missing |= {title for title in titles if library.collection.place(title) is None}
    facts = {
        "licence": LICENCE,
        "files": [file.name for file in sources.files],
        "articles": len(library.collection),
        "left_out": left_out,
        "missing": sorted(missing),
        "conflicts": list(library.conflicts),
    }
    return DataReport(ENV, path, splits, facts, library.problems)


def files(path: Path) -> tuple[Path, ...]:
    """Return the files of questions and articles. Raise LdmError if there are no questions."""
    return _sources(path).files


def _sources(path: Path) -> Sources:
    if not path.is_dir():
        raise LdmError(
            f"{path} is not a folder.",
            f"Use the folder that holds {next(iter(NAMES.values()))[0].replace('*', '')}, or "
            "download it: ldm data hotpotqa --to FOLDER.",
        )
    return Sources.find(path)
