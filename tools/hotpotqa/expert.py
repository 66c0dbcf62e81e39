"""An expert that answers as a person would who knows where to look.

It searches the first article as the question names it, goes on over a miss by a listed title,
looks up the supporting sentence where the search does not show it, and then the second article.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ldm.envs.hotpotqa.environment import HotpotQA
from ldm.envs.hotpotqa.world import SHOWN
from ldm.errors import LdmError
from ldm.types import Step, Task, TimeStep, Trajectory

_QUALIFIER = re.compile(r" \([^()]*\)$")
#: Words of a question that a lookup is worth, in letters.
_LONG = 4


def solve(
    env: HotpotQA, task: Task, entry: Mapping[str, Any], articles: Mapping[str, Sequence[str]]
) -> Trajectory:
    """Return the expert's episode of a task.

    entry: the question in the form of the official files. articles: title → sentences.
    Raise LdmError if the answer does not earn everything.
    """
    now = env.reset(task)
    opening, steps = now.observation, []

    def act(action: str) -> TimeStep:
        answer = env.step(action)
        steps.append(Step(action, answer.observation, answer.reward, valid=answer.valid))
        return answer

    read: set[str] = set()
    for title, number in entry["supporting_facts"]:
        if title not in read:
            _open(act, title)
            read.add(title)
        if number >= SHOWN:
            _look_up(act, entry["question"], articles[title][number])
    now = act(f"finish[{entry['answer']}]")
    if now.reward != 1:
        raise LdmError(f"The expert did not answer: {task.goal}", "Look at its two articles.")
    return Trajectory(task, opening, tuple(steps), now.reward, success=True, origin="expert")


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
