"""From an action in free words to the environment's grammar (AutoPlan, arXiv 2305.15064, §3.2.1).

Recognised without a model are an action in a form of the grammar and, if the agent is shown the
possible actions, one of them, alone or within other words. Only the rest is put to the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ldm.agents.replies import read, verbs_of
from ldm.llm import GREEDY, LLM, Sampling
from ldm.prompts import render, shortened
from ldm.types import Card

How = Literal["possible", "form", "within", "model", "nothing"]

#: Characters of the last page that the model is shown for its names.
SEEN = 600
#: Tokens of a formal action.
LENGTH = 60

_QUOTES = "\"'`“”‘’*. "
_NAME = r"(?:(?!\b(?:and|then|from|to|with|in|on|using)\b)[^\[\],;:])+"
_AMOUNT = r"\d+ [^\[\],;:]+?"
_LEAD = re.compile(
    r"^(?:\(?\d+[.)]\s+)?"
    r"(?:(?:i(?:'ll| will| want to| should| would| need to| am going to)|let me|next,?)\s+)?",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"\b(?:the|an?)\s+(?=\w)", re.IGNORECASE)
_OTHER_FORM = re.compile(r"\([^():]*: ([^()]+)\)")
_TRAIL = re.compile(r"\s+(?:now|first|next|again|please)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Formal:
    """A formalised action and how it was recognised. "nothing": no action was asked for."""

    action: str
    how: How


def formalise(
    text: str,
    card: Card,
    admissible: Sequence[str] | None,
    observation: str,
    llm: LLM,
    sampling: Sampling = GREEDY,
) -> Formal:
    """Return the action that `text` names; of several the first.

    card: as the agent is shown it. admissible: the actions that are possible now, None if the agent
    is not shown them. observation: the last one that names things. llm: decides if nothing else
    does. A text that fits no form is returned all the same: the environment refuses it.
    Raise the errors of a model call.
    """
    plain = " ".join(_LEAD.sub("", text.strip(_QUOTES)).strip(_QUOTES).split())
    if not plain:
        return Formal("", "nothing")
    known = {
        name.casefold(): action
        for action in admissible or ()
        for name in (action, *card.offered([action]))
    }
    if (formal := _without_model(plain, known, card)) is not None:
        return formal
    messages = render("agents/formalise", card=card, seen=shortened(observation, SEEN), said=text)
    reply = llm.complete(messages, sampling=sampling, max_tokens=LENGTH, stop=("\n\n",))
    understood = read(reply.text, verbs_of(card))
    action = understood.action or plain
    formal = _without_model(action, known, card)
    return Formal(action if formal is None else formal.action, "model")


def _without_model(text: str, known: dict[str, str], card: Card) -> Formal | None:
    """Return the action that `text` names; None if only a model can tell.

    Text in brackets, as in search[the best pan], stays as it is. known: casefolded → action.
    """
    bare = text if "[" in text else _TRAIL.sub("", _ARTICLE.sub("", text))
    for words in (text, bare):
        if words.casefold() in known:
            return Formal(known[words.casefold()], "possible")
    for words in (text, bare):
        if (action := _within(words, known)) is not None:
            return Formal(action, "within")
    if any(form.fullmatch(bare) for form in forms(card.actions)):
        verb = re.match(r"\w+", bare)
        small = verb[0].lower() if verb else ""
        return Formal(small + bare[len(small) :], "form")
    return None


def _within(text: str, known: dict[str, str]) -> str | None:
    """Return the possible action that is mentioned first, the longest of those, or None.

    Single words are ignored: "look for the mug in fridge 1" does not mean "look".
    """
    mentions = []
    for folded, action in known.items():
        if folded.isalpha():
            continue
        at = re.search(rf"(?<!\w){re.escape(folded)}(?!\w)", text.casefold())
        if at:
            mentions.append((at.start(), -len(folded), action))
    return min(mentions)[2] if mentions else None


@lru_cache(maxsize=32)
def forms(actions: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Return a pattern for each form of a card's grammar.

    A line of the grammar is one form or several, with commas between bracketed ones, before its
    first colon; words in capitals stand for names, COUNT for a number; a form in parentheses,
    "(in some games: …)", counts, too.
    """
    written = []
    for line in actions:
        main = _OTHER_FORM.sub("", line).partition(":")[0]
        written += main.split("], ") if "], " in main else [main]
        written += _OTHER_FORM.findall(line)
    return tuple(re.compile(_pattern(form.strip())) for form in written if form.strip())


def _pattern(form: str) -> str:
    """Return a form as a regular expression; brackets may hold any words."""
    if "[" in form:
        verb, _, inside = form.partition("[")
        inside = inside.rstrip("]")
        free = r"[^\[\]]+" if re.fullmatch(r"[A-Z]+", inside) else re.escape(inside)
        return rf"(?i:{re.escape(verb)}\[{free}\])"
    if "COUNT" in form:
        form = re.sub(r"(COUNT [A-Z]+)(?:, COUNT [A-Z]+)+", r"\1 MORE", form)
    parts = re.split(r"(COUNT [A-Z]+|MORE|\b[A-Z]{2,}\b)", form)
    pattern = ""
    for part in parts:
        if part.startswith("COUNT"):
            pattern += _AMOUNT
        elif part == "MORE":
            pattern = f"{pattern.rstrip()}(?:, {_AMOUNT})*"
        elif re.fullmatch(r"[A-Z]{2,}", part):
            pattern += _NAME
        else:
            pattern += re.escape(part).replace(r"\ ", " ")
    return rf"(?i:{pattern})"
