"""Questions: the official files, those of our own small world, and the score of an answer.

A file is a JSON list of objects with `_id` or `id`, `question`, `answer`, `type`, `level`,
`supporting_facts` ([title, number of a sentence], …) and `context` ([title, [sentence, …]], …).
Exact match and F1 are those of HotpotQA's `hotpot_evaluate_v1.py` (Yang et al., arXiv 1809.09600,
§5).
"""

from __future__ import annotations

import html
import json
import random
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from ldm import records
from ldm.envs.formats import Text
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.text import read_json
from ldm.types import Task

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

    @property
    def source(self) -> str:
        """The two articles, which a memory and an evaluation must not share."""
        return " | ".join(self.titles)

    @property
    def opening(self) -> str:
        return f"Question: {self.text}"

    def task(self, split: str) -> Task:
        """Return the task; agents see no answer, title or level."""
        return Task(
            f"{split}/{self.id}", ENV, split, self.text.strip(), self.kind, source=self.source
        )


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
    for number, entry in enumerate(entries, start=1):
        one = records.parse(json.dumps(entry), Entry, str(path), number, foreign=True)
        if isinstance(one, Entry) and one.id in ids:
            one = Problem(str(path), number, "id", f"{one.id!r} occurs twice")
        if isinstance(one, Problem):
            yield one
            continue
        ids.add(one.id)
        titles = {html.unescape(title) for title, _ in one.supporting_facts}
        question = Question(
            one.id, one.question, one.answer, one.type, one.level, tuple(sorted(titles))
        )
        yield question, tuple(article(*part) for part in one.context)


def read_articles(path: Path) -> Iterator[Article | Problem]:
    """Yield the articles of a JSON object, title → sentences; raise LdmError for other JSON."""
    entries = read_json(path, most=MOST_BYTES)
    if not isinstance(entries, dict):
        raise LdmError(f"{path} is not an object of titles and sentences.", "Use another file.")
    for number, (title, text) in enumerate(entries.items(), start=1):
        line = json.dumps({"title": title, "text": text})
        one = records.parse(line, Abstract, str(path), number, foreign=True)
        yield one if isinstance(one, Problem) else article(one.title, one.text)


def article(title: str, sentences: Sequence[str]) -> Article:
    """Return an article with its title decoded."""
    return html.unescape(title), tuple(sentences)


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
