"""The length of prompts: as many tokens as fit the model's context."""

from __future__ import annotations

from dataclasses import dataclass

from ldm.llm import LLM, context_of
from ldm.reason.excerpts import characters
from ldm.reason.prompting import LEAST_TOKENS

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
