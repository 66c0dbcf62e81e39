"""Commands of plug-ins: entry points of the group `ldm.commands`.

The entry point `report` is the command `ldm report`, and `runs.export` is `ldm runs export`. Each
names a function with Typer's annotations, or a Typer app.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperGroup

from ldm import registry
from ldm.errors import LdmError

GROUP = "ldm.commands"


class PluggedGroup(TyperGroup):
    """A group of commands to which plug-ins add theirs; each is loaded when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the own commands, and then of the plug-ins'."""
        prefix = _prefix(ctx)
        names = (name.removeprefix(prefix) for name in _announced() if name.startswith(prefix))
        return list(
            dict.fromkeys([*super().list_commands(ctx), *(n for n in names if "." not in n)])
        )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, or None."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or _prefix(ctx) + cmd_name not in _announced():
            return own
        return _command(_prefix(ctx) + cmd_name, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command and what follows its name; for a misspelt name, suggest those meant."""
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            close = get_close_matches(args[0], self.list_commands(ctx))
            if close and "Did you mean" not in str(error.message):
                error.message += f" Did you mean {', '.join(map(repr, close))}?"
            raise


def _announced() -> dict[str, str]:
    return registry.names({}, GROUP)


def _prefix(ctx: Any) -> str:
    """Return the names of the groups above a command, each with a dot."""
    names = []
    while ctx.parent is not None:
        names.append(f"{ctx.info_name}.")
        ctx = ctx.parent
    return "".join(reversed(names))


def _command(entry_point: str, name: str) -> Any:
    try:
        loaded = registry.load(entry_point, {}, GROUP, "command")
    except LdmError as error:
        loaded = _broken(error)
    if not isinstance(loaded, typer.Typer):
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name)(loaded)
        loaded = app
    return typer.main.get_command(loaded)


def _broken(error: LdmError) -> Any:
    """Return a command that raises the error: other commands and their help still work."""

    def command() -> None:
        raise error

    command.__doc__ = error.message
    return command
