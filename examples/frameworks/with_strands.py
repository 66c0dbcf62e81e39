"""Strands Agents: a store of the memory manager, and hooks that record.

python examples/frameworks/with_strands.py
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from desk import ARGUMENTS, FINAL, GOAL, ask_for_photo, show
from strands import Agent, tool
from strands.memory import MemoryManager
from strands.models import Model

from ldm.integrations.experience import Experience
from ldm.integrations.strands import ExperienceStore


class Scripted(Model):
    def __init__(self) -> None:
        self.prompts: list[str] = []

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **more: Any) -> AsyncIterator[Any]:
        self.prompts.append(str(messages))
        first = len(self.prompts) == 1
        call = {"toolUse": {"toolUseId": "1", "name": "ask_for_photo"}}
        delta = {"toolUse": {"input": json.dumps(ARGUMENTS)}} if first else {"text": FINAL}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": call if first else {}}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if first else "end_turn"}}


def play(experience: Experience) -> list[str]:
    model, store = Scripted(), ExperienceStore(experience)
    manager = MemoryManager([store], search_tool_config=False)
    tools = [tool(ask_for_photo)]
    agent = Agent(
        model, tools=tools, memory_manager=manager, hooks=[store.hooks], callback_handler=None
    )
    agent(GOAL)
    return model.prompts


if __name__ == "__main__":
    show(play)
