"""The HotpotQA environment: splits, tasks and scores on top of the answers to actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from ldm.envs._base import ListedEnvironment
from ldm.envs.metadata import declared
from ldm.errors import LdmError
from ldm.types import Card, Task, TimeStep, stable_hash
from ldm.worlds.hotpotqa import library
from ldm.worlds.hotpotqa.library import OWN_SPLITS, Library, Question, Sources
from ldm.worlds.hotpotqa.world import FINISHED, Reading, apply_action

CARD, METADATA = declared(__file__)


#: The source and licence of the official questions and articles.
LICENCE = "HotpotQA (hotpotqa.github.io), text of Wikipedia, CC BY-SA 4.0"
Score = Literal["f1", "em"]


@dataclass(frozen=True, slots=True)
class HotpotQAOptions:
    """Options of HotpotQA.

    score: reward of an answer that is not an exact match: "f1" its F1, at most 0.999, "em" none.
    articles: "context" has the paragraphs that come with the questions, "abstracts" the
    introductions of all of Wikipedia in 2017. cache: without one, articles are compiled each time.
    """

    data: Annotated[str | None, "Folder with the official questions"] = None
    score: Annotated[Score, "Reward of an answer that is no exact match: F1 or none"] = "f1"
    articles: Annotated[library.Articles, "Articles that are searched"] = "context"
    cache: Annotated[str | None, "Folder for compiled articles"] = None


class HotpotQA(ListedEnvironment[Question]):
    """Questions over two articles, with ReAct's three actions (Yao et al., arXiv 2210.03629).

    Articles come from a fixed collection, without the network. An episode's score is the F1 of its
    answer, and its success an exact match. Actions are not listed, as their texts are free.
    """

    card: Card = CARD
    paper = "HotpotQA, arXiv 1809.09600, with ReAct's actions, arXiv 2210.03629"
    needs = "nothing for the demo splits; else the questions (ldm data hotpotqa)"
    default_split = library.DEV_HARD
    train_splits = (library.TRAIN, library.TRAIN_HARD, library.DEMO_TRAIN)
    splits = (*OWN_SPLITS, *library.OFFICIAL_SPLITS)
    metadata = METADATA
    Options = HotpotQAOptions
    options: HotpotQAOptions
    _question: Question
    _library: Library
    _reading: Reading
    _done: bool

    def _start(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the question."""
        question = self._game(task)
        self._question, self._library = question, self._open(task.id.partition("/")[0])
        self._reading, self._done = Reading(), False
        return TimeStep(f"Question: {question.text}")

    def _act(self, action: str) -> TimeStep:
        """Carry out an action; `finish` ends the task and earns the score of its answer."""
        if self._done:
            return TimeStep(FINISHED, done=True)
        reply = apply_action(action, self._reading, self._library.ask)
        self._reading = reply.reading
        if reply.answer is None:
            return TimeStep(reply.text, valid=reply.valid)
        self._done = True
        partial = self.options.score == "f1"
        earned = library.reward(reply.answer, self._question.answer, partial=partial)
        return TimeStep(reply.text, reward=earned, done=True)

    def solution(self, task: Task) -> str:
        """Return the answer of a training task and the articles it follows from.

        AutoPlan's optimisation shows both to its reflections, as the authors' code does.
        Raise LdmError for any other task.
        """
        if task.split not in self.train_splits:
            raise LdmError(
                f"The answer to {task.id!r} is not disclosed: it is not a training task.",
                f"Use a task of {', '.join(self.train_splits)}.",
            )
        question = self._game(task)
        titles = " and ".join(f'"{title}"' for title in question.titles)
        return f'The answer is "{question.answer}". It follows from the articles {titles}.'

    def _conditions(self) -> Mapping[str, Any]:
        official = sorted(set(self._digests) - set(OWN_SPLITS))
        own = sorted(set(self._digests) & set(OWN_SPLITS))
        opened = [self._open(splits[0]) for splits in (official, own) if splits]
        return {
            "score": self.options.score,
            "articles": self.options.articles,
            "admissible": False,
            # A larger collection is a harder search.
            "collection": [[len(one), one.digest] for one in opened],
            "licence": LICENCE if official else "",
        }

    def _games(self, split: str) -> Iterator[tuple[Task, Question]]:
        """Yield the tasks of a split in the order of their file."""
        questions = self._open(split).questions
        chosen = questions[split] if split in OWN_SPLITS else library.select(split, questions)[0]
        return ((question.task(split), question) for question in chosen)

    def _digest(self, games: list[Question]) -> str:
        return stable_hash([(one.id, one.text, one.answer) for one in games])

    def _open(self, split: str) -> Library:
        cache = Path(self.options.cache) if self.options.cache else None
        if split in OWN_SPLITS:
            return library.open_library(Sources.find(library.OWN_DATA, "context"), cache)
        if not self.options.data:
            raise LdmError(
                f"HotpotQA's split {split!r} needs the official questions, and no folder is set.",
                "Download them with `ldm data hotpotqa --to FOLDER` and set HOTPOTQA_DATA (or "
                f"--env.data PATH), or use the split {library.DEMO_TEST}.",
            )
        folder = Path(self.options.data)
        return library.open_library(Sources.find(folder, self.options.articles), cache)
