"""Write docs/usage/options.md: every command with every option, as `--help-all` prints them.

    python scripts/make_options.py

tests/test_docs.py holds the page to the command line.
"""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from ldm.cli.app import app, every_command
from ldm.cli.options import HELP_ALL, SpecCommand

PAGE = Path(__file__).parents[1] / "docs" / "usage" / "options.md"
WIDTH = "100"


def page() -> str:
    """Return the page."""
    runner = CliRunner(env={"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH})
    parts = [
        "# Every option\n\nMade by `python scripts/make_options.py`. "
        "Options of agents and environments: `ldm agents NAME`, `ldm envs NAME`.\n"
    ]
    for words, command in every_command():
        flag = HELP_ALL if isinstance(command, SpecCommand) else "--help"
        text = runner.invoke(app, [*words.split(), flag]).output.strip()
        parts.append(f"## ldm {words}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
