"""`ldm agents` and `ldm envs`: those built in, and those of other installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ldm import catalogue
from ldm.cli import completing, output
from ldm.cli.options import AsJson


def agents(
    name: Annotated[
        str,
        typer.Argument(
            help="Only this one: a name or module:Class.", autocompletion=completing.agents
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the agents: where each comes from, what it needs, and its options.

    Each option is listed with its default and its meaning. Published values are those of a paper
    for an environment, where they replace None.

    \b
    Examples:
      ldm agents
      ldm agents react
    """
    _print(catalogue.agents(name), as_json)


def envs(
    name: Annotated[
        str,
        typer.Argument(
            help="Only this one: a name or module:Class.", autocompletion=completing.environments
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the environments: what each is, its default split, and its options.

    Each option is listed with its default and its meaning.

    \b
    Examples:
      ldm envs
      ldm envs alfworld
    """
    _print(catalogue.envs(name), as_json)


def _print(entries: dict[str, dict[str, Any]], as_json: bool) -> None:
    if as_json:
        output.print_json(entries)
        return
    for name, entry in entries.items():
        output.say(name + (f": {entry['is']}" if entry.get("is") else ""), error=False)
        for key, value in entry.items():
            if key in ("is", "descriptions"):
                continue
            if key == "options" and value:
                _print_options(value, entry["descriptions"])
            elif key == "needs" or value not in ({}, [], ""):
                output.say(f"  {key.replace('_', ' ')}: {_worded(value)}", error=False)


def _print_options(defaults: Mapping[str, Any], meanings: Mapping[str, str]) -> None:
    """Print a line an option: its default and what it does."""
    output.say("  options:", error=False)
    for name, value in defaults.items():
        meaning = f": {meanings[name]}" if name in meanings else ""
        output.say(f"    {name}={value}{meaning}", error=False)


def _worded(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{key}={item}" for key, item in value.items())
        case list():
            return ", ".join(map(str, value)) or "nothing"
        case bool():
            return "yes" if value else "no"
    return str(value)
