"""OpenAI Agents SDK: hooks that record a run, and a filter that shows the model its experience.

python examples/frameworks/with_openai_agents.py
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from desk import ARGUMENTS, FINAL, GOAL, ask_for_photo, show
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from ldm.integrations.experience import Experience
from ldm.integrations.openai_agents import ExperienceHooks


class Scripted(Model):
    def __init__(self) -> None:
        self.prompts: list[str] = []
        text = ResponseOutputText(text=FINAL, type="output_text", annotations=[])
        call, final = (
            ResponseFunctionToolCall(
                arguments=json.dumps(ARGUMENTS),
                call_id="1",
                name="ask_for_photo",
                type="function_call",
            ),
            ResponseOutputMessage(
                id="2", content=[text], role="assistant", status="completed", type="message"
            ),
        )
        self._replies = iter([call, final])

    async def get_response(self, system_instructions: Any, *args: Any, **more: Any) -> Any:
        self.prompts.append(str(system_instructions))
        return ModelResponse(output=[next(self._replies)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


def play(experience: Experience) -> list[str]:
    model, hooks = Scripted(), ExperienceHooks(experience, GOAL)
    tools = [function_tool(ask_for_photo)]
    agent = Agent("desk", instructions="Help.", tools=tools, model=model)
    config = RunConfig(call_model_input_filter=hooks.advise, tracing_disabled=True)
    asyncio.run(Runner.run(agent, GOAL, hooks=hooks, run_config=config))
    return model.prompts


if __name__ == "__main__":
    show(play)
