"""Read traces of agents: the runs that LangSmith exports, and traces of Langfuse.

The calls of tools in a trace are the actions, in the order of their starts, and its output is the
last one. LangSmith has one run a line, of any number of traces, each with `trace_id` and `run_type`
(https://docs.langchain.com/langsmith/run-data-format); Langfuse a trace with its `observations` and
`scores`, as its API and its interface give it. The mean of the scores from 0 to 1 is the score.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from ldm.envs.formats import NOTHING, Assumed, FieldError, located, parsed
from ldm.interchange import chat
from ldm.interchange.chat import SUFFIX, Acted, Heard, call_text, each
from ldm.records import Problem
from ldm.types import Trajectory

SUFFIXES = (SUFFIX,)
SIGN = '"trace_id" and "run_type" (LangSmith), or "observations" (Langfuse)'


@dataclass(frozen=True, slots=True)
class Observation:
    """A part of a trace of Langfuse."""

    type: str
    name: str | None = None
    input: Any = None
    output: Any = None
    startTime: str = ""  # noqa: N815 - Langfuse's name


@dataclass(frozen=True, slots=True)
class Line:
    """A run of LangSmith, or a trace of Langfuse."""

    id: str = ""
    name: str | None = None
    trace_id: str = ""
    parent_run_id: str | None = None
    run_type: str = ""
    inputs: Any = None
    outputs: Any = None
    error: str | None = None
    dotted_order: str = ""
    feedback_stats: Mapping[str, Any] | None = None
    input: Any = None
    output: Any = None
    observations: tuple[Observation, ...] | None = None
    scores: tuple[Mapping[str, Any], ...] = ()


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like a run of LangSmith or a trace of Langfuse."""
    if not isinstance(value, dict):
        return False
    return {"trace_id", "run_type"} <= value.keys() or isinstance(value.get("observations"), list)


def read(path: Path, assumed: Assumed = NOTHING) -> Iterator[Trajectory | Problem]:
    """Yield the trajectory of each trace of a file, or the problem with a line."""
    traces: dict[str, list[tuple[int, Line]]] = {}
    for one in each(path, _numbered, assumed):
        if isinstance(one, Problem):
            yield one
        else:
            traces.setdefault(one[1].trace_id or f"line {one[0]}", []).append(one)
    for runs in traces.values():
        runs.sort(key=lambda run: (run[1].parent_run_id is not None, run[1].dotted_order))
        made = partial(_trajectory, [line for _, line in runs], assumed)
        yield located(made, str(path), runs[0][0])


def _numbered(text: bytes, file: str, number: int, _: Assumed) -> tuple[int, Line] | Problem:
    return parsed(text, Line, lambda line: (number, line), file, number)


def _trajectory(runs: Sequence[Line], assumed: Assumed) -> Trajectory:
    root = runs[0]
    if not (goal := _text(root.inputs or root.input)):
        raise FieldError("inputs", "no input of the whole trace states the goal")
    turns: list[Heard | Acted] = [Heard(goal)]
    if root.observations is not None:
        observations = sorted(root.observations, key=lambda one: one.startTime)
        calls = [(x.name, x.input, x.output) for x in observations if x.type.upper() == "TOOL"]
        values: list[Any] = [one.get("value") for one in root.scores]
    else:
        tools = [one for one in runs if one.run_type == "tool"]
        calls = [(one.name, one.inputs, one.outputs or one.error) for one in tools]
        stats = (root.feedback_stats or {}).values()
        values = [one.get("avg") for one in stats if isinstance(one, dict)]
    for name, arguments, answer in calls:
        turns += [Acted(call_text(name or "tool", _arguments(arguments))), Heard(_text(answer))]
    if final := _text(root.outputs or root.output):
        turns.append(Acted(final))
    numbers = [float(one) for one in values if type(one) in (int, float)]
    if scores := [one for one in numbers if 0 <= one <= 1]:
        assumed = replace(assumed, score=mean(scores))
    return chat.trajectory(turns, assumed, "inputs", root.id)


def _arguments(value: Any) -> Any:
    """Return the arguments of a call, which LangChain keeps as a text under "input"."""
    return value["input"] if isinstance(value, dict) and value.keys() == {"input"} else value


def _text(value: Any) -> str:
    """Return the text of an input or output: of its last message, or of its only field."""
    match value:
        case None:
            return ""
        case str():
            return value
        case {"content": list() as parts} | {"kwargs": {"content": list() as parts}}:
            return chat.result_text(parts, "content")
        case {"messages": [*_, last]} | [*_, last]:
            return _text(last)
        case {"content": content} | {"kwargs": {"content": content}} | {"text": content}:
            return _text(content)
        case dict() if len(value) == 1:
            return _text(next(iter(value.values())))
    return json.dumps(value, ensure_ascii=False)
