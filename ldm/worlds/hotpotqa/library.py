"""Questions and articles of a folder, compiled once and opened from a cache; scores of answers.

A file is a JSON list of objects with `_id` or `id`, `question`, `answer`, `type`, `level`,
`supporting_facts` ([title, number of a sentence], …) and `context` ([title, [sentence, …]], …).
Exact match and F1 are those of HotpotQA's `hotpot_evaluate_v1.py` (Yang et al., arXiv 1809.09600,
§5). `Library` opens the article that a title names, or lists similar titles. It replaces
Wikipedia's search; `docs/decisions/hotpotqa.md` lists the differences.
"""

from __future__ import annotations

import bz2
import hashlib
import json
import random
import re
import string
import tarfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from html import unescape
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import AliasChoices, Field

from ldm import records
from ldm.envs.download import Compiled, open_compiled
from ldm.envs.formats import FieldError, Text, parsed
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.text import check_file, lines_of, read_json
from ldm.types import Task
from ldm.worlds.hotpotqa.world import MAY_REFER, SHOWN, Miss, Page
from ldm.worlds.lucene.search import Index, Indexer

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
#: Answers that are right or wrong as a whole: sharing words with them earns nothing.
_WHOLE = frozenset({"yes", "no", "noanswer"})
#: The most that an answer earns that is no exact match: a success is a score of 1.
MOST_PARTIAL = 0.999


def normalized(answer: str) -> str:
    """Return the words that are compared: small letters, no ASCII punctuation, no articles."""
    words = answer.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def exact(answer: str, gold: str) -> bool:
    """Return whether two answers have the same normalized words."""
    return normalized(answer) == normalized(gold)


def f1(answer: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall over words, in any order, in [0, 1].

    Two empty answers have 0, although they are an exact match, as in the script.
    """
    return precision_recall_f1(answer, gold)[2]


def precision_recall_f1(answer: str, gold: str) -> tuple[float, float, float]:
    """Return precision, recall and F1 over the words of both answers, each in [0, 1]."""
    ours, right = normalized(answer), normalized(gold)
    if ours != right and (ours in _WHOLE or right in _WHOLE):
        return 0.0, 0.0, 0.0
    answer_words, gold_words = ours.split(), right.split()
    common = (Counter(answer_words) & Counter(gold_words)).total()
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / len(answer_words), common / len(gold_words)
    return precision, recall, 2 * precision * recall / (precision + recall)


def reward(answer: str, gold: str, *, partial: bool) -> float:
    """Return the reward of an answer: 1 for an exact match.

    partial: another answer earns its F1, at most MOST_PARTIAL; without it, 0.
    """
    if exact(answer, gold):
        return 1.0
    return min(f1(answer, gold), MOST_PARTIAL) if partial else 0.0


ENV = "hotpotqa"
TRAIN, TRAIN_HARD, DEV_HARD, REACT_500 = "train", "train_hard", "dev_hard", "react_500"
DEMO_TRAIN, DEMO_TEST = "demo_train", "demo_test"
OFFICIAL_SPLITS = (TRAIN, TRAIN_HARD, DEV_HARD, REACT_500)
OWN_SPLITS = (DEMO_TRAIN, DEMO_TEST)
#: Split → names of the file that holds it, the official one first.
FILES = {
    DEV_HARD: ("hotpot_dev_distractor*.json", "dev*.json"),
    TRAIN: ("hotpot_train*.json", "train*.json"),
}
OWN_FILES = {DEMO_TRAIN: ("demo_train.json.gz",), DEMO_TEST: ("demo_test.json.gz",)}
#: Bytes of the largest file; the official training file has 566 MB.
MOST_BYTES = 1 << 31
#: ReAct's 500 questions: the first ones of these numbers in this order.
_REACT_SEED, _REACT_OF, _REACT_COUNT = 233, 7_405, 500


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer.

    titles: of the two articles that the answer follows from, sorted. level: easy, medium or hard.
    """

    id: str
    text: str
    answer: str
    kind: str
    level: str
    titles: tuple[str, ...]

    def task(self, split: str) -> Task:
        """Return the task; agents see no answer, title or level."""
        articles = " | ".join(self.titles)  # a memory and an evaluation must not share them
        return Task(f"{split}/{self.id}", ENV, split, self.text.strip(), self.kind, articles)


#: A title and its sentences.
Article = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A question in a file. supporting_facts: a title and the number of a sentence each."""

    id: Annotated[Text, Field(validation_alias=AliasChoices("_id", "id"))]
    question: Text
    answer: Text
    type: Literal["bridge", "comparison"]
    level: Text
    supporting_facts: Annotated[tuple[tuple[Text, Any], ...], Field(min_length=1)]
    context: tuple[tuple[Text, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Abstract:
    """An article in a file."""

    title: Text
    text: tuple[str, ...]

    def article(self) -> Article:
        """Return the article with its title decoded."""
        return unescape(self.title), self.text


def find_files(folder: Path, names: Mapping[str, Sequence[str]]) -> dict[str, Path]:
    """Return the file of each split that is there: the first match of its names, packed or not.

    Raise LdmError if `folder` holds none.
    """
    files = {}
    for split, patterns in names.items():
        matches = (path for pattern in patterns for path in files_like(folder, pattern))
        if (path := next((path for path in matches if path.is_file()), None)) is not None:
            files[split] = path
    if not files:
        names_of_files = " or ".join(_example(patterns) for patterns in names.values())
        raise LdmError(
            f"{folder} holds no questions of HotpotQA ({names_of_files}).",
            "Use the folder that holds them, or download them: ldm data hotpotqa --to FOLDER.",
        )
    return files


def files_like(folder: Path, pattern: str) -> list[Path]:
    """Return the files of this name and the packed ones, sorted; no part of a download."""
    return sorted([*folder.glob(pattern), *folder.glob(f"{pattern}.gz")])


def _example(patterns: Sequence[str]) -> str:
    """Return the name of the file that these patterns match."""
    return patterns[0].replace("*.json", "….json")


def read_questions(path: Path) -> Iterator[tuple[Question, tuple[Article, ...]] | Problem]:
    """Yield each question with the articles of its context, or the problem with it.

    A problem's line is the number of the question, from 1.
    Raise LdmError if the file cannot be read or is no list.
    """
    entries = read_json(path, most=MOST_BYTES)
    if not isinstance(entries, list):
        raise LdmError(f"{path} is not a list of questions.", "Use an official file.")
    ids: set[str] = set()

    def made(one: Entry) -> tuple[Question, tuple[Article, ...]]:
        if one.id in ids:
            raise FieldError("id", f"{one.id!r} occurs twice")
        ids.add(one.id)
        titles = tuple(sorted({unescape(title) for title, _ in one.supporting_facts}))
        question = Question(one.id, one.question, one.answer, one.type, one.level, titles)
        return question, tuple((unescape(title), text) for title, text in one.context)

    for number, entry in enumerate(entries, start=1):
        yield parsed(json.dumps(entry), Entry, made, str(path), number)


def read_articles(path: Path) -> Iterator[Article | Problem]:
    """Yield the articles of a JSON object, title → sentences; raise LdmError for other JSON."""
    entries = read_json(path, most=MOST_BYTES)
    if not isinstance(entries, dict):
        raise LdmError(f"{path} is not an object of titles and sentences.", "Use another file.")
    for number, (title, text) in enumerate(entries.items(), start=1):
        line = json.dumps({"title": title, "text": text})
        yield parsed(line, Abstract, Abstract.article, str(path), number)


def select(split: str, questions: Mapping[str, Sequence[Question]]) -> tuple[list[Question], int]:
    """Return the questions of a split, and how many were left out of a training split.

    questions: those of each file, by FILES. Raise LdmError if the split's file is missing.
    """
    source = DEV_HARD if split == REACT_500 else TRAIN if split == TRAIN_HARD else split
    if source not in questions:
        raise LdmError(
            f"HotpotQA's split {split} needs a file that is not in the data folder.",
            f"Put {_example(FILES[source])} there: ldm data hotpotqa --size all --to FOLDER.",
        )
    chosen = list(questions[source])
    if split == REACT_500:
        return _react_500(chosen), 0
    if source != TRAIN:
        return chosen, 0
    # A gold article of a test question would be read in training.
    held_back = {title for one in questions.get(DEV_HARD, ()) for title in one.titles}
    disjoint = [one for one in chosen if held_back.isdisjoint(one.titles)]
    left_out = len(chosen) - len(disjoint)
    if split == TRAIN_HARD:
        disjoint = [one for one in disjoint if one.level == "hard"]
    return disjoint, left_out


def _react_500(questions: Sequence[Question]) -> list[Question]:
    if len(questions) != _REACT_OF:
        raise LdmError(
            f"The split {REACT_500} numbers the {_REACT_OF:,} official questions; "
            f"this file has {len(questions):,}.",
            "Download the official one: ldm data hotpotqa --to FOLDER.",
        )
    order = list(range(_REACT_OF))
    random.Random(_REACT_SEED).shuffle(order)
    return [questions[place] for place in order[:_REACT_COUNT]]


#: A title counts as this many mentions in the text.
TITLE_WEIGHT = 10
#: With one of these no title matches, as on Wikipedia.
_NO_TITLE = re.compile(r"[\[\]{}<>|]")
_QUALIFIER = re.compile(r" \([^()]*\)$")
_QUOTES = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "'", "´": "'"}
_DASHES = dict.fromkeys("‐‑‒–—―−", "-")
_TO_ASCII = str.maketrans({**_QUOTES, **_DASHES})
_ENCLOSING = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))


def _typed(title: str) -> str:
    text = " ".join(unicodedata.normalize("NFC", unescape(title)).replace("_", " ").split())
    return text[:1].upper() + text[1:]


def _without_case(title: str) -> str:
    return _typed(title).lower()


def _without_accents(title: str) -> str:
    letters = unicodedata.normalize("NFKD", _without_case(title).translate(_TO_ASCII))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _without_punctuation(title: str) -> str:
    text = _without_accents(title)
    return " ".join("".join(c if c.isalnum() else " " for c in text).split())


#: Normal forms in which equal titles are the same, the strictest first; each is made of the former.
STAGES: tuple[Callable[[str], str], ...] = (
    _typed,
    _without_case,
    _without_accents,
    _without_punctuation,
)


class Compiler:
    """Builder of the arrays of a `Library` from articles that are added one by one.

    problems: of invalid articles and questions. conflicts: titles that have another text, too.
    """

    def __init__(self, text: IO[bytes]) -> None:
        """Start without articles. text: gets a line for each."""
        self.problems: list[Problem] = []
        self.conflicts: dict[str, None] = {}
        self._text = text
        self._ends: list[int] = []
        self._indexer = Indexer()
        self._texts: dict[str, int] = {}
        self._keys: dict[str, list[int]] = {"title": [], "base": []}
        self._qualified: list[int] = []
        self._digest = hashlib.sha256()

    def add(self, article: Article | Problem) -> None:
        """Add an article, unless its title is already there."""
        if isinstance(article, Problem):
            self.problems.append(article)
            return
        title, sentences = article
        line = json.dumps([title, sentences], ensure_ascii=False).encode() + b"\n"
        text = _number(line.decode())
        if self._texts.setdefault(title, text) != text:
            self.conflicts[title] = None
        if len(self._texts) == len(self._ends):
            return
        self._text.write(line)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(line))
        self._digest.update(line)
        self._keys["title"].append(_key(title))
        if (base := _base(title)) != title:
            self._qualified.append(len(self._ends) - 1)
            self._keys["base"].append(_key(base))
        self._indexer.add(" ".join([*[title] * TITLE_WEIGHT, *sentences]))

    def finish(self) -> tuple[dict[str, np.ndarray], str]:
        """Return the arrays and the digest of all articles."""
        order = np.arange(len(self._ends), dtype=np.int32)
        arrays = self._indexer.finish(order)
        arrays["text_ends"] = np.array(self._ends, dtype=np.int64)
        qualified = np.array(self._qualified, dtype=np.int32)
        for name, places in (("title", order), ("base", qualified)):
            keys = np.array(self._keys[name], dtype=np.uint64)
            sequence = np.argsort(keys, kind="stable")
            arrays[f"{name}_keys"], arrays[f"{name}_places"] = keys[sequence], places[sequence]
        return arrays, self._digest.hexdigest()[:16]


def _base(title: str) -> str:
    """Return a title without a qualifier, as in NAME (…)."""
    return _QUALIFIER.sub("", title)


def _key(title: str) -> int:
    """Return 64 bits of a title's loosest form; what is equal in a stricter one has the same."""
    return _number(_without_punctuation(title))


def _number(text: str) -> int:
    """Return 64 bits that depend on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def _unquoted(query: str) -> Iterator[str]:
    yield query
    text = query.strip()
    for left, right in _ENCLOSING:
        if len(text) > 1 and text.startswith(left) and text.endswith(right):
            yield text[1:-1]


Articles = Literal["context", "abstracts"]
#: Increased when the same files yield different arrays than before.
FORMAT = "2"
#: The folder of our own world.
OWN_DATA = Path(__file__).parent / "demo"
ABSTRACTS = "enwiki-*-abstracts.tar.bz2"
_MORE_ARTICLES = "wiki_articles*.json"


class Sources(NamedTuple):
    """The files of a folder. questions: by split. articles: further ones, in order."""

    folder: Path
    questions: Mapping[str, Path]
    articles: tuple[Path, ...]
    collection: Articles

    @classmethod
    def find(cls, folder: Path, collection: Articles) -> Sources:
        """Return the files in `folder`; raise LdmError without questions, or without an archive."""
        questions = find_files(folder, OWN_FILES if folder == OWN_DATA else FILES)
        if collection == "context":
            return cls(folder, questions, tuple(files_like(folder, _MORE_ARTICLES)), collection)
        if not (articles := tuple(sorted(folder.glob(ABSTRACTS)))):
            raise LdmError(
                f"{folder} holds no archive of abstracts ({ABSTRACTS}).",
                "Download it: ldm data hotpotqa --size abstracts --to FOLDER.",
            )
        return cls(folder, questions, articles, collection)

    @property
    def files(self) -> tuple[Path, ...]:
        return (*self.articles, *self.questions.values())


class Library:
    """The questions of each file, and the articles that are searched.

    Nothing in it changes, so environments and threads share it. digest: a hash of all articles.
    problems: the invalid questions and articles, which were left out. conflicts: the titles that
    came again with another text; the first text stays.
    """

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._arrays: Mapping[str, np.ndarray] = compiled.arrays
        self._index = Index(compiled.arrays)
        self.digest: str = compiled.meta["digest"]
        self.problems = tuple(Problem(*fields) for fields in compiled.meta["problems"])
        self.conflicts: Sequence[str] = compiled.meta["conflicts"]

    @cached_property
    def questions(self) -> Mapping[str, Sequence[Question]]:
        """The questions of each file, by its split."""
        lines = iter(bytes(self._compiled.text[int(self._arrays["text_ends"][-1]) :]).splitlines())
        return {
            split: tuple(records.loads(line, Question) for line in islice(lines, count))
            for split, count in self._compiled.meta["splits"].items()
        }

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, place: int) -> Article:
        title, sentences = self._compiled.value(place)
        return title, tuple(sentences)

    def ask(self, query: str) -> Page | Miss:
        """Return the article with this title, or the titles to choose from."""
        place = self.place(query)
        if place is not None:
            title, sentences = self[place]
            text = "".join(sentences)
            if MAY_REFER not in text:
                return Page.of((text.strip(),))
            return Miss(self._with_similar(self._called("base", title), query), ambiguous=True)
        meant = () if _NO_TITLE.search(query) else self._called("base", query)
        several = len(meant) > 1
        return Miss(self._with_similar(meant if several else (), query), ambiguous=several)

    def place(self, query: str) -> int | None:
        """Return the number of the article that a query opens, or None.

        Enclosing quotation marks come off if no title equals it; ties go by the order of articles.
        """
        if _NO_TITLE.search(query):
            return None
        places = (place for text in _unquoted(query) for place in self._called("title", text))
        return next(places, None)

    def _called(self, name: str, text: str) -> Sequence[int]:
        """Return the articles with this title, or "base" of one, by the first stage with any."""
        keys, value = self._arrays[f"{name}_keys"], np.uint64(_key(text))
        low, high = np.searchsorted(keys, value), np.searchsorted(keys, value, side="right")
        places: list[int] = self._arrays[f"{name}_places"][low:high].tolist()
        titles = [self[place][0] for place in places]
        names = titles if name == "title" else list(map(_base, titles))
        for stage in STAGES:
            sought = stage(text)
            same = [place for place, own in zip(places, names, strict=True) if stage(own) == sought]
            if same and sought:
                return same
        return ()

    def _with_similar(self, first: Sequence[int], query: str) -> tuple[str, ...]:
        """Return SHOWN titles: of the first articles, then of those with the query's words."""
        places = list(first[:SHOWN])
        for place in self._index.search(query, SHOWN + len(places)):
            if len(places) < SHOWN and place not in places:
                places.append(place)
        return tuple(self[place][0] for place in places)


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
    compiling = partial(compile_sources, sources)
    return Library(open_compiled(compiling, sources.files, [FORMAT, collection, names], cache))


def compile_sources(
    sources: Sources, text: IO[bytes]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return arrays and metadata of a library; write articles, then questions, to `text`.

    Raise LdmError if a file cannot be read, or no article is left.
    """
    compiler = Compiler(text)
    questions: dict[str, list[Question]] = {}
    reader = _read_abstracts if sources.collection == "abstracts" else read_articles
    for one in chain.from_iterable(map(reader, sources.articles)):
        compiler.add(one)
    for split, path in sources.questions.items():
        questions[split] = []
        for entry in read_questions(path):
            if isinstance(entry, Problem):
                compiler.add(entry)
                continue
            question, context = entry
            questions[split].append(question)
            for one in context if sources.collection == "context" else ():
                compiler.add(one)
    arrays, digest = compiler.finish()
    if not len(arrays["text_ends"]):
        raise LdmError(f"{sources.folder} holds no articles.", "Use the official files.")
    for question in chain.from_iterable(questions.values()):
        text.write(records.dumps(question).encode() + b"\n")
    return arrays, {
        "digest": digest,
        "problems": [[p.file, p.line, p.field, p.message] for p in compiler.problems],
        "conflicts": list(compiler.conflicts),
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
                    for number, text in lines_of(content):
                        yield parsed(text, Abstract, Abstract.article, name, number)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise LdmError(
            f"{path} is damaged: {error}.", "Remove it and download it again."
        ) from error
