"""Pydantic AI: an agent with a capability that recalls before each request, and records.

python examples/frameworks/with_pydantic_ai.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from desk import ARGUMENTS, FINAL, GOAL, ask_for_photo, show
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from ldm.integrations.experience import Experience
from ldm.integrations.pydantic_ai import ExperienceCapability


def play(experience: Experience) -> list[str]:
    prompts: list[str] = []
    replies = iter([ToolCallPart("ask_for_photo", ARGUMENTS), TextPart(FINAL)])

    def reply(messages: Any, info: Any) -> ModelResponse:
        prompts.append(str(info.instructions) + str(messages))
        return ModelResponse([next(replies)])

    capabilities = [ExperienceCapability(experience)]
    agent = Agent(FunctionModel(reply), tools=[ask_for_photo], capabilities=capabilities)
    asyncio.run(agent.run(GOAL))
    return prompts


if __name__ == "__main__":
    show(play)
