"""Asking before something is removed: in a terminal, or answered beforehand with --yes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ldm.errors import LdmError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal whether to go on.

    yes: do not ask. Raises LdmError where nobody can be asked, typer.Exit where the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise LdmError(
            f"{question} There is no terminal to answer in.", "Add --yes if you are sure."
        )
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
