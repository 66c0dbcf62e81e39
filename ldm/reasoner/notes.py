"""Notes as texts: what a model says of single steps, put together to an assessment and a summary.

A small model asked for a summary of all that happened copies the first observation, or the summary
before it, word for word. It can tell what one step brought; the rest is arithmetic.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ldm.reasoner import Notes
from ldm.reasoner.offline import OfflineReasoner
from ldm.reasoner.situation import FUNCTION_WORDS, words
from ldm.types import Past

#: Findings that a summary names, the latest ones.
FINDINGS = 4

#: Nothing from beginning to end: "empty cup" and "no knife, but spoon 1" are something.
_NOTHING = re.compile(
    r"(?:nothing|none|not applicable|n/?a|unknown|empty|.*\bnothing)"
    r"(?: (?:else|here|yet|new|useful|happens|happened|held|found))*"
    r"|no(?: (?!but\b)[^\s,;:.]+)*",
    re.IGNORECASE,
)


def assessed(complete: str, incomplete: str) -> str:
    """Sub-goals that are complete and those that are not, as a history holds them."""
    parts = (("complete", complete.strip()), ("to do", incomplete.strip()))
    return "; ".join(f"{name}: {text}" for name, text in parts if text)


def begun(sub_goals: tuple[str, ...]) -> Notes:
    """The notes before the first step of a task with these sub-goals."""
    return Notes(progress(sub_goals, 0), sub_goals=sub_goals)


def progress(sub_goals: tuple[str, ...], complete: int) -> str:
    """The assessment where the first so many of the sub-goals are complete."""
    done = min(max(complete, 0), len(sub_goals))
    return assessed("; ".join(sub_goals[:done]), "; ".join(sub_goals[done:]))


def something(said: str) -> str:
    """What a reply says, "" where it says in words that there is nothing."""
    text = " ".join(said.split()).rstrip(".")
    return "" if _NOTHING.fullmatch(text) else text


def standing(notes: Notes) -> str:
    """How things stand, without what was found and done: a small model copies that."""
    held = f"Held: {notes.held}" if notes.held else ""
    return "\n".join(text for text in (notes.assessment, held) if text)


def after(notes: Notes, found: str = "", held: str = "", assessment: str = "") -> Notes:
    """`notes` carried on by one step.

    found: what it brought. held: what was held, chosen or made by then. What is "" stays as it was.
    """
    return replace(
        notes,
        assessment=assessment or notes.assessment,
        found=(*notes.found, something(found)),
        held=something(held) if held.strip() else notes.held,
    )


def summarised(
    notes: Notes, aid: OfflineReasoner, goal: str, past: Past, observation: str
) -> Notes:
    """`notes` with a summary of the `past`: what is held, what was found and where, what was done.

    What was done comes from the record, by the aid; the latest findings, each once.
    """
    if not past:
        return notes
    findings: dict[str, str] = {}
    for (_, action), found in zip(past, notes.found, strict=False):
        # What says no more than the action ("You close drawer 1") is no finding.
        if not set(words(found)) <= {*words(action), *FUNCTION_WORDS}:
            findings.setdefault(found, action)
    latest = [f"{found} ({action})" for found, action in findings.items()][-FINDINGS:]
    done = aid.summarize(goal, past, observation)
    parts = (("Held", notes.held), ("Found", "; ".join(latest)), ("Done", done))
    summary = ". ".join(f"{name}: {text}" for name, text in parts if text)
    return replace(notes, summary=summary)
