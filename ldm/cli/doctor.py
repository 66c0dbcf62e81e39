"""`ldm doctor` checks the installation; `ldm validate` files of records, or prints a schema."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.environment import connection, runtime
from ldm.cli.options import AsJson, LlmName
from ldm.config import DEFAULT_MEMORY, Section
from ldm.diagnosis import Check, diagnose
from ldm.errors import LdmError
from ldm.text import counted


def doctor(
    memory: Annotated[
        str, typer.Option("--memory", help="Memory to check: a directory or a server.")
    ] = DEFAULT_MEMORY,
    llm: LlmName = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Send one or two short questions to find out what the server can do for --llm.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the installation, data and configuration, with a remedy for missing parts.

    Nothing is changed, and the network is used with --probe only. The exit status is 1 if something
    prevents ldm from working; missing data, model services and memories do not count.

    \b
    Examples:
      ldm doctor
      ldm doctor --memory experiments/memory --json
      ldm doctor --llm gpt-4o-mini --probe
    """
    from ldm.llm.models import ModelOptions, Models

    models = Models(ModelOptions(llm=llm), connection) if probe else None
    checks = list(diagnose(memory, os.environ, models))
    healthy = all(check.status != "problem" for check in checks)
    if as_json:
        output.print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        _print(checks)
    if not healthy:
        raise typer.Exit(1)


def _print(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks)
    section = ""
    for check in checks:
        if check.section != section:
            section = check.section
            output.show(section)
        output.show(f"  {check.status:8}{check.name:{width}}  {check.detail}")
        if check.status != "ok" and check.remedy:
            output.show(f"          → {check.remedy}")


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
