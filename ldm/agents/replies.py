"""Parse a model's reply, whatever its form: a thought, an action or a verdict.

Small models add labels, quotes, fences, JSON or further actions. All of these are read; an
unreadable reply becomes an action that the environment will refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from ldm.text import value_in
from ldm.types import Card, Trajectory

#: The labels of lines in prompts, and expected in replies.
THINK, ACT, SEEN = "Think:", "Act:", "Observation:"
#: The verdicts of an executor that judges its own success.
COMPLETED, FAILED = "task completed", "task failed"
#: Characters of a thought and of an action that are kept: a rambling model must not fill the
#: prompts of all later steps.
LONGEST_THOUGHT, LONGEST_ACTION = 800, 300
#: Maximum characters read of a reply.
LONGEST_REPLY = 8000

Verdict = Literal["", "completed", "failed"]
#: As requested; in another form, but understood; not understood.
Form = Literal["asked", "loose", "malformed"]
Label = Literal["", "think", "act", "seen"]

_LABELS: tuple[tuple[Label, re.Pattern[str]], ...] = (
    ("think", re.compile(r"(?:my\s+)?(?:think|thoughts?|reasoning|reason)\s*\d*\s*:\s*", re.I)),
    (
        "act",
        re.compile(
            r"(?:the\s+|my\s+)?(?:next\s+|best\s+|first\s+)?(?:act|action|command|step|output|answer)"
            r"\s*\d*(?:\s+to\s+take)?(?:\s+(?:is|would\s+be|should\s+be))?\s*:\s*",
            re.I,
        ),
    ),
    ("seen", re.compile(r"(?:observation|obs|result)\s*\d*\s*:\s*", re.I)),
)
_FENCE = re.compile(r"```\w*")
#: Before an action in the line of its thought: "Think: I need a mug. Act: go to desk 1".
_INLINE = re.compile(r"(?<=\S)[ \t]+(?=Act(?:ion)?:)")
_MARK = re.compile(r"^(?:[>*\-•]+\s+|>+|\d+[.)]\s+)+")
_AND_THEN = re.compile(r"\s*(?:;|,?\s+(?:and\s+)?then\b)\s*", re.I)
_QUOTES = "\"'`“”‘’*"
#: A verdict in other words than those asked for; nothing may follow, as in "… once I have the mug".
_JUDGED = re.compile(
    r"\W*(?:the |my )?(?:sub-?)?task[ _](?:is |was |has |has been )?(?:now )?"
    r"(?:completed?|done|finished|(?P<failed>fail(?:ed)?))\W*"
)
_KEYS = {
    "think": ("thought", "think", "thoughts", "reasoning", "reason"),
    "act": ("action", "act", "command", "next_action", "answer"),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed reply.

    thought, action: "" if there is none; the action follows the thought. dropped: further actions
    in the same reply, which are not carried out, as no observation came in between.
    """

    thought: str = ""
    action: str = ""
    verdict: Verdict = ""
    form: Form = "asked"
    dropped: int = 0


def verbs_of(card: Card, demonstrations: Iterable[Trajectory] = ()) -> frozenset[str]:
    """Return the words that actions begin with, by the action grammar and the demonstrations."""
    forms = [*card.actions, *(s.action for one in demonstrations for s in one.steps)]
    return frozenset(verb[0] for form in forms if (verb := re.match(r"[a-z]+", form.casefold())))


def read(text: str, verbs: frozenset[str], *, judged: bool = False) -> Reply:
    """Return the parsed reply. judged: it may say that the task is completed or failed.

    A reply without any action, thought or verdict is malformed, and its first line is taken for
    the action.
    """
    text = text[:LONGEST_REPLY]
    reply = _from_json(text, judged) or _from_lines(text, verbs, judged)
    if reply.form == "loose" and _same(text, _as_requested(reply)):
        reply = replace(reply, form="asked")
    return replace(
        reply,
        thought=_cut(reply.thought, LONGEST_THOUGHT),
        action=_cut(reply.action, LONGEST_ACTION),
    )


def _as_requested(reply: Reply) -> str:
    """Return `reply` as it should have been written."""
    action = {"": reply.action, "completed": COMPLETED, "failed": FAILED}[reply.verdict]
    lines = ((THINK, reply.thought), (ACT, action))
    return "\n".join(f"{label} {text}" for label, text in lines if text)


def _same(text: str, other: str) -> bool:
    """Return whether the texts are equal but for blanks and capitals."""
    lines, others = ([line.split() for line in t.casefold().splitlines()] for t in (text, other))
    return [line for line in lines if line] == others


def _from_lines(text: str, verbs: frozenset[str], judged: bool) -> Reply:
    thoughts: list[str] = []
    actions: list[str] = []
    others: list[str] = []
    verdict: Verdict = ""
    label: Label = ""
    for line in _lines(text):
        own_label, rest = _labelled(line)
        if own_label == "seen":
            break  # the model continues with an imagined observation
        if judged and not actions and (verdict := _verdict(rest)):
            break
        label = own_label or ("" if label == "seen" else label)
        if not rest:
            continue
        if own_label == "think":
            thoughts.append(rest)
        elif label == "act" or _first_word(rest) in verbs:
            actions += _several(rest, verbs)
            label = ""
        elif label == "think":
            thoughts.append(rest)
        else:
            others.append(rest)
    if not (thoughts or actions or verdict):
        return Reply(action=others[0] if others else "", form="malformed")
    return Reply(
        thought="" if verdict and not thoughts else " ".join(thoughts),
        action=actions[0] if actions else "",
        verdict=verdict,
        form="loose",
        dropped=max(0, len(actions) - 1),
    )


def _lines(text: str) -> list[str]:
    text = _INLINE.sub("\n", _FENCE.sub("\n", text))
    lines = (_MARK.sub("", line.strip()) for line in text.splitlines())
    return [line for line in (line.strip() for line in lines) if line.strip(_QUOTES)]


def _labelled(line: str) -> tuple[Label, str]:
    """Return the last of the labels that a line begins with, and what follows."""
    label: Label = ""
    rest = line.strip(_QUOTES + " ")
    while True:
        for name, pattern in _LABELS:
            match = pattern.match(rest)
            if match is not None:
                label, rest = name, _MARK.sub("", rest[match.end() :].strip(_QUOTES + " "))
                break
        else:
            return label, rest


def _verdict(text: str) -> Verdict:
    sentence = text.casefold().strip(" .!")
    if sentence.startswith(COMPLETED):
        return "completed"
    if sentence.startswith(FAILED):
        return "failed"
    if match := _JUDGED.fullmatch(sentence):
        return "failed" if match["failed"] else "completed"
    return ""


def _several(text: str, verbs: frozenset[str]) -> list[str]:
    """Return the actions in one line, each of which begins with a verb."""
    actions = [text]
    while True:
        last = actions[-1]
        for cut in _AND_THEN.finditer(last):
            if "[" not in last[: cut.start()] and _first_word(last[cut.end() :]) in verbs:
                actions[-1:] = [last[: cut.start()], last[cut.end() :]]
                break
        else:
            return [_cleaned(action, verbs) for action in actions]


def _cleaned(action: str, verbs: frozenset[str]) -> str:
    text = action.strip().strip(_QUOTES).strip()
    verb = _first_word(text)
    if verb in verbs:  # the verb's own letters; what follows may be a name
        text = verb + text[len(verb) :]
        if text[len(verb) : len(verb) + 1] == "[" and "]" in text:
            return text[: text.rindex("]") + 1]
    return text.rstrip(".").rstrip()


def _first_word(text: str) -> str:
    word = re.match(r"[a-z]+", text.strip(_QUOTES + " ").casefold())
    return word[0] if word else ""


def _from_json(text: str, judged: bool) -> Reply | None:
    """Parse a reply that is a JSON object with a thought or an action; return None if it is not."""
    start = text.find("{")
    if start < 0:
        return None
    leading = value_in(text, start)
    if leading is None or not isinstance(value := leading[0], dict):
        return None
    fields = {str(key).casefold(): item for key, item in value.items()}
    thought, action = (_named(fields, _KEYS[label]) for label in ("think", "act"))
    if judged and (verdict := _verdict(action) or _verdict(thought)):
        return Reply(verdict=verdict, form="loose")
    return Reply(thought, action, form="loose") if thought or action else None


def _named(fields: dict[str, Any], keys: tuple[str, ...]) -> str:
    text = next((fields[key] for key in keys if isinstance(fields.get(key), str)), "")
    return str(_labelled(text)[1]) if text else ""


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length].rstrip() + "…"
