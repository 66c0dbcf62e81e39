"""Published figures: a paper's table as values, and how it stands beside what was measured here.

Nothing is computed from them: they come from other models, prompts or tasks, so that they enter no
interval, no difference and no ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ldm.run.results import Report, percent, span

#: In per cent, written as the paper writes it.
Percent = Annotated[int | float, Field(ge=0, le=100)]
COLUMNS = ("agent", "figures", "success", "95 % interval")
HERE, ELSEWHERE = "measured here", "published"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a row of a table says; None where it does not.

    all: success over all tasks. score: the mean score. kinds: success by kind of task.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    all: Percent | None = None
    score: Percent | None = None
    kinds: dict[str, Percent] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self != Figures()


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a paper's table. name: what the paper calls it. note: what to know of it."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: str
    published: Figures = Figures()
    note: str = ""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a paper.

    paper, table: where it stands. model: what the figures were measured with. tasks: how many there
    were; None where it is not said. second_hand: the paper's own text was not there to check them.
    notes: what differs from the paper.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    paper: str
    table: str
    model: str = ""
    tasks: int | None = None
    second_hand: bool = False
    rows: tuple[PublishedRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Where the figures come from, in a few words."""
        return f"{self.paper}, {self.table}"


@dataclass(frozen=True, slots=True)
class PresetRecord:
    """What a run that a preset asked for remembers of it.

    name, digest: the preset's. counterparts: names of the published rows that this run has the
    settings of. overridden: what was asked for in place of the preset's settings, in words.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: str
    digest: str
    published: PublishedTable
    counterparts: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()


def beside(
    reports: Sequence[Report], records: Sequence[PresetRecord]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return columns and rows: each report, and below it the published rows that it stands for.

    records: of the reports' runs. Published rows without a counterpart follow in the paper's order.
    """
    rows = records[0].published.rows
    kinds = [kind for row in rows for kind in row.published.kinds]
    kinds += sorted(kind for report in reports for kind in report.summary.by_kind)
    kinds = list(dict.fromkeys(kinds))
    scored = any(row.published.score is not None for row in rows)
    lines, matched = list[tuple[str, ...]](), set[str]()
    for report, record in zip(reports, records, strict=True):
        lines.append(_measured(report, kinds, scored=scored))
        for row in rows:
            if row.name in record.counterparts and row.published and row.name not in matched:
                matched.add(row.name)
                lines.append(_published(row, kinds, scored=scored))
    rest = (row for row in rows if row.published and row.name not in matched)
    lines += (_published(row, kinds, scored=scored) for row in rest)
    return (*COLUMNS, *kinds, *(("score",) if scored else ())), lines


def remarks(record: PresetRecord) -> list[str]:
    """Return what to know of the published rows: where they come from, and what differs."""
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

    "beside" names the agent that has a row's settings, None where none has.
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


def _measured(report: Report, kinds: Sequence[str], *, scored: bool) -> tuple[str, ...]:
    overall, by_kind = report.summary.overall, report.summary.by_kind
    score = () if not scored else (percent(overall.mean_score).removesuffix(" %"),)
    rates = (percent(by_kind[kind].success_rate if kind in by_kind else None) for kind in kinds)
    own = (report.label, HERE, percent(overall.success_rate), span(overall.interval))
    return (*own, *rates, *score)


def _published(row: PublishedRow, kinds: Sequence[str], *, scored: bool) -> tuple[str, ...]:
    figures = row.published
    score = () if not scored else (figure(figures.score),)
    rates = (figure(figures.kinds.get(kind), " %") for kind in kinds)
    return (row.name, ELSEWHERE, figure(figures.all, " %"), "–", *rates, *score)


def figure(value: float | None, unit: str = "") -> str:
    """Return a figure as the paper has it."""
    return "–" if value is None else f"{value}{unit}"
