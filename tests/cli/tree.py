"""All commands of the command line, those of plug-ins among them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from ldm.cli.app import app


@cache
def command_tree() -> dict[tuple[str, ...], Any]:
    """Return words → command or group; () is `ldm` itself."""
    root: Any = typer.main.get_command(app)
    return dict(_below(root, typer.Context(root, info_name="ldm"), ()))


def _below(
    command: Any, context: typer.Context, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        inner = typer.Context(below, info_name=name, parent=context)
        yield from _below(below, inner, (*path, name))
