"""The explainer: why a goal failed and what is needed first (DEPS, App. C.3), one model call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ldm.agents.deps.options import DepsOptions
from ldm.agents.deps.styles import Example
from ldm.agents.loop import View, ask
from ldm.llm import LLM, Message, Sampling
from ldm.prompts import render, shortened
from ldm.types import Card

#: Characters of an explanation that later prompts show.
LONGEST = 500
_LABEL = re.compile(r"^\W*(?:explanation|explainer|reason|because)\W*:\s*", re.IGNORECASE)


def explain(
    llm: LLM,
    card: Card,
    task: str,
    described: str,
    examples: Sequence[Example],
    options: DepsOptions,
) -> str:
    """Return why the goal failed, by a prompt of its own; "" where the model says nothing.

    Raises what a model call raises.
    """
    known = [
        (one.description, one.explanation)
        for example in examples
        for one in example.rounds
        if one.explanation
    ]

    def prompt(view: View) -> list[Message]:
        return render(
            "agents/deps/explain",
            card=card,
            examples=known[: view.demonstrations],
            task=task,
            description=described,
        )

    completion, _ = ask(
        llm,
        prompt,
        View(len(known), LONGEST),
        0,
        sampling=Sampling(options.temperature),
        max_tokens=options.explanation,
    )
    return cleaned(completion.text)


def cleaned(reply: str) -> str:
    """Return the explanation in a reply: its first paragraph, without label."""
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", reply) if part.strip()]
    text = " ".join(_LABEL.sub("", paragraphs[0]).split()) if paragraphs else ""
    return shortened(text, LONGEST)
