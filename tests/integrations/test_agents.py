"""Adapters for agents' frameworks, each with its framework and a model that follows a script."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from ldm.integrations.experience import Experience
from tests.integrations.conftest import GOAL, ask_for_photo, check_recorded

FINAL = "The lamp is refunded."
ARGUMENTS = {"order": "order 7"}


def test_an_episode_without_a_score_waits_for_it(experience: Experience) -> None:
    attempt = Experience(experience.memory).begin(GOAL)
    attempt.acted("ask_for_photo", ARGUMENTS, {"size": (1, 2)})
    attempt.finished(FINAL)
    memory = experience.memory
    assert memory.unfinished == (attempt.episode.id,)
    memory.resume(attempt.episode.id).finish(0.5)
    assert memory.recall(GOAL, '{"size": [1, 2]}')[0].tuple.action == f'{{"answer": "{FINAL}"}}'


@pytest.mark.parametrize("asynchronous", [False, True], ids=["invoke", "ainvoke"])
def test_langchain(experience: Experience, asynchronous: bool) -> None:
    pytest.importorskip("langchain", reason="make integrations installs LangChain")
    from langchain.agents import create_agent
    from langchain.messages import AIMessage
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

    from ldm.integrations.langchain import ExperienceMiddleware

    prompts: list[str] = []

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **more: Any) -> Any:
            prompts.append(str(messages))
            return super()._generate(messages, *args, **more)

    call = {"name": "ask_for_photo", "args": ARGUMENTS, "id": "1"}
    replies = [AIMessage("", tool_calls=[call]), AIMessage(FINAL)]
    middleware = [ExperienceMiddleware(experience)]
    agent = create_agent(Model(messages=iter(replies)), [ask_for_photo], middleware=middleware)
    task: Any = {"messages": [("user", GOAL)]}
    result = asyncio.run(agent.ainvoke(task)) if asynchronous else agent.invoke(task)
    assert result["messages"][-1].text == FINAL
    check_recorded(experience, prompts[0])


def test_openai_agents(experience: Experience) -> None:
    agents = pytest.importorskip("agents", reason="make integrations installs openai-agents")
    from agents.items import ModelResponse
    from agents.models.interface import Model
    from agents.usage import Usage
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    from ldm.integrations.openai_agents import ExperienceHooks

    prompts: list[str] = []
    call = ResponseFunctionToolCall(
        arguments='{"order": "order 7"}', call_id="1", name="ask_for_photo", type="function_call"
    )
    said = ResponseOutputText(text=FINAL, type="output_text", annotations=[])
    message = ResponseOutputMessage(
        id="2", content=[said], role="assistant", status="completed", type="message"
    )
    replies = iter([[call], [message]])

    class Scripted(Model):
        async def get_response(self, system_instructions: Any, *args: Any, **more: Any) -> Any:
            prompts.append(str(system_instructions))
            return ModelResponse(output=next(replies), usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

    tools = [agents.function_tool(ask_for_photo)]
    agent = agents.Agent("desk", instructions="Help.", tools=tools, model=Scripted())
    hooks = ExperienceHooks(experience, GOAL)
    config = agents.RunConfig(call_model_input_filter=hooks.advise, tracing_disabled=True)
    result = asyncio.run(agents.Runner.run(agent, GOAL, hooks=hooks, run_config=config))
    assert result.final_output == FINAL
    assert prompts[0].startswith("Help.\n\n")
    check_recorded(experience, prompts[0])


def test_pydantic_ai(experience: Experience) -> None:
    pytest.importorskip("pydantic_ai", reason="make integrations installs pydantic-ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from ldm.integrations.pydantic_ai import ExperienceCapability

    prompts: list[str] = []
    replies = iter([ToolCallPart("ask_for_photo", ARGUMENTS), TextPart(FINAL)])

    def reply(messages: Any, info: Any) -> ModelResponse:
        prompts.append(str(info.instructions) + str(messages))
        return ModelResponse([next(replies)])

    capability = ExperienceCapability(experience)
    agent = Agent(FunctionModel(reply), tools=[ask_for_photo], capabilities=[capability])
    assert asyncio.run(agent.run(GOAL)).output == FINAL
    check_recorded(experience, prompts[0])


def test_smolagents(experience: Experience) -> None:
    reason = "make integrations installs smolagents"
    smolagents: Any = pytest.importorskip("smolagents", reason=reason)
    from smolagents.models import (
        ChatMessage,
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        MessageRole,
    )

    from ldm.integrations.smolagents import ExperienceCallbacks

    prompts: list[str] = []
    calls = iter([("ask_for_photo", ARGUMENTS), ("final_answer", {"answer": FINAL})])

    class Scripted(smolagents.Model):
        def generate(self, messages: Any, **more: Any) -> Any:
            prompts.append(str(messages))
            name, arguments = next(calls)
            function = ChatMessageToolCallFunction(name=name, arguments=arguments)
            call = ChatMessageToolCall(function=function, id="1", type="function")
            return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])

    class Ask(smolagents.Tool):
        name = "ask_for_photo"
        description = "Ask the customer for a photo."
        inputs = {"order": {"type": "string", "description": "The order."}}  # noqa: RUF012
        output_type = "string"

        def forward(self, order: str) -> str:
            return ask_for_photo(order)

    record = ExperienceCallbacks(experience, GOAL)
    agent = smolagents.ToolCallingAgent(
        [Ask()], Scripted(), step_callbacks=record.callbacks, verbosity_level=0
    )
    assert agent.run(record.task) == FINAL
    check_recorded(experience, prompts[0])


def test_google_adk(experience: Experience) -> None:
    pytest.importorskip("google.adk", reason="make integrations installs google-adk")
    from dataclasses import replace

    from google.adk.events import Event
    from google.adk.sessions import Session
    from google.genai import types

    from ldm.integrations.google_adk import ExperienceService

    def event(author: str, **part: Any) -> Event:
        return Event(author=author, content=types.Content(parts=[types.Part(**part)]))

    call = types.FunctionCall(name="ask_for_photo", args=ARGUMENTS)
    photo = types.FunctionResponse(name="ask_for_photo", response={"photo": "broken"})
    session = Session(id="s", app_name="desk", user_id="u")
    session.events += [event("user", text=GOAL), event("agent", function_call=call)]
    session.events += [event("agent", function_response=photo), event("agent", text=FINAL)]
    service = ExperienceService(replace(experience, score=lambda session: 1.0))

    async def texts(user: str) -> list[str]:
        found = await service.search_memory(app_name="desk", user_id=user, query=GOAL)
        return [part.text or "" for one in found.memories for part in one.content.parts or ()]

    async def main() -> None:
        await service.add_session_to_memory(session)
        await service.add_session_to_memory(session)  # nothing is new
        mine = await texts("u")
        assert len(mine) == 2
        assert any("ask_for_photo" in text and "success" in text for text in mine)
        assert await texts("another user") == []

    asyncio.run(main())
    assert experience.memory.stats(where={"session": "s"})["episodes"] == 1


@pytest.mark.filterwarnings("ignore")  # of a run in an event loop of its own
def test_inspect(experience: Experience, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="make integrations installs inspect-ai")
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import chain, generate, use_tools
    from inspect_ai.tool import tool

    from ldm.integrations.inspect import experienced, remembered

    @tool(name="ask_for_photo")
    def asking() -> Any:
        async def execute(order: str) -> str:
            """Ask the customer for a photo.

            Args:
                order: the order
            """
            return ask_for_photo(order)

        return execute

    called = ModelOutput.for_tool_call("mockllm/model", "ask_for_photo", ARGUMENTS)
    said = ModelOutput.from_content("mockllm/model", FINAL)
    solving = experienced(experience, chain(use_tools(asking()), generate()))
    task = inspect_ai.Task(
        [Sample(GOAL, target="refunded")], solver=solving, scorer=remembered(experience, includes())
    )
    # A tokenizer that it would download.
    monkeypatch.setattr("inspect_ai.model._model.count_text_tokens", len)
    model = get_model("mockllm/model", custom_outputs=[called, said])
    [log] = inspect_ai.eval(task, model=model, log_dir=str(tmp_path / "logs"), display="none")
    gc.collect()  # its streams warn then, and not in another test
    assert log.status == "success", log.error
    check_recorded(experience, str(log.samples[0].messages[0]))
