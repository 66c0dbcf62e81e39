"""Anthropic's memory tool: a model reads what a memory teaches as files.

python examples/frameworks/with_anthropic.py
"""

from __future__ import annotations

from typing import Any

import httpx2
from anthropic import Anthropic
from desk import GOAL, show

from ldm.integrations.anthropic import ExperienceFiles
from ldm.integrations.experience import Experience

COMMANDS: tuple[dict[str, Any], ...] = (
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/examples.md"},
    {"command": "create", "path": "/memories/note.md", "file_text": "x"},
)


class Scripted:
    """A model that looks at the memory, and tries to write to it."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self._commands = iter(COMMANDS)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.prompts.append(request.content.decode())
        command = next(self._commands, None)
        part: dict[str, Any] = {"type": "text", "text": "Done."}
        if command:
            part = {"type": "tool_use", "id": "1", "name": "memory", "input": command}
        reason = "tool_use" if command else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        answer = {"id": "1", "type": "message", "role": "assistant", "model": "scripted"}
        return httpx2.Response(
            200, json={**answer, "content": [part], "stop_reason": reason, "usage": usage}
        )


def play(experience: Experience) -> list[str]:
    model = Scripted()
    http = httpx2.Client(transport=httpx2.MockTransport(model))
    client = Anthropic(api_key="none", http_client=http)
    runner = client.beta.messages.tool_runner(
        model="scripted",
        max_tokens=100,
        messages=[{"role": "user", "content": GOAL}],
        tools=[ExperienceFiles(experience)],
    )
    runner.until_done()
    return ["\n".join(model.prompts)]


if __name__ == "__main__":
    show(play)
