"""Strands Agents: a store for its memory manager that recalls, and hooks that record.

store = ExperienceStore(Experience(memory, score))
agent = Agent(model, tools, memory_manager=MemoryManager([store]), hooks=[store.hooks])
"""

from __future__ import annotations

import asyncio
from typing import Any

from strands import hooks
from strands.memory.types import MemoryEntry, MemoryStore

from ldm.integrations.experience import Attempt, Experience, as_json


class ExperienceStore(MemoryStore):
    """What was done in similar situations, for the search and the injection of Strands.

    hooks: for the agent; they record its runs.
    """

    writable = False
    extraction = None

    def __init__(self, experience: Experience, name: str = "experience") -> None:
        """Take the memory, how runs are scored, and the name of the store among several."""
        self.name, self.description = name, "What was done in similar situations, and how it went."
        self.max_search_results = experience.k
        self.hooks = ExperienceHooks(experience)
        self._experience = experience

    async def search(self, query: str, options: Any = None) -> list[MemoryEntry]:
        """Recall what was done in situations like the query."""
        one = self._experience
        k = (options or {}).get("max_search_results") or one.k
        quoted = await asyncio.to_thread(one.quoted, query, k, one.scope)
        return [MemoryEntry(text, metadata={"id": recall.id}) for recall, text in quoted]


class ExperienceHooks(hooks.HookProvider):
    """Records each run of an agent; what its user said last is the goal."""

    def __init__(self, experience: Experience) -> None:
        """Take the memory, and how runs are scored: of the agent's result."""
        self._experience = experience
        self._attempts: dict[int, Attempt] = {}

    def register_hooks(self, registry: hooks.HookRegistry, **more: Any) -> None:
        """Register the callbacks."""
        registry.add_callback(hooks.BeforeInvocationEvent, self._began)
        registry.add_callback(hooks.AfterToolCallEvent, self._acted)
        registry.add_callback(hooks.AfterInvocationEvent, self._ended)

    def _began(self, event: hooks.BeforeInvocationEvent) -> None:
        parts = event.messages[-1]["content"] if event.messages else []
        goal = "\n".join(part["text"] for part in parts if "text" in part)
        self._attempts[id(event.agent)] = self._experience.begin(goal)

    def _acted(self, event: hooks.AfterToolCallEvent) -> None:
        parts = event.result["content"]
        result = "\n".join(part.get("text") or str(as_json(part)) for part in parts)
        call = event.tool_use
        self._attempts[id(event.agent)].acted(call["name"], call["input"], result)

    def _ended(self, event: hooks.AfterInvocationEvent) -> None:
        attempt = self._attempts.pop(id(event.agent))
        if event.result is not None:  # else it was interrupted by an error
            attempt.finished(str(event.result).strip())
