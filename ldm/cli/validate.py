"""`ldm validate`: check files of records, or print a schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.options import AsJson
from ldm.errors import LdmError

#: The records with a published schema (`records.SCHEMAS`).
RecordName = Literal["trajectory", "tuple", "episode", "task"]


def validate(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="JSONL, or JSONL.gz")
    ] = None,
    schema: Annotated[
        RecordName | None,
        typer.Option(
            "--schema",
            help="Type of the records, detected by default; without files, print its JSON Schema.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check JSONL files against their schema; print file:line:field for every problem.

    \b
    Examples:
      ldm validate data/trajectories/alfworld/train.jsonl
      ldm validate --schema episode runs/*/episodes.jsonl
      ldm validate --schema trajectory > trajectory.json
    """
    from ldm import records

    if not files:
        if schema is None:
            raise typer.BadParameter("name files to check, or --schema TYPE to print.")
        output.print_json(records.schema(schema), indent=2)
        return
    reports = [_check(file, schema) for file in files]
    failed = any(report["problems"] for report in reports)
    if as_json:
        output.print_json({"ok": not failed, "files": reports})
    else:
        for report in reports:
            for problem in report["problems"]:
                output.show(problem["text"])
            if not report["problems"]:
                counted = f"{report['records']} {report['type']} records"
                output.show(f"{report['file']}: {counted}, ok")
    if failed:
        raise typer.Exit(1)


def _check(file: Path, record: RecordName | None) -> dict[str, Any]:
    """Return the report on one file; a file that cannot be read is one problem."""
    from ldm import records

    report: dict[str, Any] = {"file": str(file), "type": "", "records": 0, "problems": []}
    listed: list[dict[str, Any]] = report["problems"]
    try:
        checked = records.check(file, record or "")
        report |= {"type": checked.type, "records": checked.sound}
        for one in checked.problems:
            place = {"line": one.line, "field": one.field, "message": one.message}
            listed.append({**place, "text": str(one)})
    except LdmError as error:
        listed.append({"line": None, "field": "", "message": error.message, "text": str(error)})
    return report
