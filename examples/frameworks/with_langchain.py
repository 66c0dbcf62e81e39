"""LangChain: an agent with a middleware that recalls before each call of the model, and records.

python examples/frameworks/with_langchain.py
"""

from __future__ import annotations

from typing import Any

from desk import ARGUMENTS, FINAL, GOAL, ask_for_photo, show
from langchain.agents import create_agent
from langchain.messages import AIMessage
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

from ldm.integrations.experience import Experience
from ldm.integrations.langchain import ExperienceMiddleware

PROMPTS: list[str] = []


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **more: Any) -> Any:
        PROMPTS.append(str(messages))
        return super()._generate(messages, *args, **more)


def agent(experience: Experience) -> Any:
    call: Any = {"name": "ask_for_photo", "args": ARGUMENTS, "id": "1"}
    model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage(FINAL)]))
    return create_agent(model, [ask_for_photo], middleware=[ExperienceMiddleware(experience)])


def play(experience: Experience) -> list[str]:
    PROMPTS.clear()
    agent(experience).invoke({"messages": [("user", GOAL)]})
    return PROMPTS


if __name__ == "__main__":
    show(play)
