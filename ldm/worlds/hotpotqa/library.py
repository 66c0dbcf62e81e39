"""Questions and articles of a folder, compiled once and opened from a cache."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from ldm.envs.cache import Compiled, open_compiled
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.worlds.hotpotqa.articles import Collection, Compiler
from ldm.worlds.hotpotqa.questions import (
    FILES,
    OWN_FILES,
    Article,
    Question,
    files_like,
    find_files,
    read_articles,
    read_questions,
)

#: Increased when the same files yield different arrays than before.
FORMAT = "1"
#: The folder of our own world.
OWN_DATA = Path(__file__).parent / "demo"
_MORE_ARTICLES = "wiki_articles*.json"


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a folder. questions: by split. articles: further ones, in order."""

    folder: Path
    questions: Mapping[str, Path]
    articles: tuple[Path, ...]

    @classmethod
    def find(cls, folder: Path) -> Sources:
        """Return the files in `folder`; raise LdmError without questions."""
        questions = find_files(folder, OWN_FILES if folder == OWN_DATA else FILES)
        return cls(folder, questions, tuple(files_like(folder, _MORE_ARTICLES)))

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
    return _shared(sources.folder, cache, state)


@lru_cache(maxsize=4)
def _shared(folder: Path, cache: Path | None, state: object) -> Library:
    sources = Sources.find(folder)
    names = [*sources.questions, *(path.name for path in sources.files)]
    compile_files = partial(compile_sources, sources)
    return Library(open_compiled(compile_files, sources.files, [FORMAT, names], cache))


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

    for path in sources.articles:
        for listed_article in read_articles(path):
            add(listed_article)
    for split, path in sources.questions.items():
        questions[split] = []
        for entry in read_questions(path):
            if isinstance(entry, Problem):
                problems.append(entry)
                continue
            question, context = entry
            questions[split].append(question)
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
