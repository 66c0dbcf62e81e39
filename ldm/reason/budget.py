"""How long a prompt may be: as many tokens as the model's context has room for."""

from __future__ import annotations

from dataclasses import dataclass

from ldm.llm import LLM, context_of
from ldm.reason.excerpts import characters

#: Most tokens of a prompt where nobody says how long the model's context is: they fit one of 8,192
#: with the reply, and with what is estimated here.
PROMPT_TOKENS = 6_000
#: Most tokens of a prompt in a context of any length: what is further back is seldom of use, and
#: every step pays for it.
MOST_TOKENS = 12_000
#: Characters of a prompt beside what is counted: instructions, tags, questions.
OVERHEAD = 1_500
#: Tokens below which no prompt says what has to be said.
LEAST_TOKENS = 1_000
#: The share of a context that a prompt takes, in steps of so many tokens; the rest is for the reply
#: and for tokens that have fewer characters than is estimated.
SHARE = 0.75
STEP = 500


def default_tokens(context: int | None) -> int:
    """Return the most tokens of a prompt for a model with this context; None: nobody said."""
    if context is None:
        return PROMPT_TOKENS
    tokens = int(context * SHARE) // STEP * STEP
    return min(MOST_TOKENS, max(LEAST_TOKENS, tokens))


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a model's prompts may have. tokens: 0 for what its context has room for."""

    llm: LLM
    tokens: int = 0

    def room(self, share: float = 1.0) -> int:
        """Return how many characters a share of a prompt's tokens holds."""
        tokens = self.tokens or default_tokens(context_of(self.llm))
        return characters(int(tokens * share))
