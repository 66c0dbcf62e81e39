"""Measures, findings and trees that an agent's class declares for reports on its episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ldm.types import EpisodeResult

#: Characters of a branch's text in a line.
LONGEST = 300


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of an episode, or None; summaries and reports show its mean under `name`.

    meaning: in a few words.
    """

    name: str
    meaning: str
    of: Callable[[EpisodeResult], float | None]


def noted(result: EpisodeResult, kind: str) -> Mapping[str, Any] | None:
    """Return the data of an episode's first note of a kind, or None."""
    return next((note.data for note in result.notes if note.kind == kind), None)


def measure_of_note(
    name: str, meaning: str, kind: str, read: Callable[[Mapping[str, Any]], float]
) -> Measure:
    """Return the measure that `read` takes from the note of a kind; None without such a note."""

    def of(result: EpisodeResult) -> float | None:
        data = noted(result, kind)
        return None if data is None else float(read(data))

    return Measure(name, meaning, of)


@dataclass(frozen=True, slots=True)
class Findings:
    """Further results of a run's episodes, in sentences and as JSON values."""

    lines: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


#: How a branch ended: well, badly, never started, pruned before it was tried, or unknown.
BranchState = Literal["", "done", "failed", "open", "pruned"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of any tree in a report.

    depth: 0 for a root; a node comes before those below it. text: the step or task. words: how it
    ended, in a few words. figures: name → value, such as a confidence. chosen: whether it is on the
    way that was taken in the end. key: whether it made the difference. texts: name → longer text.
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
    """An agent's decomposition of a task, or its search for a solution.

    columns: this tree's cells in a table of many. headline: the same in short. branches: the nodes,
    each before those below it. paths: whether branches are alternatives, the first of which
    continues its node, not parts of a whole. notes: lines on what came of it.
    """

    columns: Mapping[str, str]
    headline: str
    branches: tuple[Branch, ...]
    paths: bool = False
    notes: tuple[str, ...] = ()

    def lines(self, *, texts: bool = True) -> Iterator[str]:
        """Yield the tree as text: each branch in a line, below it its texts, and the notes.

        A path goes straight down, and each further one is indented; `*` marks the chosen one.
        texts: also those of other branches than roots.
        """
        for one, indent in zip(self.branches, self._indents(), strict=True):
            notes = [*(f"{name} {figure}" for name, figure in one.figures.items()), one.words]
            ended = f"  [{', '.join(filter(None, notes))}]" if any(notes) else ""
            mark = f"{'*' if one.chosen else '-'} {one.depth:>2} " if self.paths else ""
            key = "  <- key step: remembered from here" * one.key
            yield f"{indent}{mark}{one.text}{ended}{key}"
            for name, text in one.texts.items() if texts or not one.depth else ():
                yield f"{indent}  {name}: {' '.join(text.split())[:LONGEST]}"
        yield from self.notes

    def _indents(self) -> list[str]:
        if not self.paths:
            return ["  " * one.depth for one in self.branches]
        latest, parents = dict[int, int](), list[int]()
        for place, one in enumerate(self.branches):
            latest[one.depth] = place
            parents.append(latest.get(one.depth - 1, -1))
        pairs = zip(self.branches, parents, strict=True)
        tried = Counter(parent for one, parent in pairs if one.state != "pruned")
        indents: list[str] = []
        for parent in parents:
            indents.append("" if parent < 0 else indents[parent] + "  | " * (tried[parent] > 1))
        return indents


@dataclass(frozen=True, slots=True)
class Reporting:
    """The reports of an agent: on all episodes of a run, and a tree of one episode or None."""

    measures: tuple[Measure, ...] = ()
    findings: Callable[[Sequence[EpisodeResult]], Findings] = lambda results: Findings()
    tree: Callable[[EpisodeResult], TaskTree | None] = lambda result: None


#: That of an agent which declares nothing.
NO_REPORTING = Reporting()
