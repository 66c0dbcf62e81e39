"""Published figures: a paper's table as values, shown beside our own measurements.

Nothing is computed from them: they come from other models, prompts or tasks, so they enter no
interval, difference or ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import Field

from ldm.run.results import Report, percent, span

#: In per cent, as printed in the paper.
Percent = Annotated[int | float, Field(ge=0, le=100)]
COLUMNS = ("agent", "figures", "success", "95 % interval")
HERE, ELSEWHERE = "measured here", "published"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures in a row of a table; None if it lacks one.

    all: success over all tasks. score: the mean score. kinds: success by kind of task.
    """

    all: Percent | None = None
    score: Percent | None = None
    kinds: dict[str, Percent] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self != Figures()


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a paper's table. name: as in the paper. note: a remark on it."""

    name: str
    published: Figures = Figures()
    note: str = ""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a paper.

    paper, table: its location. model: the one that the figures were measured with. tasks: their
    number; None if not stated. second_hand: the paper's own text was not available to check them.
    notes: differences from the paper.
    """

    paper: str
    table: str
    model: str = ""
    tasks: int | None = None
    second_hand: bool = False
    rows: tuple[PublishedRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The source of the figures, in a few words."""
        return f"{self.paper}, {self.table}"


@dataclass(frozen=True, slots=True)
class PresetRecord:
    """The record of a preset in a run that it started.

    name, digest: the preset's. counterparts: names of the published rows with this run's settings.
    overridden: the options given in place of the preset's settings, in words.
    """

    name: str
    digest: str
    published: PublishedTable
    counterparts: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()


def beside(
    reports: Sequence[Report], records: Sequence[PresetRecord]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return columns and rows: each report, and below it the published rows that it reproduces.

    records: of the reports' runs. Published rows without a counterpart follow in the paper's order.
    """
    rows = records[0].published.rows
    kinds = [kind for row in rows for kind in row.published.kinds]
    kinds += sorted(kind for report in reports for kind in report.summary.by_kind)
    kinds = list(dict.fromkeys(kinds))
    lines, matched = list[tuple[str, ...]](), set[str]()
    for report, record in zip(reports, records, strict=True):
        lines.append(_measured(report, kinds))
        for row in rows:
            if row.name in record.counterparts and row.published and row.name not in matched:
                matched.add(row.name)
                lines.append(_published(row, kinds))
    lines += (_published(row, kinds) for row in rows if row.published and row.name not in matched)
    if any(row.published.score is not None for row in rows):
        return (*COLUMNS, *kinds, "score"), lines
    return (*COLUMNS, *kinds), [line[:-1] for line in lines]


def remarks(record: PresetRecord) -> list[str]:
    """Return remarks on the published rows: their source, and the differences."""
    table = record.published
    measured = ", ".join(
        filter(None, (table.model, "" if table.tasks is None else f"{table.tasks} tasks"))
    )
    origin = f"Published rows are those of {table.source}" + (f" ({measured})" if measured else "")
    lines = [f"{origin}. They were not measured here: do not rank them with what was."]
    if table.second_hand:
        lines.append("They are second-hand: the paper's text was not there to check them.")
    if record.overridden:
        lines.append(
            f"Overridden, so that the protocol is no longer the published one: "
            f"{'; '.join(record.overridden)}."
        )
    lines += (f"Differs from the paper: {note}" for note in table.notes)
    lines += (f"{row.name}: {row.note}" for row in table.rows if row.note)
    return lines


def as_json(reports: Sequence[Report], records: Sequence[PresetRecord]) -> dict[str, Any]:
    """Return the published table as JSON values, figures in per cent as printed.

    "beside" names the agent that has a row's settings, or is None without one.
    """
    first = records[0]
    table = asdict(first.published)
    del table["rows"]
    agents = {
        name: report.label
        for report, record in reversed(list(zip(reports, records, strict=True)))
        for name in record.counterparts
    }
    return {
        **table,
        **{"name": first.name, "digest": first.digest, "overridden": list(first.overridden)},
        "published": [
            {
                "row": row.name,
                "beside": agents.get(row.name),
                "success_percent": row.published.all,
                "score_percent": row.published.score,
                "by_kind_percent": dict(row.published.kinds),
                "note": row.note,
            }
            for row in first.published.rows
            if row.published
        ],
    }


def _measured(report: Report, kinds: Sequence[str]) -> tuple[str, ...]:
    overall, by_kind = report.summary.overall, report.summary.by_kind
    rates = (percent(by_kind[kind].success_rate if kind in by_kind else None) for kind in kinds)
    own = (report.label, HERE, percent(overall.success_rate), span(overall.interval))
    return (*own, *rates, percent(overall.mean_score).removesuffix(" %"))


def _published(row: PublishedRow, kinds: Sequence[str]) -> tuple[str, ...]:
    figures = row.published
    rates = (figure(figures.kinds.get(kind), " %") for kind in kinds)
    own = (row.name, ELSEWHERE, figure(figures.all, " %"), "–")
    return (*own, *rates, figure(figures.score))


def figure(value: float | None, unit: str = "") -> str:
    """Return a figure as printed in the paper."""
    return "–" if value is None else f"{value}{unit}"
