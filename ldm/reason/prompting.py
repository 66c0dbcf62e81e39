"""Options of the prompted reasoner, in a module of their own because policies hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ldm.reason.consulting import Consulting

Thought = Literal["none", "short"]
#: Our questions; those of LDM² in our words; those of its Table 4 word for word.
Wording = Literal["ours", "reworded", "paper"]

#: Recalled tuples in a prompt: LDM²'s Tables 5 and 6 print up to five, and leave out others.
PROMPT_RECALLS = 5
#: Characters of a recorded course of actions in a prompt.
DEMONSTRATION = 400
#: Minimum tokens of a complete prompt.
LEAST_TOKENS = 1_000
#: Characters of a recorded course of actions that are shown.
DEMONSTRATION = 400


@dataclass(frozen=True, slots=True)
class PromptedOptions:
    """Options of questions to a model.

    wording: "ours" asks for no histories; the others ask as `ldm.reason.published` does.
    recalls: the number of recalled tuples in LDM²'s prompts, 0 for PROMPT_RECALLS.
    concurrency: the maximum number of simultaneous calls.
    prompt_tokens: the maximum of a prompt, 0 for as many as the model's context allows; a half and
        a quarter of them are tried if the context turns out to be shorter.
    thought: whether the model thinks in a sentence or two before it decides.
    consulting: when decisions ask the model.
    """

    wording: Wording = "ours"
    recalls: int = 0
    concurrency: int = 1
    prompt_tokens: int = 0
    thought: Thought = "none"
    consulting: Consulting = Consulting()  # noqa: RUF009 - frozen
