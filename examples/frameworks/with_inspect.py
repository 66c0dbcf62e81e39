"""Inspect: a solver that recalls before another one and records it, and a scorer that ends it.

python examples/frameworks/with_inspect.py
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import inspect_ai
from desk import ARGUMENTS, FINAL, GOAL, ask_for_photo, show
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import chain, generate, use_tools
from inspect_ai.tool import tool

from ldm.integrations.experience import Experience
from ldm.integrations.inspect import experienced, remembered


@tool(name="ask_for_photo")
def asking() -> Any:
    async def execute(order: str) -> str:
        """Ask the customer for a photo.

        Args:
            order: The order.
        """
        return ask_for_photo(order)

    return execute


def play(experience: Experience) -> list[str]:
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "ask_for_photo", ARGUMENTS),
        ModelOutput.from_content("mockllm/model", FINAL),
    ]
    task = inspect_ai.Task(
        [Sample(GOAL, target="refunded")],
        solver=experienced(experience, chain(use_tools(asking()), generate())),
        scorer=remembered(experience, includes()),
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    with TemporaryDirectory() as folder:
        [log] = inspect_ai.eval(task, model=model, log_dir=folder, display="none")
        return [str(message) for sample in log.samples or () for message in sample.messages]


if __name__ == "__main__":
    show(play)
