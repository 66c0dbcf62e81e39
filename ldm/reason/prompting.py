"""Options of the prompted reasoner, the length of its prompts, and when it is asked at all.

Memory decides if it is sure, otherwise a model (ours). LDM² asks a model at every step. Most steps
of a task that was recorded in similar form are known from what the memory teaches; only the others
are worth a call. How sure is sure enough follows from how often the memory was wrong where steps
were left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from ldm.llm import LLM, context_of
from ldm.reason import State
from ldm.reason.excerpts import characters
from ldm.reason.pages import WANTED, Page, label_facts, named_share, read_call
from ldm.reason.reading import Words, kind_of, lines_with, mentioned, words
from ldm.reason.relevance import Relevance
from ldm.reason.replies import match_action
from ldm.reason.vocabulary import read_command
from ldm.types import Card, Past, Proposal

Consult = Literal["always", "unsure", "never"]
#: Why a model decides; "" if memory does. "planned": it named the action at the question before.
Reason = Literal[
    "", "always", "refused", "loop", "unsure", "trying", "final", "planned", "impossible"
]

#: Confidence from which memory decides; it is the share of left-out steps that were right there. To
#: ask about more cost twice the calls and solved no more games (docs/lab, language models).
MAJORITY = 0.5
#: The same before an action that cannot be undone, and where a model decided the step before: steps
#: were left out on the way of people, and a model is asked where that way is lost, unless what the
#: goal names comes in sight.
NEARLY_ALL = 0.9
#: The same where a thing is chosen that the task only describes: the wrong one costs several steps,
#: and 5 of 13 that were nearly sure were wrong (docs/lab, language models).
ALL = 1.0
#: Things with which the same is tried before a model is asked where else to look.
TRIED = 2

#: The reasons for a model's decision, in the words of reports.
REASONS: Mapping[str, str] = {
    "always": "as at every step",
    "refused": "after a refusal",
    "loop": "about to repeat itself",
    "unsure": "memory was unsure",
    "trying": "after trying several things",
    "final": "before an irreversible action",
    "planned": "as it planned before",
    "impossible": "after its plan broke off",
}
#: Why a model that decides only some steps is asked, as the question says it.
WHY: Mapping[str, str] = {
    "refused": "your last action was refused",
    "loop": "the records would do the same again here",
    "unsure": "the records are not sure enough of what to do here",
    "trying": "the records would only try one thing after another",
    "final": "the next step cannot be undone",
    "impossible": "{}, which you planned, is not possible here",
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

        Who decided last goes on: memory takes over from a model only if it is surer than elsewhere.
        A plan that the model made ends where something that the goal names comes in sight, unless
        it is about that, where memory is sure to do first what the plan does later, and where the
        next step of it is impossible, which the model is told.
        """
        if self.when == "never":
            return ""
        planned = planned_action(state, card)
        if self.when == "unsure" and state.plan and not (planned or state.refused):
            return "impossible"
        first = vote.action in state.plan[1:] and vote.confidence >= (self.certainty or NEARLY_ALL)
        if planned and not (first and self.when == "unsure"):
            things = _comes_in_sight((vote.action, *(state.admissible or ())), state)
            if things <= {name for one in state.plan for name in read_command(one).fillers}:
                return "planned"
        return "always" if self.when == "always" else self._doubt(card, state, vote, learnt)

    def _doubt(self, card: Card, state: State, vote: Proposal, learnt: Relevance) -> Reason:
        """Return what speaks against memory's vote, in a word; "" if nothing.

        Also where memory would go on to try one thing after another.
        """
        known, past = learnt.vocabulary, state.course or state.history.past
        led = state.led and not _comes_in_sight([vote.action], state)
        call, part = read_call(vote.action), ""
        if pressed := call is not None and call.verb in known.pressed:
            page = Page(state.goal, past, state.observation, known.fixed)
            part, _ = label_facts(page, call.label)
        final = vote.action.startswith(card.final)
        sure = NEARLY_ALL if led or final else MAJORITY
        least = ALL if part in ("described", "fixed") else sure
        calibrated = bool(learnt.left_out.parts or self.certainty)
        if state.refused:
            return "refused"
        if (state.observation, vote.action) in past:
            return "loop"
        if not calibrated or self.certainty == 1 or vote.confidence < (self.certainty or least):
            return "final" if final else "unsure"
        return "trying" if not pressed and _tried(vote.action, past, known.rare) >= TRIED else ""


def _comes_in_sight(actions: Sequence[str], state: State) -> set[Words]:
    """Return the things of actions that the goal names and that no text told of before.

    The goal names a label only whole: "pack of 3" is not the "pack of 4" that it asks for.
    """
    goal, past = words(state.goal), [text for text, _ in state.course or state.history.past]
    meant = (
        read_command(action)
        for action in actions
        if not (call := read_call(action)) or named_share(call.label, state.goal) >= WANTED
    )
    names = {name for command in meant for name in command.fillers}
    return {
        name
        for name in names
        if mentioned(kind_of(name), goal)
        and lines_with(name, state.observation)
        and not any(lines_with(name, text) for text in past)
    }


def _tried(action: str, past: Past, marks: Collection[str]) -> int:
    """Return how many actions of the same form were done since the last one that marks a phase."""
    frame = read_command(action).frame
    done = (action for _, action in reversed(past))
    lately = takewhile(lambda one: read_command(one).frame not in marks, done)
    return len({one for one in lately if read_command(one).frame == frame})


def planned_action(state: State, card: Card) -> str:
    """Return the action that the model planned next, "" if there is none or it is impossible."""
    if not state.plan or state.refused:
        return ""
    action, match = match_action(state.plan[0], state.admissible, card.free)
    return "" if match == "none" else action


#: Our questions; those of LDM² in our words; those of its Table 4 word for word.
Wording = Literal["ours", "reworded", "paper"]

#: Recalled tuples in a prompt: LDM²'s Tables 5 and 6 print up to five, and leave out others.
PROMPT_RECALLS = 5
#: Characters of a recorded course of actions in a prompt.
DEMONSTRATION = 400
#: Minimum tokens of a complete prompt.
LEAST_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class PromptedOptions:
    """Options of questions to a model.

    wording: "ours" asks for no histories; the others ask as `ldm.reason.prompted` does.
    recalls: the number of recalled tuples in LDM²'s prompts, 0 for PROMPT_RECALLS.
    concurrency: the maximum number of simultaneous calls.
    prompt_tokens: the maximum of a prompt, 0 for as many as the model's context allows; a half and
        a quarter of them are tried if the context turns out to be shorter.
    consulting: when decisions ask the model.
    """

    wording: Wording = "ours"
    recalls: int = 0
    concurrency: int = 1
    prompt_tokens: int = 0
    consulting: Consulting = Consulting()


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
