"""How far a task is, in words: what a model says of single steps, made an assessment and a summary.

A small model asked for a summary of all that happened copies the first observation, or the summary
before it, word for word. It can tell what one step brought; the rest is arithmetic.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ldm.reason import Notes
from ldm.reason.entities import FUNCTION_WORDS, words
from ldm.reason.offline import OfflineReasoner
from ldm.types import History, Past

#: How the parts of an assessment that a model has made begin.
COMPLETE, TO_DO = "complete", "to do"
#: Findings that a summary names, the latest ones.
FINDINGS = 4

#: Nothing from beginning to end: "empty cup" and "no knife, but spoon 1" are something.
_NOTHING = re.compile(
    r"(?:nothing|none|not applicable|n/?a|unknown|empty|.*\bnothing)"
    r"(?: (?:else|here|yet|new|useful|happens|happened|held|found))*"
    r"|no(?: (?!but\b)[^\s,;:.]+)*",
    re.IGNORECASE,
)


def assessment_text(complete: str, incomplete: str) -> str:
    """Return complete and incomplete sub-goals as the one text that a history holds."""
    parts = ((COMPLETE, complete.strip()), (TO_DO, incomplete.strip()))
    return "; ".join(f"{name}: {text}" for name, text in parts if text)


def progress_text(sub_goals: tuple[str, ...], complete: int) -> str:
    """Return the assessment where the first `complete` of the sub-goals are complete."""
    done = min(max(complete, 0), len(sub_goals))
    return assessment_text("; ".join(sub_goals[:done]), "; ".join(sub_goals[done:]))


def initial_notes(sub_goals: tuple[str, ...], checks: tuple[str, ...] = ()) -> Notes:
    """Return the notes before the first step of a task with these sub-goals."""
    return Notes(progress_text(sub_goals, 0), sub_goals=sub_goals, checks=checks)


def in_words(history: History) -> str:
    """Return a history for a model to read: "" where the words were put together without one.

    The offline reasoner's assessment names words of the goal, which tells a model nothing.
    """
    if not history.assessment.startswith((f"{COMPLETE}: ", f"{TO_DO}: ")):
        return ""
    return history.text


def blank_if_nothing(text: str) -> str:
    """Return a text of a reply on one line, "" where it says in words that there is nothing."""
    text = " ".join(text.split()).rstrip(".")
    return "" if _NOTHING.fullmatch(text) else text


def status_text(notes: Notes) -> str:
    """Return how things stand, without what was found and done: a small model copies that."""
    held = f"Held: {notes.held}" if notes.held else ""
    return "\n".join(text for text in (notes.assessment, held) if text)


def noted(notes: Notes, held: str, proof: str, complete: int, steps: int) -> Notes:
    """Return `notes` as a model has written them after so many steps; see `NotesForm`.

    proof: what completed the latest of the sub-goals, "" where nothing shows that any more is: then
    no more are complete than before. One that turned out not to be complete is open again.
    """
    complete = min(max(complete, 0), len(notes.sub_goals))
    before = notes.proofs[:complete]
    proofs = before + (proof,) * (complete - len(before)) if proof else before
    return replace(
        notes,
        assessment=progress_text(notes.sub_goals, len(proofs)),
        held=blank_if_nothing(held) if held.strip() else notes.held,
        proofs=proofs,
        steps=steps,
    )


def next_notes(notes: Notes, finding: str = "", held: str = "", assessment: str = "") -> Notes:
    """Return `notes` after one more step; what is "" stays as it was.

    finding: what the step brought. held: what was held, chosen or made by then.
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
    """Return `notes` with a summary of the `past`: what is held, was found and where, was done.

    What was done comes from the record, by the fallback; the latest findings are named, each once.
    """
    if not past:
        return notes
    findings: dict[str, str] = {}
    for (_, action), finding in zip(past, notes.findings, strict=False):
        # What says no more than the action ("You close drawer 1") is no finding.
        if not set(words(finding)) <= {*words(action), *FUNCTION_WORDS}:
            findings.setdefault(finding, action)
    latest = [f"{finding} ({action})" for finding, action in findings.items()][-FINDINGS:]
    done = fallback.summarize(goal, past, observation)
    parts = (("Held", notes.held), ("Found", "; ".join(latest)), ("Done", done))
    summary = ". ".join(f"{name}: {text}" for name, text in parts if text)
    return replace(notes, summary=summary)
