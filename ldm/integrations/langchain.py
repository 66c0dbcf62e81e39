"""LangChain and LangGraph: a middleware that recalls before each call of the model, and records.

agent = create_agent(model, tools, middleware=[ExperienceMiddleware(Experience(memory, score))])
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest
from langchain.messages import AIMessage, HumanMessage, SystemMessage

from ldm.integrations.experience import Attempt, Experience, as_json


class ExperienceState(AgentState[Any]):
    """The state of an agent with the id of the episode that its run is recorded in."""

    ldm_episode: NotRequired[str]  # type: ignore[valid-type]


class ExperienceMiddleware(AgentMiddleware[ExperienceState]):
    """Shows the agent what was done in similar situations; its calls of tools become steps.

    The last human message is the goal. An agent that is interrupted and resumed goes on with the
    same episode.
    """

    state_schema = ExperienceState

    def __init__(self, experience: Experience) -> None:
        """Take the memory, and how runs are scored: of the final state of the agent."""
        super().__init__()
        self._experience = experience

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Begin an episode."""
        goals = [one.text for one in state["messages"] if isinstance(one, HumanMessage)]
        return {"ldm_episode": self._experience.begin(goals[-1] if goals else "").episode.id}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Begin an episode."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with advice."""
        return handler(self._advised(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Call the model with advice."""
        return await handler(await asyncio.to_thread(self._advised, request))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the tool, and record that."""
        result = handler(request)
        self._record(request, result)
        return result

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Call the tool, and record that."""
        result = await handler(request)
        await asyncio.to_thread(self._record, request, result)
        return result

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Record the answer and the score."""
        self._attempt(state).finished(state["messages"][-1].text)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Record the answer and the score."""
        await asyncio.to_thread(self.after_agent, state, runtime)

    def _attempt(self, state: Any) -> Attempt:
        attempt = self._experience.resume(state["ldm_episode"])
        last = [one for one in state["messages"] if not isinstance(one, AIMessage | HumanMessage)]
        attempt.observation = last[-1].text if last else ""
        return attempt

    def _advised(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        advice = self._attempt(request.state).advice()
        if not advice:
            return request
        prompt = "\n\n".join(filter(None, [request.system_prompt, advice]))
        return request.override(system_message=SystemMessage(prompt))

    def _record(self, request: Any, result: Any) -> None:
        call = request.tool_call
        self._attempt(request.state).acted(call["name"], call["args"], as_json(result))
