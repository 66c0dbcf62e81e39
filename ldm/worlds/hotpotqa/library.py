"""Questions and articles of a folder, compiled once and opened from a cache."""

from __future__ import annotations

import bz2
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from ldm import records
from ldm.envs.cache import Compiled, open_compiled
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.text import check_file, lines_of
from ldm.worlds.hotpotqa.articles import Collection, Compiler
from ldm.worlds.hotpotqa.questions import (
    FILES,
    OWN_FILES,
    Abstract,
    Article,
    Question,
    article,
    files_like,
    find_files,
    read_articles,
    read_questions,
)

Articles = Literal["context", "abstracts"]
#: Increased when the same files yield different arrays than before.
FORMAT = "1"
#: The folder of our own world.
OWN_DATA = Path(__file__).parent / "demo"
ABSTRACTS = "enwiki-*-abstracts.tar.bz2"
_MORE_ARTICLES = "wiki_articles*.json"


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a folder. questions: by split. articles: further ones, in order."""

    folder: Path
    questions: Mapping[str, Path]
    articles: tuple[Path, ...]
    collection: Articles

    @classmethod
    def find(cls, folder: Path, collection: Articles) -> Sources:
        """Return the files in `folder`; raise LdmError without questions, or without an archive."""
        questions = find_files(folder, OWN_FILES if folder == OWN_DATA else FILES)
        abstracts = collection == "abstracts"
        listed = sorted(folder.glob(ABSTRACTS)) if abstracts else files_like(folder, _MORE_ARTICLES)
        articles = tuple(listed)
        if collection == "abstracts" and not articles:
            raise LdmError(
                f"{folder} holds no archive of abstracts ({ABSTRACTS}).",
                "Download it: ldm data hotpotqa --size abstracts --to FOLDER.",
            )
        return cls(folder, questions, articles, collection)

    @property
    def files(self) -> tuple[Path, ...]:
        return (*self.articles, *self.questions.values())


class Library:
    """The questions of each file, and the collection that their articles are searched in."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self.collection = Collection(compiled)
        self._read: dict[str, tuple[Question, ...]] = {}

    @property
    def digest(self) -> str:
        """A hash of all articles."""
        return str(self._compiled.meta["digest"])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The invalid questions and articles, which were left out."""
        return tuple(Problem(*fields) for fields in self._compiled.meta["problems"])

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The titles that came again with another text; the first text stays."""
        return tuple(self._compiled.meta["conflicts"])

    @property
    def questions(self) -> Mapping[str, Sequence[Question]]:
        """The questions of each file, by its split."""
        if not self._read:
            lines, read = self._question_lines(), {}
            for split, count in self._compiled.meta["splits"].items():
                parsed = (json.loads(line) for line in islice(lines, count))
                read[split] = tuple(
                    Question(**{**fields, "titles": tuple(fields["titles"])}) for fields in parsed
                )
            self._read = read  # at once, since threads share a library
        return self._read

    def _question_lines(self) -> Iterator[bytes]:
        ends = self._compiled.arrays["text_ends"]
        start = int(ends[-1]) if len(ends) else 0
        return iter(bytes(self._compiled.text[start:]).splitlines())


def open_library(sources: Sources, cache: Path | None) -> Library:
    """Return the library of these files, shared by all environments of the process.

    Raise LdmError if a file or the cache cannot be used, or no article is left.
    """
    state = tuple((path.stat().st_size, path.stat().st_mtime_ns) for path in sources.files)
    return _shared(sources.folder, sources.collection, cache, state)


@lru_cache(maxsize=4)
def _shared(folder: Path, collection: Articles, cache: Path | None, state: object) -> Library:
    sources = Sources.find(folder, collection)
    names = [*sources.questions, *(path.name for path in sources.files)]

    def compile_files(text: IO[bytes]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return compile_sources(sources, text)

    return Library(open_compiled(compile_files, sources.files, [FORMAT, collection, names], cache))


def compile_sources(
    sources: Sources, text: IO[bytes]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return arrays and metadata of a library; write articles, then questions, to `text`.

    Raise LdmError if a file cannot be read, or no article is left.
    """
    compiler, ends = Compiler(), [0]
    problems: list[Problem] = []
    questions: dict[str, list[Question]] = {}

    def add(entry: Article | Problem) -> None:
        if isinstance(entry, Problem):
            problems.append(entry)
        elif line := compiler.add(entry):
            text.write(line)
            ends.append(ends[-1] + len(line))

    reader = _read_abstracts if sources.collection == "abstracts" else read_articles
    for path in sources.articles:
        for listed_article in reader(path):
            add(listed_article)
    for split, path in sources.questions.items():
        questions[split] = []
        for entry in read_questions(path):
            if isinstance(entry, Problem):
                problems.append(entry)
                continue
            question, context = entry
            questions[split].append(question)
            if sources.collection == "context":
                for context_article in context:
                    add(context_article)
    if len(ends) == 1:
        raise LdmError(f"{sources.folder} holds no articles.", "Use the official files.")
    for split_questions in questions.values():
        for question in split_questions:
            line = json.dumps(asdict(question), ensure_ascii=False).encode()
            text.write(line + b"\n")
    arrays, digest = compiler.finish()
    arrays["text_ends"] = np.array(ends[1:], dtype=np.int64)
    return arrays, {
        "digest": digest,
        "problems": [[p.file, p.line, p.field, p.message] for p in problems],
        "conflicts": compiler.conflicts,
        "splits": {split: len(of) for split, of in questions.items()},
    }


def _read_abstracts(path: Path) -> Iterator[Article | Problem]:
    """Yield the articles of the archive of abstracts: packed files of JSON lines in a tar file.

    Raise LdmError if the archive is damaged.
    """
    check_file(path)
    try:
        with tarfile.open(path, "r:bz2") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file is None:
                    continue
                name = f"{path}/{member.name}"
                with bz2.open(file) if member.name.endswith(".bz2") else file as content:
                    yield from _abstracts_in(content, name)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise LdmError(
            f"{path} is damaged: {error}.", "Remove it and download it again."
        ) from error


def _abstracts_in(content: IO[bytes], name: str) -> Iterator[Article | Problem]:
    for number, text in lines_of(content):
        one = records.parse(text, Abstract, name, number, foreign=True)
        yield one if isinstance(one, Problem) else article(one.title, one.text)
