"""The texts to and from a model: trajectories and demonstrations in prompts, and parsed replies.

A reply is a thought, an action or a verdict, whatever its form. Small models add labels, quotes,
fences, JSON or further actions. All of these are read; an unreadable reply becomes an action that
the environment will refuse.

An action in free words becomes one of the environment's grammar (AutoPlan, arXiv 2305.15064,
§3.2.1): a form of the grammar is recognised without a model; only the rest is put to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, TypeVar

from ldm.agents.demonstrations import Division
from ldm.llm import GREEDY, LLM, Sampling
from ldm.prompts import render, shortened
from ldm.reason.excerpts import without_goal
from ldm.text import value_in
from ldm.types import Card, Step, Trajectory

E = TypeVar("E")


def transcript_text(
    opening: str, steps: Sequence[Step], *, width: int, thoughts: bool = True, skipped: int = 0
) -> str:
    """Return a process in labelled lines, the form in which replies are requested.

    Continuation lines are indented, so that no part of an observation looks like a step.
    """
    lines = [_line(SEEN, opening, width)]
    if skipped:
        lines.append(f"({skipped} earlier steps are left out here.)")
    return "\n".join([*lines, *_step_lines(steps[skipped:], width=width, thoughts=thoughts)])


def example_texts(
    trajectories: Sequence[Trajectory], *, width: int, thoughts: bool, judged: bool = False
) -> list[str]:
    """Return demonstrations: their tasks and steps, without the answer to the last action.

    Consecutive ones with the same opening become one text, in which it stands once.
    judged: each ends by saying whether its task was completed.
    """

    def course(one: Trajectory) -> tuple[str, list[str]]:
        return one.task.goal, _course(one, width=width, thoughts=thoughts, judged=judged)

    return _by_place(trajectories, lambda one: one.opening, course, width)


def look_texts(trajectories: Sequence[Trajectory], *, width: int) -> list[str]:
    """Return demonstrations of looks that decide: task, observation, judgement and verdict.

    Consecutive ones with the same observation become one text, in which it stands once.
    """

    def verdict(one: Trajectory) -> tuple[str, list[str]]:
        thoughts = [step.thought for step in one.steps if step.thought]
        return one.task.goal, [*thoughts, COMPLETED if one.success else FAILED]

    return _by_place(trajectories, lambda one: one.opening, verdict, width)


def division_texts(divisions: Sequence[Division], *, detailed: bool, width: int) -> list[str]:
    """Return examples for planners: tasks, the initial scene, and a plan for each.

    Consecutive ones with the same scene become one text, in which it stands once.
    detailed: with the plans whose steps need no further division.
    """

    def plan(one: Division) -> tuple[str, list[str]]:
        tried = [f"Tried without success: {one.tried}"] if one.tried else []
        return one.task, [*tried, one.detailed if detailed else one.plan]

    return _by_place(divisions, lambda one: without_goal(one.seen, one.task), plan, width)


def localized(trajectory: Trajectory, localize: Callable[[str], str]) -> Trajectory:
    """Return a demonstration in the words of the present task (`Environment.localize`)."""
    steps = tuple(
        replace(step, action=localize(step.action), observation=localize(step.observation))
        for step in trajectory.steps
    )
    return replace(trajectory, opening=localize(trajectory.opening), steps=steps)


def _by_place(
    examples: Sequence[E],
    place: Callable[[E], str],
    task: Callable[[E], tuple[str, list[str]]],
    width: int,
) -> list[str]:
    """Return the texts of examples, one for consecutive ones in the same place.

    place: describes where an example is. task: returns its task and the lines below it.
    """
    texts = []
    for observed, group in groupby(examples, key=place):
        opening = _line(SEEN, observed, width)
        (goal, lines), *others = map(task, group)
        if others:
            tasks = [[f"Task: {goal}", *lines] for goal, lines in [(goal, lines), *others]]
            texts.append("\n\n".join([opening, *map("\n".join, tasks)]))
        else:
            texts.append("\n".join([f"Task: {goal}", opening, *lines]))
    return texts


def _course(trajectory: Trajectory, *, width: int, thoughts: bool, judged: bool) -> list[str]:
    """Return the steps of a demonstration, in labelled lines."""
    steps = trajectory.steps
    lines = _step_lines(steps, width=width, thoughts=thoughts)
    if steps and steps[-1].action and not steps[-1].observation.strip():
        lines.pop()
    if judged:
        lines.append(f"{ACT} {COMPLETED if trajectory.success else FAILED}")
    return lines


def _step_lines(steps: Sequence[Step], *, width: int, thoughts: bool) -> list[str]:
    lines = []
    for step in steps:
        if thoughts and step.thought:
            lines.append(_line(THINK, step.thought, width))
        if step.action:
            lines.append(_line(ACT, step.action, width))
            lines.append(_line(SEEN, step.observation, width))
    return lines


def _line(label: str, text: str, width: int) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return f"{label} " + shortened("\n  ".join(line for line in lines if line), width)


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

#: The label of a line, in the group of its sort.
_LABEL = re.compile(
    r"(?P<think>(?:my\s+)?(?:think|thoughts?|reasoning|reason)\s*\d*\s*:\s*)"
    r"|(?P<act>(?:the\s+|my\s+)?(?:next\s+|best\s+|first\s+)?"
    r"(?:act|action|command|step|output|answer)"
    r"\s*\d*(?:\s+to\s+take)?(?:\s+(?:is|would\s+be|should\s+be))?\s*:\s*)"
    r"|(?P<seen>(?:observation|obs|result)\s*\d*\s*:\s*)",
    re.I,
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
    thought, action = _cut(reply.thought, LONGEST_THOUGHT), _cut(reply.action, LONGEST_ACTION)
    return replace(reply, thought=thought, action=action)


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
    label = ""
    for line in _lines(text):
        own_label, rest = _labelled(line)
        if own_label == "seen":
            break  # the model continues with an imagined observation
        if judged and not actions and (verdict := _verdict(rest)):
            break
        label = own_label or label
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


def _labelled(line: str) -> tuple[str, str]:
    """Return the sort of the last label that a line begins with, and what follows."""
    label, rest = "", line.strip(_QUOTES + " ")
    while match := _LABEL.match(rest):
        label = match.lastgroup or ""
        rest = _MARK.sub("", rest[match.end() :].strip(_QUOTES + " "))
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
    leading = value_in(text, text.index("{")) if "{" in text else None
    if leading is None or not isinstance(value := leading[0], dict):
        return None
    fields = {str(key).casefold(): item for key, item in value.items()}
    thought, action = (_named(fields, _KEYS[label]) for label in ("think", "act"))
    if judged and (verdict := _verdict(action) or _verdict(thought)):
        return Reply(verdict=verdict, form="loose")
    return Reply(thought, action, form="loose") if thought or action else None


def _named(fields: dict[str, Any], keys: tuple[str, ...]) -> str:
    text = next((fields[key] for key in keys if isinstance(fields.get(key), str)), "")
    return _labelled(text)[1]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length].rstrip() + "…"


#: How an action was recognised; "nothing": none was asked for.
How = Literal["form", "model", "nothing"]

#: Characters of the last page that the model is shown for its names.
SIGHT = 600
#: Tokens of a formal action.
LENGTH = 60

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


def formalise(
    text: str, card: Card, observation: str, llm: LLM, sampling: Sampling = GREEDY
) -> tuple[str, How]:
    """Return the action that `text` names, of several the first, and how it was recognised.

    card: as the agent is shown it. observation: the last one that names things. llm: decides if no
    form does. A text that fits none is returned all the same: the environment refuses it.
    Raise the errors of a model call.
    """
    plain = " ".join(_LEAD.sub("", text.strip(_QUOTES + ". ")).strip(_QUOTES + ". ").split())
    if not plain:
        return "", "nothing"
    if formal := _in_form(plain, card):
        return formal, "form"
    messages = render("agents/formalise", card=card, seen=shortened(observation, SIGHT), said=text)
    reply = llm.complete(messages, sampling=sampling, max_tokens=LENGTH, stop=("\n\n",))
    understood = read(reply.text, verbs_of(card))
    action = understood.action or plain
    return _in_form(action, card) or action, "model"


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
