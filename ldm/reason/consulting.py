"""When a model is consulted: memory decides where it is sure, a model where it is not (ours).

LDM² asks a model at every step. Most steps of a task that was recorded in similar form are the same
for everybody, and a vote of the recalled tuples knows them; what is left is worth a call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ldm.reason import Agreement, State
from ldm.types import Card, Recall

Consult = Literal["always", "unsure", "never"]
#: Why a model is asked; "" where memory decides.
Reason = Literal["", "always", "refused", "loop", "far", "unsure", "final"]

#: Recalls that agree, at least: one cannot agree with others.
AGREEING = 2
#: The least share of the votes for an action that is carried out without a question, and the least
#: similarity of the nearest recall: chosen on training episodes (docs/lab, language models).
CERTAINTY = 0.5
NEAR = 0.5
#: The most steps of a process, as a share, at which a model is asked, beside the first `AT_ONCE`
#: questions: while something is searched recalls name a place each, and a model that cannot know
#: better would be asked at every one.
SHARE = 0.25
AT_ONCE = 2

#: Why a model is asked where memory is unsure, in the words of reports.
REASONS: Mapping[str, str] = {
    "refused": "after a refusal",
    "loop": "about to repeat itself",
    "far": "nothing near was recalled",
    "unsure": "the recalls did not agree",
    "final": "before what cannot be undone",
}
#: Names of counts: the decisions by memory, and those by a model, followed by the reason.
BY_MEMORY, BY_MODEL = "decided by memory", "consulted: "


@dataclass(frozen=True, slots=True)
class Consulting:
    """Whether and when a model is asked. certainty, near, share: see the constants above."""

    when: Consult = "always"
    certainty: float = CERTAINTY
    near: float = NEAR
    share: float = SHARE

    def reason(
        self, card: Card, state: State, recalls: Sequence[Recall], agreed: Agreement, action: str
    ) -> Reason:
        """Return why a model is to be asked, in a word; "" where the vote's `action` is taken.

        agreed: what the recalls agree on. A process that had its share of questions is decided by
        memory; before what cannot be undone there is one more. Where nothing is listed the share
        does not bind: what recalls come to by analogy need not be an action then.
        """
        if self.when != "unsure":
            return "" if self.when == "never" else "always"
        final = action.startswith(card.final)
        why = self._doubt(state, recalls, agreed, action) or ("final" if final else "")
        if state.admissible is None:
            return why
        most = AT_ONCE + math.floor(self.share * state.steps) + final
        return why if state.consulted < most else ""

    def _doubt(
        self, state: State, recalls: Sequence[Recall], agreed: Agreement, action: str
    ) -> Reason:
        """Return why memory is not sure, in a word; "" where it is."""
        if state.refused:
            return "refused"
        if (state.observation, action) in (state.course or state.history.past):
            return "loop"
        if max((recall.similarity for recall in recalls), default=0.0) < self.near:
            return "far"
        if agreed.recalls < AGREEING or agreed.share < self.certainty:
            return "unsure"
        return ""
