"""Read ShareGPT: {"conversations": [{"from", "value"}, …]}, one per line or a list.

Messages of "human" are observations; those of "gpt" are actions, and so is a "function_call", a
JSON object with name and arguments, which an "observation" answers. Such files are only read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.envs.fields import FieldError
from ldm.envs.formats import NOTHING, Assumed
from ldm.interchange import foreign
from ldm.interchange.documents import SUFFIX, each, located
from ldm.interchange.foreign import Acted, Heard, SelfDescription, call_text
from ldm.interchange.remainder import parsed
from ldm.records import Problem
from ldm.text import parse_json
from ldm.types import Trajectory

SUFFIXES = (SUFFIX,)
SIGN = '"conversations" with "from" and "value"'
HEAD = re.compile(rb'"conversations"\s*:\s*\[')
#: Names of speakers, as various programs write them.
HEARD = frozenset({"human", "user", "observation", "tool", "function_response", "tool_response"})
ACTS = frozenset({"gpt", "assistant", "chatgpt", "bing", "bard", "model"})
CALLS = frozenset({"function_call", "tool_call"})
INSTRUCTS = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Line(SelfDescription):
    conversations: tuple[dict[str, Any], ...]


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like a conversation of ShareGPT."""
    messages = value.get("conversations") if isinstance(value, dict) else None
    return isinstance(messages, list) and all(
        isinstance(one, dict) and "from" in one and "value" in one for one in messages
    )


def read(path: Path, assumed: Assumed = NOTHING) -> Iterator[Trajectory | Problem]:
    """Return an iterator over the trajectory of each conversation, or the problem with it."""
    return each(path, parse, assumed)


def parse(
    text: str | bytes, file: str, number: int, assumed: Assumed = NOTHING
) -> Trajectory | Problem:
    """Return the trajectory in a line, or the problem with it."""
    line = parsed(text, Line, file, number, {})
    if isinstance(line, Problem):
        return line
    stated, turns = foreign.stated(assumed, line), _turns(line.conversations)
    return located(lambda: foreign.trajectory(turns, stated, "conversations"), file, number)


def _turns(messages: Sequence[Mapping[str, Any]]) -> Iterator[Heard | Acted]:
    for place, message in enumerate(messages):
        speaker, value = message.get("from"), message.get("value")
        for name, one in (("from", speaker), ("value", value)):
            if not isinstance(one, str):
                raise FieldError(f"conversations.{place}.{name}", "missing or not a text")
        assert isinstance(speaker, str) and isinstance(value, str)  # noqa: S101, PT018 - seen above
        who = speaker.lower()
        if who in CALLS:
            yield Acted(_called(value))
        elif who in ACTS:
            yield Acted(value.strip())
        elif who in HEARD:
            yield Heard(value)
        elif who not in INSTRUCTS:
            known = ", ".join(sorted(HEARD | ACTS | CALLS | INSTRUCTS))
            raise FieldError(f"conversations.{place}.from", f"{speaker!r} is none of {known}")


def _called(text: str) -> str:
    """Return the action of a call; a text that is not the JSON of one is the action itself."""
    value = parse_json(text, "")
    if not (isinstance(value, dict) and isinstance(value.get("name"), str)):
        return text.strip()
    arguments = value.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return call_text(value["name"], arguments)
