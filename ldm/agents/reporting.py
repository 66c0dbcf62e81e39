"""What an agent's class may tell about its episodes, beside success, for reports to show.

A class tells it in one attribute, `reporting`; one without it is reported like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ldm.agents import load_agent
from ldm.errors import LdmError
from ldm.types import EpisodeResult


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure for an episode; its mean goes into summaries and reports under `name`.

    meaning: in a few words. of: the figure; None where the episode has none.
    """

    name: str
    meaning: str
    of: Callable[[EpisodeResult], float | None]


@dataclass(frozen=True, slots=True)
class Findings:
    """What else a report says of a run's episodes, in sentences and as JSON values."""

    lines: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


#: How a branch ended: well, badly, never begun, given up before it was tried; "" says nothing.
BranchState = Literal["", "done", "failed", "open", "pruned"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of a tree, as a report draws it, whatever the tree is of.

    depth: 0 for a root; a node comes before those below it. text: what was done or is to be done.
    state: how it ended. words: how, in a few words. figures: name → value, such as a confidence.
    chosen: whether it is on the way that was taken in the end. key: whether it is what made the
    difference. texts: name → longer text that belongs to it.
    """

    depth: int
    text: str
    state: BranchState = ""
    words: str = ""
    figures: Mapping[str, str] = field(default_factory=dict)
    chosen: bool = False
    key: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskTree:
    """How an agent divided a task, or searched for a way to do it.

    columns: what a table of many trees says of this one. headline: the same, shortly, where it is
    shown alone. lines: the tree itself. branches: the same for a report to draw; () where there are
    only lines. paths: whether branches are ways to go, not parts of a whole: the first one of a
    node goes on from it.
    """

    columns: Mapping[str, str]
    headline: str
    lines: tuple[str, ...]
    branches: tuple[Branch, ...] = ()
    paths: bool = False


def _no_findings(results: Sequence[EpisodeResult]) -> Findings:
    return Findings()


def _no_tree(result: EpisodeResult) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Reporting:
    """What reports ask of an agent's class.

    findings: of all episodes of a run. tree: of one episode, None where it grew none.
    """

    measures: tuple[Measure, ...] = ()
    findings: Callable[[Sequence[EpisodeResult]], Findings] = _no_findings
    tree: Callable[[EpisodeResult], TaskTree | None] = _no_tree


def reporting_of(agent: object) -> Reporting:
    """Return what an agent's class tells."""
    reporting: Reporting = getattr(agent, "reporting", Reporting())
    return reporting


def reporting_named(name: str) -> Reporting:
    """Return what the agent called `name` in a record tells; nothing where it is not importable."""
    try:
        return reporting_of(load_agent(name, recorded=True))
    except LdmError:
        return Reporting()


def reporting_on(results: Sequence[EpisodeResult]) -> Reporting:
    """Return what the agent that had these results tells, if it is registered under its name."""
    return reporting_named(results[0].agent) if results else Reporting()
