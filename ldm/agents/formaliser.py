"""From an action in free words to the environment's grammar (AutoPlan, arXiv 2305.15064, §3.2.1).

An action in a form of the grammar is recognised without a model; only the rest is put to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ldm.agents.replies import read, verbs_of
from ldm.llm import GREEDY, LLM, Sampling
from ldm.prompts import render, shortened
from ldm.types import Card

How = Literal["form", "model", "nothing"]

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
    text: str, card: Card, observation: str, llm: LLM, sampling: Sampling = GREEDY
) -> Formal:
    """Return the action that `text` names; of several the first.

    card: as the agent is shown it. observation: the last one that names things. llm: decides if no
    form does. A text that fits none is returned all the same: the environment refuses it.
    Raise the errors of a model call.
    """
    plain = " ".join(_LEAD.sub("", text.strip(_QUOTES)).strip(_QUOTES).split())
    if not plain:
        return Formal("", "nothing")
    if formal := _in_form(plain, card):
        return Formal(formal, "form")
    messages = render("agents/formalise", card=card, seen=shortened(observation, SEEN), said=text)
    reply = llm.complete(messages, sampling=sampling, max_tokens=LENGTH, stop=("\n\n",))
    understood = read(reply.text, verbs_of(card))
    action = understood.action or plain
    return Formal(_in_form(action, card) or action, "model")


def _in_form(text: str, card: Card) -> str:
    """Return the action that `text` is in a form of the grammar, or "".

    Text in brackets, as in search[the best pan], stays as it is.
    """
    bare = text if "[" in text else _TRAIL.sub("", _ARTICLE.sub("", text))
    if not any(form.fullmatch(bare) for form in forms(card.actions)):
        return ""
    verb = re.match(r"\w+", bare)
    small = verb[0].lower() if verb else ""
    return small + bare[len(small) :]


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
