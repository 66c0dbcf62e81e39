"""Options of the prompted reasoner and the length of its prompts, which policies hold too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ldm.llm import LLM, context_of
from ldm.reason.consulting import Consulting
from ldm.reason.excerpts import characters

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

    wording: "ours" asks for no histories; the others ask as `ldm.reason.prompted` does.
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


#: Maximum tokens of a prompt if the model's context is unknown: with the reply they fit 8,192.
PROMPT_TOKENS = 6_000
#: Maximum tokens of a prompt in any context: older steps are seldom of use, and cost at every step.
MOST_TOKENS = 12_000
#: Characters of a prompt that are not counted: instructions, tags, questions.
OVERHEAD = 1_500
#: The share of a context that a prompt takes, in steps of so many tokens; the rest is for the reply
#: and for tokens that have fewer characters than estimated.
SHARE = 0.75
STEP = 500


def default_tokens(context: int | None) -> int:
    """Return the maximum tokens of a prompt for a model's context; None: unknown."""
    if context is None:
        return PROMPT_TOKENS
    tokens = int(context * SHARE) // STEP * STEP
    return min(MOST_TOKENS, max(LEAST_TOKENS, tokens))


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum length of a model's prompts. tokens: 0 for as many as its context allows."""

    llm: LLM
    tokens: int = 0

    def room(self, share: float = 1.0) -> int:
        """Return the number of characters in a share of a prompt's tokens."""
        tokens = self.tokens or default_tokens(context_of(self.llm))
        return characters(int(tokens * share))
