"""`ldm doctor` checks the installation, `data` data, `validate` records, `llm ask` a model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ldm import records
from ldm.cli import output
from ldm.cli.environment import connection, runtime
from ldm.cli.options import AsJson, LlmName
from ldm.config import DEFAULT_MEMORY, Section
from ldm.diagnosis import Check, diagnose
from ldm.envs.metadata import DataCheck, DataSource, metadata
from ldm.errors import LdmError
from ldm.llm.models import ModelOptions, Models
from ldm.text import counted


def doctor(
    memory: Annotated[
        str, typer.Option(help="Memory to check: a directory or a server.")
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
    models = Models(ModelOptions(llm=llm), connection) if probe else None
    checks = list(diagnose(memory, os.environ, models))
    healthy = all(check.status != "problem" for check in checks)
    data = {"ok": healthy, "checks": [check._asdict() for check in checks]}
    output.print_result(data, _lines(checks), as_json=as_json)
    if not healthy:
        raise typer.Exit(1)


def _lines(checks: list[Check]) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    section = ""
    for check in checks:
        if check.section != section:
            section = check.section
            yield section
        yield f"  {check.status:8}{check.name:{width}}  {check.detail}"
        if check.status != "ok" and check.remedy:
            yield f"          → {check.remedy}"


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
        str, typer.Option(help="Also play trajectories again in this environment.")
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
    data = {"ok": not failed, "files": reports}
    lines = (line for report in reports for line in _report_lines(report))
    output.print_result(data, lines, as_json=as_json)
    if failed:
        raise typer.Exit(1)


def _report_lines(report: dict[str, Any]) -> Iterator[str]:
    yield from (problem["text"] for problem in report["problems"])
    if not report["problems"]:
        yield f"{report['file']}: {report['records']} {report['type']} records, ok"
    if (listed := report.get("listed")) is None:
        return
    share = 100 * listed["possible"] / max(1, listed["steps"])
    line = (
        f"{report['file']}: {share:.1f} % of {counted(listed['steps'], 'recorded action')} listed"
    )
    if listed["first"]:
        line += f"; the first that was not: {listed['first']}"
    if listed["unknown"]:
        line += f"; {counted(listed['unknown'], 'trajectory')} of tasks that are not there"
    yield line


def _listed(file: Path, env: str) -> dict[str, Any]:
    """Return how many recorded actions of a sound file were possible as listed."""
    from ldm.run.building import listed_in
    from ldm.run.selection import with_data
    from ldm.types import Trajectory

    section = with_data(Section(env), runtime(quiet=True))
    return listed_in(records.read(file, Trajectory), section)


def _check(file: Path, record: RecordName | None) -> dict[str, Any]:
    """Return the report on one file; a file that cannot be read is one problem."""
    try:
        checked = records.check(file, record or "")
    except LdmError as error:
        fault = {"line": None, "field": "", "message": error.message, "text": str(error)}
        return {"file": str(file), "type": "", "records": 0, "problems": [fault]}
    faults = [
        {"line": one.line, "field": one.field, "message": one.message, "text": str(one)}
        for one in checked.problems
    ]
    return {"file": str(file), "type": checked.type, "records": checked.sound, "problems": faults}


#: Problems that are listed without --json.
SHOWN = 20


def data(
    env: Annotated[
        str, typer.Argument(metavar="ENV", help="An environment; `ldm envs` lists them.")
    ],
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]", help="Folder or file to check; default: the environment's variable."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Download the data into this folder.")
    ] = None,
    size: Annotated[
        str, typer.Option(help="Size of the download, if there is a choice; see `ldm envs`.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Count the data of an environment and list damaged files; with --to, download them first.

    An interrupted download is resumed. Each file is compared with its published SHA-256; if none is
    published, the SHA-256 is printed.

    \b
    Examples:
      ldm data alfworld ~/.cache/alfworld
      ldm data textcraft adapt_test_200.jsonl
      ldm data webshop --to ~/.cache/webshop --size all
    """
    source = _source(env)
    if to is not None:
        if path is not None:
            raise typer.BadParameter("name either a path to check or --to FOLDER, not both.")
        _download(env, source, to, size, quiet=as_json)
    place = to or path or os.environ.get(source.variable)
    if source.variable and not place:
        raise LdmError(
            f"No path is given, and {source.variable} is not set.",
            f"Name the folder that holds {source.holds}, ldm data {env} PATH, or download it: "
            f"ldm data {env} --to FOLDER.",
        )
    report = source.check(Path(place) if place else None)
    if as_json:
        output.print_json(report.as_json())
    else:
        _print_report(report)
        if to is not None and source.variable and not os.environ.get(source.variable):
            output.show(f"Use them with: export {source.variable}={to}")
    if report.problems:
        raise typer.Exit(1)


def _source(env: str) -> DataSource:
    if (source := metadata(env).data) is None:
        raise LdmError(
            f"The environment {env} has no data to check.",
            "`ldm envs` says what each environment needs.",
        )
    return source


def _download(env: str, source: DataSource, to: Path, size: str, *, quiet: bool) -> None:
    if size and size not in source.sizes:
        known = ", ".join(f"{name} ({holds})" for name, holds in source.sizes.items())
        remedy = f"choose from {known}" if known else "leave it out"
        raise typer.BadParameter(f"{env} has no size {size!r}: {remedy}.", param_hint="--size")
    with output.stages(quiet=quiet) as progress:
        downloads = source.fetch(to, size, progress)
    for file, digest in downloads:
        compared = "as published" if file.sha256 else "no checksum is published"
        output.say(f"{file.filename}: SHA-256 {digest} ({compared})", error=quiet)


def _print_report(report: DataCheck) -> None:
    splits = {name: {"tasks": sum(of.values()), **of} for name, of in report.splits.items()}
    title = f"{report.env} in {report.path}" if report.path else report.env
    output.print_entries({title: {**report.facts, **splits}})
    output.say_all(f"  problem: {problem}" for problem in report.problems[:SHOWN])
    if len(report.problems) > SHOWN:
        output.show(f"  … and {len(report.problems) - SHOWN} more: see them all with --json")
    output.show(counted(len(report.problems), "problem"))


llm_app = typer.Typer(no_args_is_help=True, add_completion=False, help="Try language models.")
#: Maximum tokens of a reply.
LENGTH = 512
#: What the fields of a reply may be.
TYPES = {"str": str, "int": int, "float": float, "bool": bool}


@llm_app.callback()
def llm() -> None:
    """Try language models."""


@llm_app.command("ask", short_help="Ask a model.")
def ask(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT")],
    llm: LlmName = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Field of the reply, NAME:TYPE; repeatable.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    max_calls: Annotated[int | None, typer.Option(help="Stop before more calls.")] = None,
    record: Annotated[Path | None, typer.Option(help="Folder to record calls in.")] = None,
) -> None:
    """Ask the model of --llm, at the server of OPENAI_BASE_URL, as agents do.

    The reply has at most 512 tokens beside the model's thoughts; its cost is printed on standard
    error.

    \b
    Examples:
      ldm llm ask "Where would you look for a clean mug?" --llm gpt-4o-mini
      ldm llm ask "Name a colour." --llm qwen2.5 --field colour:str --record asked
    """
    from pydantic import create_model

    from ldm.llm import Message, Sampling

    named = dict(one.partition(":")[::2] for one in field or ())
    if wrong := set(named.values()) - TYPES.keys():
        raise typer.BadParameter(f"{wrong.pop()!r} is not one of {', '.join(TYPES)}.")
    fields: dict[str, Any] = {name: TYPES[kind] for name, kind in named.items()}
    form = create_model("Reply", **fields) if fields else None
    options = ModelOptions(llm=llm, max_calls=max_calls)
    question = [Message("user", prompt)]
    with Models(options, connection, record, output.say) as models:
        reply = models.get("llm").complete(
            question, sampling=Sampling(temperature), max_tokens=LENGTH, schema=form
        )
        output.show(reply.text)
        if reply.cut:
            output.say(f"The reply was cut off at {LENGTH} tokens, and again with more.")
