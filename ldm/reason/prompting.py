"""Options of the prompted reasoner, in a module of their own because policies hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ldm.reason.consulting import Consulting

Thought = Literal["none", "short"]
Histories = Literal["offline", "paper"]

#: Recalled tuples in a prompt, as in the paper's example prompts (LDM², Tables 5 and 6).
PROMPT_RECALLS = 5
#: Characters of a recorded course of actions in a prompt.
DEMONSTRATION = 400
#: Minimum tokens of a complete prompt.
LEAST_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class PromptedOptions:
    """Options of questions to a model.

    notes: whether prompts show histories, if a model writes them.
    recalls: the number of recalled tuples in a prompt, first those that met the same need; 0 for
        PROMPT_RECALLS in the paper's prompts and a few in ours.
    concurrency: the maximum number of simultaneous calls.
    prompt_tokens: the maximum of a prompt, 0 for as many as the model's context allows; a half and
        a quarter of them are tried if the context turns out to be shorter.
    thought: whether the model thinks in a sentence or two before it decides.
    histories: "paper" asks for an assessment and a summary before each decision (Eq. 6) and of each
        recorded step, and says no more than the paper's prompts; "offline" asks for neither.
    consulting: when decisions ask the model.
    """

    notes: bool = True
    recalls: int = 0
    concurrency: int = 1
    prompt_tokens: int = 0
    thought: Thought = "none"
    histories: Histories = "offline"
    consulting: Consulting = Consulting()  # noqa: RUF009 - frozen
