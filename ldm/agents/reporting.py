"""What an agent's class may tell about its episodes, beside success, for reports to show.

A class tells it in one attribute, `reporting`; one without it is reported like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True, slots=True)
class TaskTree:
    """How an agent divided a task, or searched for a way to do it.

    columns: what a table of many trees says of this one. headline: the same, shortly, where it is
    shown alone. lines: the tree itself.
    """

    columns: Mapping[str, str]
    headline: str
    lines: tuple[str, ...]


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
