"""An expert that answers as a person would who knows where to look.

It searches the article that the question names, goes on over a miss by its whole title, looks up
the supporting sentence where the search does not show it, and then does so with the other article.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from ldm.records import Problem
from ldm.text import read_json
from ldm.types import Step, Task, TimeStep, Trajectory
from ldm.worlds.hotpotqa.environment import HotpotQA
from ldm.worlds.hotpotqa.library import MOST_BYTES, Sources, read_articles, read_questions
from ldm.worlds.hotpotqa.world import SHOWN

_QUALIFIER = re.compile(r" \([^()]*\)$")
#: Words of a question that a lookup is worth, in letters.
_LONG = 4


def solve(
    env: HotpotQA, task: Task, entry: Mapping[str, Any], articles: Mapping[str, Sequence[str]]
) -> Trajectory:
    """Return the expert's episode of a task.

    entry: the question in the form of the official files; titles may be escaped as they are there.
    articles: title → sentences.
    Raise LdmError if the answer does not earn everything.
    """
    now = env.reset(task)
    opening, steps = now.observation, []

    def act(action: str) -> TimeStep:
        answer = env.step(action)
        steps.append(Step(action, answer.observation, answer.reward, valid=answer.valid))
        return answer

    for title, numbers in _reading_order(entry).items():
        _open(act, title)
        for number in numbers:
            if SHOWN <= number < len(articles[title]):
                _look_up(act, entry["question"], articles[title][number])
    now = act(f"finish[{entry['answer']}]")
    if now.reward != 1:
        raise LdmError(f"The expert did not answer: {task.goal}", "Look at its two articles.")
    return Trajectory(task, opening, tuple(steps), now.reward, success=True, origin="expert")


def official_texts(folder: Path) -> tuple[dict[str, Sequence[str]], dict[str, dict[str, Any]]]:
    """Return the articles of a folder, title → sentences, and its questions, id → entry.

    Raise LdmError if a file cannot be read.
    """
    sources = Sources.find(folder, "context")
    articles: dict[str, Sequence[str]] = {}
    for path in sources.articles:
        for one in read_articles(path):
            if not isinstance(one, Problem):
                articles.setdefault(*one)
    entries = {}
    for path in sources.questions.values():
        for entry in read_json(path, most=MOST_BYTES):
            entries[entry.get("_id") or entry["id"]] = entry
        for listed in read_questions(path):
            for one in () if isinstance(listed, Problem) else listed[1]:
                articles.setdefault(*one)
    return articles, entries


def _reading_order(entry: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return title → numbers of supporting sentences, articles that the question names first."""
    numbers: dict[str, list[int]] = {}
    for title, number in entry["supporting_facts"]:
        numbers.setdefault(unescape(title), []).append(number)

    def unnamed(title: str) -> bool:
        return _QUALIFIER.sub("", title).lower() not in entry["question"].lower()

    return {title: numbers[title] for title in sorted(numbers, key=unnamed)}


def _open(act: Any, title: str) -> None:
    """Search an article by its name, and by its whole title where several have that name."""
    name = _QUALIFIER.sub("", title)
    listed = act(f"search[{name}]").observation
    if name != title and listed.startswith("Could not find "):
        act(f"search[{title}]")


def _look_up(act: Any, question: str, sentence: str) -> None:
    """Look up words of the question until the sentence shows."""
    words = {word for word in re.findall(r"\w+", question.lower()) if len(word) >= _LONG}
    shared = [word for word in re.findall(r"\w+", sentence) if word.lower() in words]
    if not shared:
        return
    keyword = max(shared, key=len)
    for _ in range(SHOWN):
        observation = act(f"lookup[{keyword}]").observation
        if sentence.strip() in observation or not observation.startswith("(Result"):
            return
