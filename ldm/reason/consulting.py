"""When a model is consulted: memory decides if it is sure, otherwise a model (ours).

LDM² asks a model at every step. Most steps of a task that was recorded in similar form are known
from what the memory teaches; only the others are worth a call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ldm.reason import Agreement, State
from ldm.types import Card

Consult = Literal["always", "unsure", "never"]
#: Why a model is asked; "" if memory decides.
Reason = Literal["", "always", "refused", "loop", "unsure", "final"]

#: The minimum confidence of an action taken without a question: chosen on training episodes
#: (docs/lab, language models).
CERTAINTY = 0.5
#: The maximum share of a process's steps at which a model is asked, in addition to the first
#: `AT_ONCE` questions: during a search every recall names another place, and a model that cannot
#: know better would be asked at every step.
SHARE = 0.25
AT_ONCE = 2

#: The reasons for a question, in the words of reports.
REASONS: Mapping[str, str] = {
    "refused": "after a refusal",
    "loop": "about to repeat itself",
    "unsure": "the recalls did not agree",
    "final": "before an irreversible action",
}
#: Names of counts: decisions by memory, and those by a model, followed by the reason.
BY_MEMORY, BY_MODEL = "decided by memory", "consulted: "


@dataclass(frozen=True, slots=True)
class Consulting:
    """When a model is asked, if at all. certainty, share: see the constants above."""

    when: Consult = "always"
    certainty: float = CERTAINTY
    share: float = SHARE

    def reason(self, card: Card, state: State, agreed: Agreement, action: str) -> Reason:
        """Return why a model has to be asked, in a word; "" if the vote's `action` is taken.

        Once the question quota is used up, memory decides; one more question is allowed before an
        irreversible action. The quota does not bind if no actions are listed: an action found by
        analogy may be impossible then. agreed: by the recalls.
        """
        if self.when != "unsure":
            return "" if self.when == "never" else "always"
        final = action.startswith(card.final)
        why = self._doubt(state, agreed, action) or ("final" if final else "")
        if state.admissible is None:
            return why
        most = AT_ONCE + math.floor(self.share * state.steps) + final
        return why if state.consulted < most else ""

    def _doubt(self, state: State, agreed: Agreement, action: str) -> Reason:
        """Return why memory is not sure, in a word; "" if it is."""
        if state.refused:
            return "refused"
        if (state.observation, action) in (state.course or state.history.past):
            return "loop"
        if agreed.share < self.certainty or self.certainty >= 1:
            return "unsure"
        return ""
