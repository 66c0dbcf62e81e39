"""Prompts: Jinja files, rendered to messages; texts from outside are fenced as data.

A file `NAME.jinja` has the blocks `system` (optional) and `user`. Every variable must be passed.
Texts from a memory or an environment go through the filters `data`, `plain` or `one_line`, so that
a model can tell them from instructions, and no such text can end its own fence or look like the
next item of a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ldm.llm import Message
from ldm.types import encodable, stable_hash

if TYPE_CHECKING:
    from jinja2 import Environment, Template

FOLDER = Path(__file__).parent
SUFFIX = ".jinja"
ROLES: tuple[Literal["system", "user"], ...] = ("system", "user")
#: A tag as `data` writes it, with or without blanks and further words (any words in an end tag), in
#: any case; or the end of a turn in a chat format, such as <|im_end|>.
TAG = re.compile(
    r"<(\s*/?\s*[a-z][\w-]*\s*|[a-z][\w-]*(?:\s+[^\s<>\[\]]+)+\s*|\s*/\s*[a-z][\w-]*\b[^<>]*"
    r"|[|｜][^<>\n]*[|｜])>",
    re.IGNORECASE,
)
#: The end of a turn in formats with square brackets: [/INST].
BRACKETED = re.compile(
    r"\[(\s*/?\s*(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\s*)\]",
    re.IGNORECASE,
)
#: The labels of the parts of an example; a text must not forge one.
LABEL = re.compile(
    r"^(?=example \d|task:|so far:|seen:|action:|(?:\d+\. )?observation:|evaluation:|summary:)",
    re.IGNORECASE | re.MULTILINE,
)


def render(name: str, **values: Any) -> list[Message]:
    """Return the messages of prompt `name`: the same bytes for the same values.

    Raise jinja2.UndefinedError if the file uses a value that is not passed, and TemplateNotFound
    for an unknown file.
    """
    template = _template(name)
    return [
        Message(role, "".join(template.blocks[role](template.new_context(values))).strip())
        for role in ROLES
        if role in template.blocks
    ]


def names() -> tuple[str, ...]:
    """Return all prompts, sorted; those of an environment or agent as "folder/name"."""
    return tuple(sorted(name for name in _files() if not name.rpartition("/")[2].startswith("_")))


def digests() -> dict[str, str]:
    """Return prompt → hash of its file, for the record of a run."""
    return {name: stable_hash(file.read_text(encoding="utf-8")) for name, file in _files().items()}


def _files() -> dict[str, Path]:
    files = sorted(FOLDER.rglob(f"*{SUFFIX}"))
    return {file.relative_to(FOLDER).with_suffix("").as_posix(): file for file in files}


def fenced(text: object, tag: str) -> str:
    """Return `text` between <tag> and </tag>, with anything like a tag in it defused."""
    return f"<{tag}>\n{plain(text)}\n</{tag}>"


def plain(text: object) -> str:
    """Return `text` in which nothing looks like a tag, for use within a fence."""
    return BRACKETED.sub(r"(\1)", TAG.sub(r"(\1)", encodable(str(text))))


def one_line(text: object) -> str:
    """Return `plain` text without line breaks, for items and labelled parts of one line each."""
    return plain(" ".join(line.strip() for line in str(text).splitlines()))


def unlabelled(text: object) -> str:
    """Return `text`, with the lines indented that begin like a part of an example."""
    return LABEL.sub("  ", str(text))


def shortened(text: object, length: int) -> str:
    """Return the beginning and the end of a long text, `length` characters of it."""
    whole = str(text)
    if len(whole) <= length:
        return whole
    head = length * 3 // 4
    return f"{whole[:head]} […] {whole[len(whole) - (length - head) :]}"


def grouped(actions: Iterable[str]) -> list[str]:
    """Return actions, those that differ in the number at their end as one: "go to shelf 1, 2"."""
    texts: list[str] = []
    last = ""
    for action in actions:
        before, _, number = action.rpartition(" ")
        if texts and number.isdigit() and before == last:
            texts[-1] += f", {number}"
        else:
            texts.append(action)
        last = before if number.isdigit() else ""
    return texts


def bullets(items: Iterable[object]) -> str:
    """Return the texts as lines, each after a dash."""
    return "\n".join(f"- {item}" for item in items)


@cache
def _template(name: str) -> Template:
    return _environment().get_template(name + SUFFIX)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - prompts are no HTML; `data` fences what comes from outside
    )
    environment.filters.update(data=fenced, plain=plain, shortened=shortened, bullets=bullets)
    environment.filters.update(one_line=one_line, unlabelled=unlabelled, grouped=grouped)
    return environment
