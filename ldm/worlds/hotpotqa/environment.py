"""The HotpotQA environment: splits, tasks and scores on top of what actions answer."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from ldm.envs.metadata import DataSource, Metadata, ShippedSplits
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.types import Answer, Card, Task, TimeStep, Trajectory
from ldm.worlds.hotpotqa.card import CARD
from ldm.worlds.hotpotqa.library import OWN_DATA, Articles, Library, Sources, open_library
from ldm.worlds.hotpotqa.questions import (
    DEMO_TEST,
    DEMO_TRAIN,
    DEV_HARD,
    ENV,
    OFFICIAL_SPLITS,
    OWN_SPLITS,
    TRAIN,
    TRAIN_HARD,
    Question,
    digest,
    select,
)
from ldm.worlds.hotpotqa.scoring import reward
from ldm.worlds.hotpotqa.world import FINISHED, Reading, apply_action, given_answer

#: Increased when the same data yield other texts, rewards or splits than before.
VERSION = "1"
#: Whose the official questions and articles are.
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
    articles: Annotated[Articles, "Articles that are searched"] = "context"
    cache: Annotated[str | None, "Folder for compiled articles"] = None

    def __post_init__(self) -> None:
        for name, allowed in (("score", get_args(Score)), ("articles", get_args(Articles))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is one of {', '.join(allowed)}")


class HotpotQA(EnvironmentBase):
    """Questions over two articles, with ReAct's three actions (Yao et al., arXiv 2210.03629).

    Articles come from a fixed collection, without the network. An episode's score is the F1 of its
    answer, and its success an exact match. Actions are not listed, as their texts are free.
    """

    card: Card = CARD
    paper = "HotpotQA, arXiv 1809.09600, with ReAct's actions, arXiv 2210.03629"
    needs = "nothing for the demo splits; else the questions (ldm data get hotpotqa)"
    default_split = DEV_HARD
    train_splits = (TRAIN, TRAIN_HARD, DEMO_TRAIN)
    metadata = Metadata(
        data=DataSource(
            "ldm.worlds.hotpotqa.data",
            variable="HOTPOTQA_DATA",
            holds="hotpot_dev_distractor_v1.json",
            remedy=(
                "Set it to the folder of hotpot_dev_distractor_v1.json; "
                "`ldm data get hotpotqa` downloads it."
            ),
            sizes={
                "dev": "questions of the dev split",
                "all": "with training questions",
                "abstracts": "with the introductions of all articles",
            },
        ),
        shipped=ShippedSplits(explore=DEMO_TRAIN, test=DEMO_TEST),
    )
    Options = HotpotQAOptions
    options: HotpotQAOptions

    def __init__(self, options: HotpotQAOptions | None = None) -> None:
        self.options = options or HotpotQAOptions()
        self._questions: dict[str, dict[str, Question]] = {}
        self._digests: dict[str, str] = {}
        self._question: Question | None = None
        self._library: Library | None = None
        self._reading = Reading()
        self._done = False

    def protocol(self) -> Mapping[str, Any]:
        """Return what makes scores comparable: questions, the articles searched, and the score."""
        official = sorted(set(self._digests) - set(OWN_SPLITS))
        own = sorted(set(self._digests) & set(OWN_SPLITS))
        opened = [self._open(splits[0]) for splits in (official, own) if splits]
        return {
            "environment": ENV,
            "version": VERSION,
            "score": self.options.score,
            "articles": self.options.articles,
            "admissible": False,
            # A larger collection is a harder search.
            "collection": [[len(library.collection), library.digest] for library in opened],
            "data": dict(sorted(self._digests.items())),
            "licence": LICENCE if official else "",
        }

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split, in the order of their file.

        Raise LdmError for an unknown split, and for data that are missing or damaged.
        """
        questions = self._listed(split)
        self._digests[split] = digest(list(questions.values()))
        return tuple(question.task(split) for question in questions.values())

    def reset(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the question."""
        self._question = None
        question = self._question_of(task)
        self._question, self._library = question, self._open(task.id.partition("/")[0])
        self._reading, self._done = Reading(), False
        return TimeStep(question.opening)

    def step(self, action: str) -> TimeStep:
        """Carry out an action; `finish` ends the task and earns the score of its answer."""
        if self._question is None or self._library is None:
            raise RuntimeError("no task is running: call reset first")
        if self._done:
            return TimeStep(FINISHED, done=True)
        reply = apply_action(action, self._reading, self._library.collection)
        self._reading = reply.reading
        if reply.answer is None:
            return TimeStep(reply.text, valid=reply.valid)
        self._done = True
        partial = self.options.score == "f1"
        earned = reward(reply.answer, self._question.answer, partial=partial)
        return TimeStep(reply.text, reward=earned, done=True)

    def localize(self, text: str) -> str:
        """Return `text`, as HotpotQA has only one dialect."""
        return text

    def fork(self) -> HotpotQA:
        """Return a copy in the same state. What is open is never modified, only replaced."""
        return copy.copy(self)

    def close(self) -> None:
        self._question = None

    def solution(self, task: Task) -> str:
        """Return the answer of a training task and the articles it follows from.

        AutoPlan's optimisation shows both to its reflections, as the authors' code does.
        Raise LdmError for any other task: nobody is told its answer.
        """
        if task.split not in self.train_splits:
            raise LdmError(
                f"The answer to {task.id!r} is not disclosed: it is not a training task.",
                f"Use a task of {', '.join(self.train_splits)}.",
            )
        question = self._question_of(task)
        titles = " and ".join(f'"{title}"' for title in question.titles)
        return f'The answer is "{question.answer}". It follows from the articles {titles}.'

    def answer(self, trajectory: Trajectory) -> Answer | None:
        """Return what a judge compares: question, right answer and given answer."""
        question = self._question_of(trajectory.task)
        given = given_answer(trajectory.steps[-1].action) if trajectory.steps else None
        return None if given is None else Answer(question.text, question.answer, given)

    def _question_of(self, task: Task) -> Question:
        question = self._listed(task.id.partition("/")[0]).get(task.id)
        if question is None:
            raise LdmError(
                f"HotpotQA has no task {task.id!r}.", f"Use a task of the split {task.split}."
            )
        return question

    def _listed(self, split: str) -> dict[str, Question]:
        if split not in self._questions:
            if split in OWN_SPLITS:
                chosen = list(self._open(split).questions[split])
            elif split in OFFICIAL_SPLITS:
                chosen, _ = select(split, self._open(split).questions)
            else:
                known = ", ".join((*OWN_SPLITS, *OFFICIAL_SPLITS))
                raise LdmError(f"HotpotQA has no split {split!r}.", f"Known splits: {known}.")
            self._questions[split] = {f"{split}/{one.id}": one for one in chosen}
        return self._questions[split]

    def _open(self, split: str) -> Library:
        cache = Path(self.options.cache) if self.options.cache else None
        if split in OWN_SPLITS:
            return open_library(Sources.find(OWN_DATA, "context"), cache)
        if not self.options.data:
            raise LdmError(
                f"HotpotQA's split {split!r} needs the official questions, and no folder is set.",
                "Download them with `ldm data get hotpotqa` and set HOTPOTQA_DATA (or "
                f"--set env.data=PATH), or use the split {DEMO_TEST}.",
            )
        folder = Path(self.options.data)
        return open_library(Sources.find(folder, self.options.articles), cache)
