"""Write docs/usage/options.md: every command with every option, as `--help-all` prints them.

    python scripts/make_options.py

tests/test_docs.py holds the page to the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from ldm.cli.app import app
from ldm.cli.options import HELP_ALL, SpecCommand

PAGE = Path(__file__).parents[1] / "docs" / "usage" / "options.md"
WIDTH = "100"


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (words, command) of every command below a group."""
    for name in group.list_commands(Context(group)):
        command = group.get_command(Context(group), name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def page() -> str:
    """Return the page."""
    runner = CliRunner(env={"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH})
    parts = [
        "# Every option\n\nMade by `python scripts/make_options.py`. "
        "Options of agents and environments: `ldm agents NAME`, `ldm envs NAME`.\n"
    ]
    for words, command in commands(get_command(app)):
        flag = HELP_ALL if isinstance(command, SpecCommand) else "--help"
        text = runner.invoke(app, [*words, flag]).output.strip()
        parts.append(f"## ldm {' '.join(words)}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
