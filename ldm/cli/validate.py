"""`ldm validate`: check files of records, or print a schema."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.environment import runtime
from ldm.cli.options import AsJson
from ldm.config import Section
from ldm.errors import LdmError
from ldm.text import counted

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
    env: Annotated[
        str, typer.Option("--env", help="Also play trajectories again in this environment.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Check JSONL files against their schema; print file:line:field for every problem.

    With --env: what share of the recorded actions was possible as the environment lists actions.
    Only listed actions can be chosen, and are learnt from.

    \b
    Examples:
      ldm validate data/trajectories/alfworld/train.jsonl
      ldm validate --schema episode runs/*/episodes.jsonl
      ldm validate --schema trajectory > trajectory.json
      ldm validate data/trajectories/alfworld/train.jsonl --env alfworld
    """
    from ldm import records

    if not files:
        if schema is None:
            raise typer.BadParameter("name files to check, or --schema TYPE to print.")
        output.print_json(records.schema(schema), indent=2)
        return
    reports = [_check(file, schema) for file in files]
    failed = any(report["problems"] for report in reports)
    for file, report in zip(files, reports, strict=True):
        if env and report["type"] == "trajectory" and not report["problems"]:
            report["listed"] = _listed(file, env)
    if as_json:
        output.print_json({"ok": not failed, "files": reports})
    else:
        for report in reports:
            for problem in report["problems"]:
                output.show(problem["text"])
            if not report["problems"]:
                output.show(f"{report['file']}: {report['records']} {report['type']} records, ok")
            if "listed" in report:
                output.show(_listed_line(report["file"], report["listed"]))
    if failed:
        raise typer.Exit(1)


def _listed_line(file: str, listed: dict[str, Any]) -> str:
    share = 100 * listed["possible"] / max(1, listed["steps"])
    line = f"{file}: {share:.1f} % of {counted(listed['steps'], 'recorded action')} listed"
    if listed["first"]:
        line += f"; the first that was not: {listed['first']}"
    if listed["unknown"]:
        line += f"; {counted(listed['unknown'], 'trajectory')} of tasks that are not there"
    return line


def _listed(file: Path, env: str) -> dict[str, Any]:
    """Return how many recorded actions of a sound file were possible as listed."""
    from ldm import records
    from ldm.run.replaying import listed_in
    from ldm.run.selection import with_data
    from ldm.types import Trajectory

    section = with_data(Section(env), runtime(quiet=True))
    return asdict(listed_in(records.read(file, Trajectory), section))


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
