"""`ldm doctor`: check the installation, data and configuration."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.environment import connection
from ldm.cli.options import AsJson, LlmName
from ldm.config import DEFAULT_MEMORY
from ldm.diagnosis import Check, diagnose


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
