"""Inspect: a solver that recalls before another solver and records it, and a scorer that ends it.

Task(…, solver=experienced(experience, basic_agent()), scorer=remembered(experience, match()))
"""

from __future__ import annotations

import asyncio

from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, value_to_float
from inspect_ai.solver import Generate, Solver, TaskState, solver

from ldm.integrations.experience import Attempt, Experience

EPISODE = "ldm_episode"


@solver
def experienced(experience: Experience, inner: Solver) -> Solver:
    """Show the model what was done in similar situations; record what `inner` does."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        attempt = await asyncio.to_thread(experience.begin, state.input_text)
        state.metadata[EPISODE] = attempt.episode.id
        if advice := await asyncio.to_thread(attempt.advice):
            state.messages.insert(0, ChatMessageSystem(content=advice))
        before = len(state.messages)
        state = await inner(state, generate)
        await asyncio.to_thread(_record, attempt, state, before)
        return state

    return solve


@scorer(metrics=[mean()])
def remembered(experience: Experience, inner: Scorer) -> Scorer:
    """End the recorded episode with the score of `inner`."""

    async def score(state: TaskState, target: Target) -> Score | None:
        judged = await inner(state, target)
        if judged is not None:
            earned = min(1.0, max(0.0, value_to_float()(judged.value)))
            attempt = await asyncio.to_thread(experience.resume, state.metadata[EPISODE])
            await asyncio.to_thread(attempt.episode.finish, earned)
        return judged

    return score


def _record(attempt: Attempt, state: TaskState, before: int) -> None:
    results = {
        one.tool_call_id: one.text for one in state.messages if isinstance(one, ChatMessageTool)
    }
    for message in state.messages[before:]:
        if isinstance(message, ChatMessageAssistant):
            for call in message.tool_calls or ():
                attempt.acted(call.function, call.arguments, results.get(call.id, ""))
    attempt.episode.step(attempt.observation, {"answer": state.output.completion})
