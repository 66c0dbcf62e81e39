"""The columns of results: one entry here stands in every table, in summaries, CSV, JSON and pages.

An agent's own figures (`ldm.reporting.Measure`) become columns beside these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ldm.reporting import Measure
from ldm.types import EpisodeResult


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of an episode.

    name: of the figure of one episode, in CSV and Parquet. of: its value; None if there is none.
    total: how episodes are taken together: their mean, or their sum. over: "finished" leaves out
    episodes that ended in an error. summary: the name of that in summaries and JSON, "" for `name`.
    table: its heading in the table of a run, "" to leave it out. side: its heading beside other
    runs, where it is a mean per task. meaning: a few words, for pages. digits: after the point.
    """

    name: str
    of: Callable[[EpisodeResult], float | None]
    total: Literal["mean", "sum"] = "mean"
    over: Literal["finished", "all"] = "finished"
    summary: str = ""
    table: str = ""
    side: str = ""
    meaning: str = ""
    digits: int = 1

    @property
    def key(self) -> str:
        """The name in summaries and JSON."""
        return self.summary or self.name

    def text(self, value: float | None) -> str:
        """Return a value as tables show it; a dash if there is none."""
        return "–" if value is None else f"{value:.{self.digits}f}"


COLUMNS = (
    Column("steps", lambda one: one.env_steps, summary="mean_steps", table="steps", side="steps",
           meaning="environment steps per task"),
    Column("invalid", lambda one: one.invalid, "sum", table="invalid", digits=0,
           meaning="invalid actions"),
    Column("errors", lambda one: float(one.end == "error"), "sum", "all", table="errors", digits=0,
           meaning="episodes that ended in an error"),
    Column("seconds", lambda one: one.seconds, "sum", "all", table="seconds", side="s/task",
           meaning="seconds per task"),
    Column("trials", lambda one: one.trials, side="trials", meaning="trials per task"),
    Column("calls", lambda one: one.usage.calls, side="calls", meaning="model calls per task"),
    Column("tokens", lambda one: one.usage.prompt_tokens + one.usage.completion_tokens,
           side="tokens", meaning="tokens per task", digits=0),
    Column("prompt_tokens", lambda one: one.usage.prompt_tokens, digits=0),
    Column("completion_tokens", lambda one: one.usage.completion_tokens, digits=0),
)  # fmt: skip


def with_measures(measures: Iterable[Measure]) -> tuple[Column, ...]:
    """Return all columns, followed by an agent's own measures that have another name."""
    known = {column.name for column in COLUMNS}
    own = (Column(m.name, m.of, meaning=m.meaning, digits=2) for m in measures)
    return (*COLUMNS, *(column for column in own if column.name not in known))
