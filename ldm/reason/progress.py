"""The progress of a task: a model's notes on single steps, combined into assessment and summary.

A small model asked for a summary of the whole past copies the first observation, or the previous
summary, word for word. It can tell the news of one step; the rest is arithmetic.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ldm.reason import Notes
from ldm.reason.offline import OfflineReasoner
from ldm.reason.reading import FUNCTION_WORDS, words
from ldm.types import History, Past

#: The beginnings of the parts of a model's assessment.
COMPLETE, TO_DO = "complete", "to do"
#: The number of latest findings in a summary.
FINDINGS = 4

#: A text that means nothing as a whole: "empty cup" and "no knife, but spoon 1" do not match.
_NOTHING = re.compile(
    r"(?:nothing|none|not applicable|n/?a|unknown|empty|.*\bnothing)"
    r"(?: (?:else|here|yet|new|useful|happens|happened|held|found))*"
    r"|no(?: (?!but\b)[^\s,;:.]+)*",
    re.IGNORECASE,
)


def assessment_text(complete: str, incomplete: str) -> str:
    """Return complete and incomplete sub-goals as one text, as histories hold it."""
    parts = ((COMPLETE, complete.strip()), (TO_DO, incomplete.strip()))
    return "; ".join(f"{name}: {text}" for name, text in parts if text)


def progress_text(sub_goals: tuple[str, ...], complete: int) -> str:
    """Return the assessment if the first `complete` sub-goals are complete."""
    done = min(max(complete, 0), len(sub_goals))
    return assessment_text("; ".join(sub_goals[:done]), "; ".join(sub_goals[done:]))


def initial_notes(sub_goals: tuple[str, ...], checks: tuple[str, ...] = ()) -> Notes:
    """Return the notes before the first step of a task with these sub-goals."""
    return Notes(progress_text(sub_goals, 0), sub_goals=sub_goals, checks=checks)


def in_words(history: History) -> str:
    """Return a history as text for a model, or "" if no model wrote it.

    The offline reasoner's assessment consists of words of the goal, which tell a model nothing.
    """
    if not history.assessment.startswith((f"{COMPLETE}: ", f"{TO_DO}: ")):
        return ""
    return history.text


def blank_if_nothing(text: str) -> str:
    """Return a text of a reply on one line, or "" if its words mean nothing."""
    text = " ".join(text.split()).rstrip(".")
    return "" if _NOTHING.fullmatch(text) else text


def status_text(notes: Notes) -> str:
    """Return assessment and things held; a small model copies findings and actions."""
    held = f"Held: {notes.held}" if notes.held else ""
    return "\n".join(text for text in (notes.assessment, held) if text)


def next_notes(notes: Notes, finding: str = "", held: str = "", assessment: str = "") -> Notes:
    """Return `notes` after one more step; empty arguments change nothing.

    finding: the news of the step. held: the things held, chosen or made by then.
    """
    return replace(
        notes,
        assessment=assessment or notes.assessment,
        findings=(*notes.findings, blank_if_nothing(finding)),
        held=blank_if_nothing(held) if held.strip() else notes.held,
    )


def with_summary(
    notes: Notes, fallback: OfflineReasoner, goal: str, past: Past, observation: str
) -> Notes:
    """Return `notes` with a summary of the `past`: things held, latest findings, actions.

    The fallback extracts the actions from the record.
    """
    if not past:
        return notes
    findings: dict[str, str] = {}
    for (_, action), finding in zip(past, notes.findings, strict=False):
        # A repetition of the action ("You close drawer 1") is no finding.
        if not set(words(finding)) <= {*words(action), *FUNCTION_WORDS}:
            findings.setdefault(finding, action)
    latest = [f"{finding} ({action})" for finding, action in findings.items()][-FINDINGS:]
    done = fallback.summarize(goal, past, observation)
    parts = (("Held", notes.held), ("Found", "; ".join(latest)), ("Done", done))
    summary = ". ".join(f"{name}: {text}" for name, text in parts if text)
    return replace(notes, summary=summary)
