"""Write what a memory teaches as skills: a folder with a SKILL.md for each kind of task.

The format (agentskills.io) is Markdown below YAML with a name of at most 64 lower-case letters,
digits and single hyphens, that of the folder, and a description of at most 1,024 characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ldm.errors import LdmError
from ldm.memory.lessons import rules_of
from ldm.reason.rules import Habit, Rules
from ldm.records import replaced, writing
from ldm.text import printable
from ldm.types import StateActionTuple, stable_hash

FILE, NAME, DESCRIPTION = "SKILL.md", 64, 1_024
#: The line by which files that may be replaced are known.
OURS = "  generator: ldm memory export"
#: The share of the episodes of a kind in which a usual step was taken; goals that are shown.
USUAL, GOALS, GOAL = 0.3, 3, 200


def export_skills(
    tuples: Sequence[StateActionTuple], env: str, folder: Path, *, replace: bool = False
) -> list[Path]:
    """Write a skill for each kind of task; return the files.

    replace: whether to replace files that this did not write. Raises LdmError for one otherwise.
    """
    rules, files = rules_of(tuples), dict[Path, str]()
    for kind in sorted({one.kind for one in tuples}):
        name = _named(f"{env} {kind}", {path.parent.name for path in files})
        goals = sorted({one.goal for one in tuples if one.kind == kind}, key=lambda x: (len(x), x))
        examples = [_line(x)[:GOAL] for x in goals[len(goals) // 2 :][:GOALS]]
        files[folder / name / FILE] = skill(name, env, kind, rules.of_kind(kind), examples)
    for path in files:
        if any(part.is_symlink() for part in (path, path.parent)):
            raise LdmError(f"{path} is a link.", "Remove it, or name another folder.")
        if path.exists() and not replace and OURS not in path.read_text("utf-8", "replace"):
            raise LdmError(
                f"{path} was not written by this command.", "Name another folder, or give --yes."
            )
    for path, text in files.items():
        with writing(path), replaced(path) as temporary:
            temporary.write_text(text, "utf-8")
    return [*files]


def skill(name: str, env: str, kind: str, rules: Rules, goals: Sequence[str]) -> str:
    """Return the text of a SKILL.md. kind: "" if the memory tells no kinds apart."""
    first = rules.habits[0] if rules.habits else Habit(kind, "", 0, 0, 0, 0, 0)
    task = _line(f"{kind} tasks of {env}" if kind else f"tasks of {env}")
    count = f"{first.of_worked} episodes that worked and {first.of_failed} that failed"
    about = f"How to do {task}, learnt from {count}. Use it for goals such as: {'; '.join(goals)}"
    head = [
        "---",
        f"name: {name}",
        f"description: {json.dumps(about[:DESCRIPTION], ensure_ascii=False)}",
    ]
    head += ["metadata:", OURS, "---", "", f"# {task[:1].upper()}{task[1:]}"]
    return "\n".join([*head, *(line for part in _parts(rules) for line in part)]) + "\n"


def _parts(rules: Rules) -> Iterator[list[str]]:
    """Yield the parts of a skill that are not empty."""
    usual = [x for x in rules.habits if x.worked and x.worked >= USUAL * x.of_worked]
    steps = [f"{x.action} (in {x.worked} of {x.of_worked} episodes)" for x in usual]
    failed = [
        f"{x.action}: in {x.failed} of {x.of_failed} episodes that failed, in {x.worked} of"
        f" {x.of_worked} that worked"
        for x in rules.habits
        if x.failed > 2 and x.failed * x.of_worked > 2 * x.worked * x.of_failed
    ]
    yield from _part("Steps in their usual order", steps, "1.")
    yield from _part("What calls for which action (how often it held)", rules.lines())
    yield from _part("What failed", failed)
    yield from _part("What the record does not settle", rules.contradictions)


def _part(title: str, texts: Iterable[str], mark: str = "-") -> Iterator[list[str]]:
    if lines := [f"{mark} {_line(text)}" for text in texts]:
        yield ["", f"## {title}", "", *lines]


def _line(text: str) -> str:
    """Return a recorded text on one line."""
    return printable(" ".join(text.split()))


def _named(text: str, taken: set[str]) -> str:
    """Return a safe name that is not taken."""
    name = "-".join(re.findall("[a-z0-9]+", text.lower()))
    if len(name) > NAME or name in taken or not text.isascii():
        name = f"{name[: NAME - 9].rstrip('-') or 'skill'}-{stable_hash(text, length=8)}"
    return name
