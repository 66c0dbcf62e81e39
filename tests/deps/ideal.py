"""Ideal planners: they reply in turn, or with a plan that fits what failed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldm.agents import Resources
from ldm.deps import DepsAgent
from ldm.deps.select import NOTE
from ldm.deps.styles import DepsOptions
from ldm.llm import Message, Sampling
from ldm.reporting import noted
from ldm.types import EpisodeResult, Task, Trajectory
from tests.agents.loop_contract import played
from tests.agents.scripted import Scripted


@dataclass
class Ideal:
    """plans: replies of the planner, one after the other; then the last again.

    explains: what the explainer replies to a description, by the first of these that is in it.
    requests: what it was asked for, in order: "plan", "explain", "parse" or "do".
    """

    plans: Sequence[str]
    explains: Mapping[str, str] = field(default_factory=dict)
    executes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parses: str = "none"
    requests: list[str] = field(default_factory=list)

    def model(self) -> Scripted:
        return Scripted(self.reply)

    def reply(self, messages: Sequence[Message], sampling: Sampling) -> str:
        system, question = messages[0].content, messages[-1].content
        if "You find out why" in system:
            self.requests.append("explain")
            return next((why for sign, why in self.explains.items() if sign in question), "")
        if "You take a step of a plan apart" in system:
            self.requests.append("parse")
            return self.parses
        if "You do a task" in system:
            self.requests.append("do")
            return self._executed(question)
        self.requests.append("plan")
        return self.plans[min(self.requests.count("plan"), len(self.plans)) - 1]

    def _executed(self, question: str) -> str:
        task = re.findall(r"<task>\n(.*?)\n</task>", question, re.DOTALL)[-1]
        if task not in self.executes:
            return "Act: task failed"
        steps = question.rpartition("<so-far>")[2].count("\nAct:")
        actions = self.executes[task]
        return f"Act: {actions[steps]}" if steps < len(actions) else "Act: task completed"


def play(
    env: Any, llm: Scripted, task: Task | None = None, **options: Any
) -> tuple[EpisodeResult, Trajectory, list[dict[str, Any]]]:
    """An episode of the agent: its result, its only trial, and the rounds in its record."""
    embedding = options.pop("embedding", None)
    resources = Resources(llm=llm, planner=llm, embedding=embedding)
    agent = DepsAgent(DepsOptions(**options), resources)
    result, (trial,) = played(agent, env, task or env.tasks("test")[0])
    data = noted(result, NOTE)
    assert data is not None
    return result, trial, list(data["rounds"])
