"""smolagents: callbacks that record each step, and show the agent its experience.

python examples/frameworks/with_smolagents.py
"""

from __future__ import annotations

from typing import Any

from desk import ARGUMENTS, FINAL, GOAL, ask_for_photo, show
from smolagents import Model, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)

from ldm.integrations.experience import Experience
from ldm.integrations.smolagents import ExperienceCallbacks


class Scripted(Model):
    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[str] = []
        self._calls = iter([("ask_for_photo", ARGUMENTS), ("final_answer", {"answer": FINAL})])

    def generate(self, messages: Any, **more: Any) -> Any:
        self.prompts.append(str(messages))
        name, arguments = next(self._calls)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(function=function, id="1", type="function")
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def play(experience: Experience) -> list[str]:
    model, record = Scripted(), ExperienceCallbacks(experience, GOAL)
    agent = ToolCallingAgent(
        [tool(ask_for_photo)], model, step_callbacks=record.callbacks, verbosity_level=0
    )
    agent.run(record.task)
    return model.prompts


if __name__ == "__main__":
    show(play)
