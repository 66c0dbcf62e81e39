"""Check and download the official questions and articles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.envs import download
from ldm.envs.download import Progress
from ldm.envs.metadata import Fetched
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.worlds.hotpotqa.environment import LICENCE
from ldm.worlds.hotpotqa.library import ABSTRACTS, Sources, open_library
from ldm.worlds.hotpotqa.questions import ENV, FILES, OFFICIAL_SPLITS, TRAIN, select

_SERVER = "http://curtis.ml.cmu.edu/datasets/hotpot/"


@dataclass(frozen=True, slots=True)
class Published:
    """An official file. sha256: "" if it is unknown. size: bytes."""

    url: str
    size: int
    sha256: str = ""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


#: The checksums are those of the loader of this dataset in Hugging Face's `datasets`.
_DEV = Published(
    f"{_SERVER}hotpot_dev_distractor_v1.json",
    46_320_117,
    "4e9ecb5c8d3b719f624d66b60f8d56bf227f03914f5f0753d6fa1b359d7104ea",
)
_TRAIN = Published(
    f"{_SERVER}hotpot_train_v1.1.json",
    566_426_227,
    "26650cf50234ef5fb2e664ed70bbecdfd87815e6bffc257e068efea5cf7cd316",
)
_ABSTRACTS = Published(
    "https://nlp.stanford.edu/projects/hotpotqa/"
    "enwiki-20171001-pages-meta-current-withlinks-abstracts.tar.bz2",
    1_553_565_403,
)
SIZES: Mapping[str, tuple[Published, ...]] = {
    "dev": (_DEV,),
    "all": (_DEV, _TRAIN),
    "abstracts": (_DEV, _TRAIN, _ABSTRACTS),
}


@dataclass(frozen=True, slots=True)
class Report:
    """The contents of a data folder.

    splits: split → number of questions by kind and level. left_out: training questions that share
    an article with a test question. articles: in the collection. missing: gold titles of questions
    that open no article. conflicts: titles that come with several texts. archives: of abstracts.
    """

    root: Path
    files: tuple[str, ...]
    splits: Mapping[str, Mapping[str, int]]
    left_out: int
    articles: int
    missing: tuple[str, ...]
    conflicts: tuple[str, ...]
    archives: tuple[str, ...]
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        yield f"HotpotQA in {self.root}: {LICENCE}"
        yield f"  files: {', '.join((*self.files, *self.archives))}"
        for split, counts in self.splits.items():
            by_kind = ", ".join(f"{name} {count}" for name, count in counts.items())
            yield f"  {split}: {sum(counts.values()):,} questions ({by_kind})"
        if self.left_out:
            yield f"  left out of {TRAIN}: {self.left_out:,}, as a test question has their article"
        yield f"  articles: {self.articles:,}"
        if self.missing:
            yield f"  without an article: {len(self.missing)} titles ({self.missing[0]}, …)"
        if self.conflicts:
            yield f"  with several texts: {', '.join(self.conflicts[:5])} (the first one stays)"

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "env": ENV,
            "path": str(self.root),
            "licence": LICENCE,
            "files": [*self.files, *self.archives],
            "splits": {split: dict(counts) for split, counts in self.splits.items()},
            "left_out": self.left_out,
            "articles": self.articles,
            "missing": list(self.missing),
            "conflicts": list(self.conflicts),
            "problems": [
                {"file": p.file, "line": p.line, "field": p.field, "message": p.message}
                for p in self.problems
            ],
        }


def check(path: Path) -> Report:
    """Read all questions and articles below `path`, archives of abstracts excepted.

    Raise LdmError if the questions are missing or are not JSON.
    """
    sources = _find(path)
    library = open_library(sources, None)
    splits: dict[str, Mapping[str, int]] = {}
    left_out = 0
    missing: set[str] = set()
    for split in OFFICIAL_SPLITS:
        try:
            questions, omitted = select(split, library.questions)
        except LdmError:  # of a file that is not there, or is not the official one
            continue
        counts = Counter(f"{one.kind} {one.level}" for one in questions)
        splits[split] = dict(sorted(counts.items()))
        left_out = max(left_out, omitted)
        missing.update(
            title
            for question in questions
            for title in question.titles
            if library.collection.place(title) is None
        )
    return Report(
        root=path,
        files=tuple(file.name for file in sources.files),
        splits=splits,
        left_out=left_out,
        articles=len(library.collection),
        missing=tuple(sorted(missing)),
        conflicts=library.conflicts,
        archives=tuple(archive.name for archive in sorted(path.glob(ABSTRACTS))),
        problems=library.problems,
    )


def summary(path: Path) -> str:
    """Return the files that are read, with their sizes. Raise LdmError if one is missing."""
    files = _find(path).files
    return f"{path}; " + ", ".join(f"{f.name} {f.stat().st_size / 1e6:.1f} MB" for f in files)


def fetch(
    destination: Path,
    *,
    size: str = "dev",
    url: str = "",
    sha256: str = "",
    progress: Progress | None = None,
) -> tuple[Fetched, ...]:
    """Download the official files of a size: dev, all (with train) or abstracts (with both).

    An interrupted download is resumed, and an existing file is not downloaded again.
    url: the folder of a mirror that has the files under their names. sha256: expected checksums of
    all files, in this order, separated by commas. Raise LdmError if a download or a checksum is
    bad.
    """
    files = SIZES[size]
    checksums = download.checksums_of(sha256, [file.name for file in files])
    downloads = []
    for number, file in enumerate(files):
        expected = checksums[number] if checksums else file.sha256
        address = f"{url.rstrip('/')}/{file.name}" if url else file.url
        computed = download.fetch(
            address, destination / file.name, sha256=expected, progress=progress
        )
        downloads.append(Fetched(computed, bool(expected), file.name))
    return tuple(downloads)


def _find(path: Path) -> Sources:
    if not path.is_dir():
        raise LdmError(
            f"{path} is not a folder.",
            f"Use the folder that holds {next(iter(FILES.values()))[0].replace('*', '')}, or "
            "download it: ldm data get hotpotqa.",
        )
    return Sources.find(path, "context")
