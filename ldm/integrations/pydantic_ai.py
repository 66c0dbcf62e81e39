"""Pydantic AI: a capability that recalls before each request to the model, and records.

agent = Agent(model, capabilities=[ExperienceCapability(Experience(memory, score))])
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDefinition

from ldm.integrations.experience import Attempt, Experience


@dataclass
class ExperienceCapability(AbstractCapability[Any]):
    """Shows the agent what was done in similar situations; its calls of tools become steps."""

    experience: Experience
    attempt: Attempt | None = field(default=None, repr=False)

    async def for_run(self, ctx: RunContext[Any]) -> ExperienceCapability:
        """Begin an episode, whose goal is the prompt."""
        goal = ctx.prompt if isinstance(ctx.prompt, str) else str(ctx.prompt or "")
        attempt = await asyncio.to_thread(self.experience.begin, goal)
        return ExperienceCapability(self.experience, attempt)

    def get_instructions(self) -> Any:
        """Return what gives the advice at each request."""
        return self._advice

    async def _advice(self, ctx: RunContext[Any]) -> str | None:
        if self.attempt is None:
            return None
        return await asyncio.to_thread(self.attempt.advice) or None

    async def after_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,
    ) -> Any:
        """Record a call of a tool."""
        if self.attempt is not None:
            await asyncio.to_thread(self.attempt.acted, call.tool_name, args, result)
        return result

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        """Record the answer and the score."""
        if self.attempt is not None:
            await asyncio.to_thread(self.attempt.finished, result.output)
        return result
