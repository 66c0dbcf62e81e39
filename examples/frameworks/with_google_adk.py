"""Google's Agent Development Kit: a memory service, which the tool `preload_memory` asks.

python examples/frameworks/with_google_adk.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from desk import ARGUMENTS, FINAL, GOAL, ask_for_photo, show
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import preload_memory
from google.genai import types
from pydantic import Field

from ldm.integrations.experience import Experience
from ldm.integrations.google_adk import ExperienceService


class Scripted(BaseLlm):
    prompts: list[str] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncIterator[Any]:
        self.prompts.append(str(llm_request.contents))
        call = types.FunctionCall(name="ask_for_photo", args=ARGUMENTS)
        part = types.Part(text=FINAL) if len(self.prompts) > 1 else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def run(experience: Experience, user: str = "u") -> list[str]:
    """Let the agent play a session of a user; then keep the session."""
    sessions, service = InMemorySessionService(), ExperienceService(experience)
    model = Scripted(model="scripted")
    agent = LlmAgent(name="desk", model=model, tools=[ask_for_photo, preload_memory])
    runner = Runner(app_name="desk", agent=agent, session_service=sessions, memory_service=service)
    session = await sessions.create_session(app_name="desk", user_id=user)
    task = types.Content(role="user", parts=[types.Part(text=GOAL)])
    async for _ in runner.run_async(user_id=user, session_id=session.id, new_message=task):
        pass
    ended: Any = await sessions.get_session(app_name="desk", user_id=user, session_id=session.id)
    await service.add_session_to_memory(ended)
    await service.add_session_to_memory(ended)  # nothing is new: it is not recorded again
    return model.prompts


def play(experience: Experience) -> list[str]:
    return asyncio.run(run(experience))


if __name__ == "__main__":
    show(play)
