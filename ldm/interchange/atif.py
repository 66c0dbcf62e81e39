"""Read and write ATIF, the Agent Trajectory Interchange Format of the Harbor framework.

A file ending in .json is one document; JSONL has one per line. The goal and the opening are the
first two messages of the user, an action is a message of the agent, and its answer that step's
observation. See https://harborframework.com/docs/trajectory-format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ldm import records
from ldm.envs.fields import FieldError
from ldm.envs.formats import LINES, NOTHING, Assumed
from ldm.errors import LdmError
from ldm.interchange import foreign
from ldm.interchange.documents import SUFFIX, Content, located, text_of
from ldm.interchange.foreign import Acted, Heard, SelfDescription, call_text
from ldm.interchange.remainder import (
    KEY,
    Remainder,
    StepRemainder,
    parsed,
    remainder,
    step_remainder,
)
from ldm.records import Problem
from ldm.text import read_bytes, read_lines, redacted_json
from ldm.types import Step, Trajectory

SUFFIXES = (SUFFIX,)
WRITTEN = (SUFFIX, *LINES, "")
SIGN = '"schema_version": "ATIF-…"'
HEAD = re.compile(rb'"schema_version"\s*:\s*"ATIF-')
#: The first version with all written fields.
WRITTEN_VERSION = "ATIF-v1.7"
Version = Annotated[str, Field(pattern=r"^ATIF-v1\.[0-8]$")]
#: The agent is known by its origin only ("expert", …).
_AGENT_VERSION = "unknown"
_NOTES = {"schema_version": "a newer ldm may read other versions"}


@dataclass(frozen=True, slots=True)
class Call:
    function_name: str
    arguments: dict[str, Any]
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    content: Content = None
    source_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class StepExtra:
    ldm: StepRemainder | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of a document, as far as it is read."""

    source: Literal["system", "user", "agent"]
    message: Content = ""
    reasoning_content: str | None = None
    tool_calls: tuple[Call, ...] | None = None
    observation: Observation | None = None
    is_copied_context: bool | None = None
    extra: StepExtra | None = None

    @property
    def answer(self) -> str:
        results = self.observation.results if self.observation else ()
        return "\n".join(text_of(result.content) for result in results)


@dataclass(frozen=True, slots=True)
class Extra(SelfDescription):
    ldm: Remainder | None = None


@dataclass(frozen=True, slots=True)
class AgentObject:
    extra: SelfDescription | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document, as far as it is read; trajectories of subagents are left out."""

    schema_version: Version
    steps: tuple[Turn, ...]
    agent: AgentObject = AgentObject()
    trajectory_id: str | None = None
    session_id: str | None = None
    extra: Extra | None = None


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like a document of any version."""
    return isinstance(value, dict) and str(value.get("schema_version")).startswith("ATIF-")


def read(path: Path, assumed: Assumed = NOTHING) -> Iterator[Trajectory | Problem]:
    """Yield the trajectory of each document in a file, or the problem with it.

    assumed: of documents that are not ours.
    """
    if path.suffix != SUFFIX:
        for number, line in read_lines(path):
            yield parse(line, str(path), number, assumed)
        return
    yield parse(read_bytes(path), str(path), 1, assumed)


def parse(
    text: str | bytes, file: str, number: int, assumed: Assumed = NOTHING
) -> Trajectory | Problem:
    """Return the trajectory of a document, or the problem with it."""
    document = parsed(text, Document, file, number, _NOTES)
    if isinstance(document, Problem):
        return document
    if document.extra and (rest := document.extra.ldm):
        return located(lambda: _ours(document.steps, rest), file, number)
    return located(lambda: _foreign(document, assumed), file, number)


def document_of(trajectory: Trajectory) -> dict[str, Any]:
    """Return the document of a trajectory, as JSON values."""
    turns = [
        {"source": "user", "message": trajectory.task.goal},
        {"source": "user", "message": trajectory.opening},
        *map(_turn, trajectory.steps),
    ]
    return {
        "schema_version": WRITTEN_VERSION,
        "session_id": trajectory.id,
        "trajectory_id": trajectory.id,
        "agent": {"name": trajectory.origin, "version": _AGENT_VERSION},
        "steps": [{"step_id": number, **turn} for number, turn in enumerate(turns, start=1)],
        "final_metrics": {"total_steps": len(turns)},
        "extra": {KEY: remainder(trajectory)},
    }


def write(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write one document per line to a JSONL file, one to a JSON file, or one per file to a folder.

    Raise LdmError if a JSON file is to hold several, or if the folder is not empty.
    """
    if path.suffix == SUFFIX:
        if len(trajectories) != 1:
            raise LdmError(
                f"{path} can hold one trajectory, and there are {len(trajectories)}.",
                "Name a folder, for one file each, or a file ending in .jsonl.",
            )
        _write_document(path, trajectories[0])
    elif path.suffix:
        records.write(path, map(document_of, trajectories))
    else:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise LdmError(f"{path} is not an empty folder.", "Name a new one.")
        digits = len(str(len(trajectories)))  # sorted by name, they stay in their order
        for number, one in enumerate(trajectories, start=1):
            _write_document(path / f"{number:0{digits}}-{one.id}{SUFFIX}", one)


def _write_document(path: Path, trajectory: Trajectory) -> None:
    with records.replacing(path) as file:
        text = json.dumps(document_of(trajectory), ensure_ascii=False, indent=1)
        file.write(redacted_json(text) + "\n")


def _turn(step: Step) -> dict[str, Any]:
    turn: dict[str, Any] = {"source": "agent", "message": step.action}
    if step.thought:
        turn["reasoning_content"] = step.thought
    if step.observation:
        turn["observation"] = {"results": [{"content": step.observation}]}
    if rest := step_remainder(step):
        turn["extra"] = {KEY: rest}
    return turn


def _ours(turns: Sequence[Turn], rest: Remainder) -> Trajectory:
    """Return the trajectory of a document of ours: goal, opening, and one step per action."""
    sources = ("user", "user", *["agent"] * (len(turns) - 2))
    for number, (turn, source) in enumerate(zip(turns, sources, strict=False)):
        if turn.source != source:
            raise FieldError(f"steps.{number}.source", f"should be {source!r}")
    if len(turns) < 2:
        raise FieldError("steps", "should begin with the goal and the opening")
    if text_of(turns[0].message) != rest.task.goal:
        raise FieldError("steps.0.message", f"is not the goal in extra.{KEY}.task.goal")
    steps = []
    for turn in turns[2:]:
        more = (turn.extra and turn.extra.ldm) or StepRemainder()
        thought = turn.reasoning_content or ""
        steps.append(more.step(text_of(turn.message), turn.answer, thought))
    return rest.trajectory(text_of(turns[1].message), steps)


def _foreign(document: Document, assumed: Assumed) -> Trajectory:
    assumed = foreign.stated(assumed, document.agent.extra, document.extra)
    name = document.trajectory_id or document.session_id or ""
    return foreign.trajectory(_turns(document.steps), assumed, "steps", name)


def _turns(turns: Sequence[Turn]) -> Iterator[Heard | Acted]:
    """Yield the messages to the agent and its actions, without those of the system.

    Turns copied from an earlier document, which this one continues, are left out.
    """
    for turn in turns:
        if turn.source == "system" or (turn.source == "agent" and turn.is_copied_context):
            continue
        message = text_of(turn.message)
        if turn.source == "user":
            yield Heard(message)
        else:
            thought = turn.reasoning_content or ""
            if turn.tool_calls:
                thought = "\n".join(filter(None, (thought, message)))
            else:
                yield Acted(message.strip(), thought)
            for call in turn.tool_calls or ():
                arguments = json.dumps(call.arguments, ensure_ascii=False)
                yield Acted(call_text(call.function_name, arguments), thought, call.tool_call_id)
                thought = ""  # the thought belongs to the first of several calls
        for result in turn.observation.results if turn.observation else ():
            yield Heard(text_of(result.content), result.source_call_id or "")
