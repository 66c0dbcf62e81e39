"""smolagents: callbacks that record each step, and show the agent its experience.

record = ExperienceCallbacks(Experience(memory, score), goal)
agent = ToolCallingAgent(tools, model, step_callbacks=record.callbacks)
agent.run(record.task)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolagents.memory import ActionStep, FinalAnswerStep

from ldm.integrations.experience import Experience, as_json


class ExperienceCallbacks:
    """Records one run: its calls of tools are steps, its final answer is scored."""

    def __init__(self, experience: Experience, goal: str) -> None:
        """Begin an episode for a run with this goal."""
        self._goal = goal
        self.attempt = experience.begin(goal)

    @property
    def task(self) -> str:
        """The task for the agent: the goal, and what was done in similar situations."""
        return "\n\n".join(filter(None, [self._goal, self.attempt.advice()]))

    @property
    def callbacks(self) -> dict[type[Any], Callable[..., Any]]:
        """The callbacks of the agent."""
        return {ActionStep: self._acted, FinalAnswerStep: self._finished}

    def _acted(self, step: ActionStep) -> None:
        """Record a step, and add advice to what the agent has observed."""
        if step.is_final_answer:
            return
        result = step.observations if step.error is None else f"Error: {step.error}"
        for call in step.tool_calls or ():
            self.attempt.acted(call.name, as_json(call.arguments), result or "")
        if step.tool_calls and (advice := self.attempt.advice()):
            step.observations = f"{step.observations or ''}\n\n{advice}"

    def _finished(self, step: FinalAnswerStep) -> None:
        self.attempt.finished(step.output)
