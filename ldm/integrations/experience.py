"""A memory inside an agent's loop: advice before it decides, its calls of tools as steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ldm.memory.growing import GrowingMemory
from ldm.memory.recalls import Recalls
from ldm.memory.recording import Content, Recording
from ldm.types import Recall


@dataclass(frozen=True)
class Experience:
    """How agents use a memory.

    score: returns the score of a run from its output, in [0, 1], or None if it is not known yet:
        then the episode stays in `memory.unfinished`, and `memory.resume(id).finish(…)` ends it.
    kind, scope, tags: of its episodes; within the scope alone is recalled.
    k, max_tokens: of the advice.
    """

    memory: GrowingMemory
    score: Callable[[Any], float | None] = lambda _: None
    kind: str = ""
    scope: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    k: int = 5
    max_tokens: int = 1_000

    def begin(self, goal: Content) -> Attempt:
        """Begin an episode; it is on the disk at once."""
        episode = self.memory.begin(goal, self.kind, scope=self.scope, tags=self.tags)
        return Attempt(self, episode)

    def quoted(self, query: str, k: int, where: Mapping[str, str]) -> list[tuple[Recall, str]]:
        """Return what resembles a query, each with its text for a prompt."""
        recalls = self.memory.recall(query, query, k, where=where or None)
        texts = [Recalls(query, query, (one,)).as_prompt(self.max_tokens) for one in recalls]
        return list(zip(recalls, texts, strict=True))

    def resume(self, episode: str) -> Attempt:
        """Continue an episode by its id."""
        return Attempt(self, self.memory.resume(episode))


@dataclass
class Attempt:
    """An episode in progress, which `Experience.begin` began.

    observation: what the agent saw last.
    """

    experience: Experience
    episode: Recording
    observation: Content = ""

    def advice(self) -> str:
        """Return what was done in similar situations as text for a prompt, "" if nothing was."""
        one = self.experience
        past = [(step.observation, step.action) for step in self.episode.steps]
        recalls = one.memory.recall(
            self.episode.goal, self.observation, one.k, past, where=one.scope or None
        )
        return recalls.as_prompt(one.max_tokens)

    def acted(self, tool: str, arguments: Any, result: Any) -> None:
        """Record a call of a tool; its result is what is seen next."""
        self.episode.step(self.observation, {"tool": tool, "arguments": as_json(arguments)})
        self.observation = as_json(result)

    def finished(self, output: Any, judged: Any = None) -> None:
        """Record the final answer and, if it is known, the score: of `judged`, or of the answer."""
        self.episode.step(self.observation, {"answer": as_json(output)})
        score = self.experience.score(output if judged is None else judged)
        if score is not None:
            self.episode.finish(score)


def as_json(value: Any) -> Any:
    """Return a text or JSON value for anything that tools take or give."""
    if isinstance(value, str):
        return value
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    elif not isinstance(value, dict | list):
        return str(value)
    return json.loads(json.dumps(value, default=str))
