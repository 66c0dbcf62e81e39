"""When a model is consulted: memory decides if it is sure, otherwise a model (ours).

LDM² asks a model at every step. Most steps of a task that was recorded in similar form are known
from what the memory teaches; only the others are worth a call. How sure is sure enough follows from
how often the memory was wrong where steps were left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from ldm.reason import State
from ldm.reason.frames import read_command
from ldm.reason.reading import lines_with
from ldm.reason.relevance import Relevance
from ldm.types import Card, Past, Proposal

Consult = Literal["always", "unsure", "never"]
#: Why a model decides; "" if memory does. "planned": it named the action at the question before.
Reason = Literal["", "always", "refused", "loop", "unsure", "trying", "final", "planned"]

#: Confidence from which memory decides; it is the share of left-out steps that were right there. To
#: ask about more cost twice the calls and solved no more games (docs/lab, language models).
MAJORITY = 0.5
#: The same where a model decided the step before: steps were left out on the way of people, and a
#: model is asked where that way is lost.
NEARLY_ALL = 0.9
#: Things with which the same is tried before a model is asked where else to look.
TRIED = 3

#: The reasons for a model's decision, in the words of reports.
REASONS: Mapping[str, str] = {
    "refused": "after a refusal",
    "loop": "about to repeat itself",
    "unsure": "memory was unsure",
    "trying": "after trying several things",
    "final": "before an irreversible action",
    "planned": "as it planned before",
}
#: Why a model that decides only some steps is asked, as the question says it.
WHY: Mapping[str, str] = {
    "refused": "your last action was refused",
    "loop": "the records would do the same again here",
    "unsure": "the records do not tell what to do here",
    "trying": "the records would only try one thing after another",
    "final": "the next step cannot be undone",
}
#: Names of counts: decisions by memory, and those by a model, followed by the reason.
BY_MEMORY, BY_MODEL = "decided by memory", "consulted: "


@dataclass(frozen=True, slots=True)
class Consulting:
    """When a model is asked, if at all.

    certainty: the least confidence of an action taken without a question; 0 for that of a memory
    which knows from left-out steps how often it is right: others are sure of nothing.
    """

    when: Consult = "always"
    certainty: float = 0.0

    def reason(self, card: Card, state: State, vote: Proposal, learnt: Relevance) -> Reason:
        """Return why a model has to decide, in a word; "" if memory's vote is taken.

        Who decided last goes on: memory takes over from a model only if it is surer than elsewhere,
        and from a plan that the model made, only with an action that is listed, new here, and about
        a thing in sight: what came in sight since then can tell better. A model is also asked where
        memory would go on to try one thing after another.
        """
        if self.when != "unsure":
            return "" if self.when == "never" else "always"
        least = self.certainty or (NEARLY_ALL if state.led else MAJORITY)
        calibrated = bool(learnt.left_out.parts or self.certainty)
        sure = calibrated and self.certainty < 1 and vote.confidence >= least
        past = state.course or state.history.past
        repeated = (state.observation, vote.action) in past
        better = sure and not repeated and vote.action in (state.admissible or ())
        better = better and any(
            lines_with(name, state.observation) for name in read_command(vote.action).fillers
        )
        if is_possible(state) and not (better and vote.action != state.plan[0]):
            return "planned"
        if state.refused:
            return "refused"
        if repeated:
            return "loop"
        if not sure:
            return "unsure"
        if _tried(vote.action, past, learnt.vocabulary.rare) >= TRIED:
            return "trying"
        return "final" if vote.action.startswith(card.final) else ""


def _tried(action: str, past: Past, marks: Collection[str]) -> int:
    """Return how many actions of the same form were done since the last one that marks a phase."""
    frame = read_command(action).frame
    done = (action for _, action in reversed(past))
    lately = takewhile(lambda one: read_command(one).frame not in marks, done)
    return len({one for one in lately if read_command(one).frame == frame})


def is_possible(state: State) -> bool:
    """Return whether the action that the model planned next is possible, as far as is known."""
    if not state.plan or state.refused:
        return False
    return state.admissible is None or state.plan[0] in state.admissible
