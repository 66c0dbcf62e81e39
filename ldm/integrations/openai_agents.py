"""OpenAI Agents SDK: hooks that record a run, and a filter that shows the model its experience.

hooks = ExperienceHooks(Experience(memory, score), "refund the lamp")
await Runner.run(agent, goal, hooks=hooks, run_config=RunConfig(call_model_input_filter=hooks.advise))
"""  # noqa: E501 - a line of code

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from agents import AgentHookContext, RunContextWrapper, RunHooks, Tool
from agents.run import CallModelData, ModelInputData

from ldm.integrations.experience import Experience
from ldm.text import Problem, parse_json


class ExperienceHooks(RunHooks[Any]):
    """Records one run: its calls of tools are steps, its final output is scored."""

    def __init__(self, experience: Experience, goal: str) -> None:
        """Begin an episode for a run with this goal."""
        self.attempt = experience.begin(goal)

    async def advise(self, data: CallModelData[Any]) -> ModelInputData:
        """Add what was done in similar situations to the instructions."""
        advice = await asyncio.to_thread(self.attempt.advice)
        parts = filter(None, [data.model_data.instructions, advice])
        return replace(data.model_data, instructions="\n\n".join(parts) or None)

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Any, tool: Tool, result: object
    ) -> None:
        """Record a call of a tool."""
        written = getattr(context, "tool_arguments", "") or "{}"
        arguments = parse_json(written, tool.name)
        if isinstance(arguments, Problem):
            arguments = written  # as the model wrote them
        await asyncio.to_thread(self.attempt.acted, tool.name, arguments, result)

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Any, output: Any) -> None:
        """Record the answer and the score."""
        await asyncio.to_thread(self.attempt.finished, output)
