"""Success against a number: of batch memories, episodes, rounds, depth, iterations.

LDM² Figure 3, ADaPT Figure 4 and AutoPlan Figure 3 are such curves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ldm.errors import LdmError
from ldm.report.drawing import svg
from ldm.run.repeats import spread
from ldm.run.statistics import Interval, bootstrap, by_task, frame, rate_interval
from ldm.types import EpisodeResult

if TYPE_CHECKING:
    import polars as pl

Measure = Literal["success", "score"]
SVG, CSV, JSON = ".svg", ".csv", ".json"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The result of runs with one value.

    series: its line. at: the value. rate: of success, or the mean score, over all episodes.
    interval: over tasks. runs: their number. deviation: of their rates, None for a single run.
    """

    series: str
    at: float
    rate: float
    interval: Interval
    tasks: int
    runs: int
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """Points by series and value. over: the name of the values. measure: that of the rates."""

    title: str
    over: str
    measure: Measure
    points: tuple[CurvePoint, ...]

    @property
    def series(self) -> list[str]:
        """The names of the lines, in their order."""
        return list(dict.fromkeys(point.series for point in self.points))

    def svg(self) -> str:
        """Return the curve as a picture."""
        lines = {
            series: [
                (point.at, point.rate, *point.interval)
                for point in self.points
                if point.series == series
            ]
            for series in self.series
        }
        ticks = {at: f"{at:g}" for at in sorted({point.at for point in self.points})}
        return svg(lines, self.title, self.measure, ticks, self.over)

    def frame(self) -> pl.DataFrame:
        """Return a row per point."""
        import polars as pl

        rows = []
        for point in self.points:
            row = {**asdict(point), "low": point.interval[0], "high": point.interval[1]}
            row[self.over] = row.pop("at")
            del row["interval"]
            rows.append(row)
        return pl.DataFrame(rows).select("series", self.over, pl.exclude("series", self.over))

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)

    def write(self, path: Path) -> None:
        """Write the curve in the format of the file's ending.

        Raise LdmError if it names none, or if the file cannot be written.
        """
        from ldm.records import replacing, writing

        check_curve(path)
        if path.suffix == SVG:
            text = self.svg()
        elif path.suffix == CSV:
            text = self.frame().write_csv()
        else:
            text = json.dumps(self.as_json(), indent=1, ensure_ascii=False) + "\n"
        with writing(path), replacing(path) as file:
            file.write(text)


def check_curve(path: Path) -> None:
    """Raise LdmError if a file's ending names no format of curves."""
    if path.suffix not in (SVG, CSV, JSON):
        raise LdmError(
            f"{path} does not end in {SVG}, {CSV} or {JSON}.", "Choose a name that does."
        )


def point(
    series: str, at: float, runs: Sequence[Sequence[EpisodeResult]], measure: Measure, seed: int
) -> CurvePoint:
    """Return the point of runs with one value. seed: of the interval."""
    tables = [frame(results) for results in runs]
    together = by_task(frame([result for results in runs for result in results]))
    values = together[measure].to_numpy()
    interval = rate_interval(values, seed=seed) if measure == "success" else bootstrap(values)
    return CurvePoint(
        series=series,
        at=at,
        rate=float(values.mean()),
        interval=interval,
        tasks=len(values),
        runs=len(runs),
        deviation=spread([float(table[measure].to_numpy().mean()) for table in tables]).deviation,
    )
