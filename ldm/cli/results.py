"""How evaluations are shown: their tables, what is known beside them, published rows, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.cli import output
from ldm.errors import LdmError
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.run.published import PresetRecord
    from ldm.run.results import Report


def show_reports(
    groups: Sequence[Sequence[Report]], presets: Sequence[Sequence[PresetRecord]], as_json: bool
) -> None:
    """Print the reports of each evaluation, on standard output or as JSON.

    presets: what the runs of each remember of theirs. Raises LdmError where no episode counts.
    """
    from ldm.run import published
    from ldm.run.results import HEADINGS, as_json_group, lines, rows

    for reports, records in zip(groups, presets, strict=True):
        for one in reports:
            title = f"{one.label} on {one.env}, {one.split}"
            output.print_table(title, HEADINGS, rows(one), error=as_json)
            output.say_all(lines(one), error=as_json)
        if len(reports) > 1:
            show_side_by_side(reports, error=as_json)
        if records:
            columns, table = published.beside(reports, records)
            title = f"Beside {records[0].published.source}"
            output.print_table(title, columns, table, error=as_json)
            output.say_all(published.remarks(records[0]), error=as_json)
    if as_json:
        objects = [
            as_json_group(reports)
            | ({"preset": published.as_json(reports, records)} if records else {})
            for reports, records in zip(groups, presets, strict=True)
        ]
        output.print_json(objects[0] if len(objects) == 1 else {"runs": objects})
    if not any(r.summary.overall.finished_rate is not None for group in groups for r in group):
        raise LdmError("Every episode ended in an error.", "The first one is shown above.")


def show_side_by_side(reports: Sequence[Report], *, error: bool) -> None:
    """Print a table of the reports, and the paired difference of each two."""
    from ldm.run.results import comparison, gains

    columns, table, remark = comparison(reports)
    output.print_table("Side by side", columns, table, error=error)
    output.say_all([*filter(None, [remark]), *gains(reports)], error=error)


def check_output(path: Path | None) -> None:
    """Raise LdmError, before anything is played, where no table can be written to a file."""
    if path is not None:
        from ldm.run.tables import check_table

        check_table(path)


def write_output(reports: Sequence[Report], path: Path | None) -> None:
    """Write a row an episode to a file, where one is named, and say so."""
    if path is not None:
        from ldm.run.tables import write_table

        output.say(f"{counted(write_table(reports, path), 'episode')} → {path}")
