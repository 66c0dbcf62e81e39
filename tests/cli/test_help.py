"""The help of a command with many options lists them under headings, and leaves none out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer
from ldm.cli.headings import GENERAL, ORDER, GroupedCommand

from ldm.cli.app import app
from tests.cli.conftest import Run

#: A list of more options than this is no longer read from top to bottom.
MANY = 15
LONG_NAME = re.compile(r"--[a-z][a-z-]*")


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (words, command) of every command that is no group."""
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


@cache
def commands() -> dict[tuple[str, ...], Any]:
    return dict(walk(typer.main.get_command(app)))


def names(command: Any) -> set[str]:
    """Return the long names of a command's options, --help included."""
    listed = {
        name
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    }
    return listed | {"--help"}


def headings(text: str) -> list[str]:
    return [line[:-1] for line in text.splitlines() if re.fullmatch(r"[A-Z][\w ]*:", line)]


def listed(text: str) -> list[str]:
    """Return the long names of the options that stand at the beginning of a line."""
    rows = [line for line in text.splitlines() if re.match(r"  -", line)]
    return [name for row in rows for name in LONG_NAME.findall(row.strip().split("  ")[0])]


def with_headings() -> list[tuple[str, ...]]:
    return [path for path, one in commands().items() if isinstance(one, GroupedCommand)]


def test_every_command_with_many_options_has_headings() -> None:
    many = [path for path, one in commands().items() if len(names(one)) > MANY]
    assert ("refine",) in many
    assert with_headings() == many


@pytest.mark.parametrize("path", with_headings(), ids=" ".join)
def test_each_option_stands_once_under_a_heading(path: tuple[str, ...], run: Run) -> None:
    text = run(*path, "--help").out
    assert sorted(listed(text)) == sorted(names(commands()[path]))
    titles = [heading for heading in headings(text) if heading != "Arguments"]
    assert len(titles) > 3
    assert titles == [heading for heading in ORDER if heading in titles]
    assert titles[-1] == GENERAL
    assert text.rstrip().splitlines()[-1].startswith("  -h, --help")


def test_an_option_stands_under_the_heading_of_its_group_or_its_own(run: Run) -> None:
    text = run("refine", "--help").out
    search, additions = text.index("Search:"), text.index("What is added:")
    assert search < text.index("  --width") < additions
    assert additions < text.index("  --add ") < text.index("Memory:")  # a field of the search


def test_a_command_with_few_options_has_one_list(run: Run) -> None:
    assert headings(run("view", "--help").out) == ["Arguments", "Options"]


def test_the_text_is_plain(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = run("eval", "--help").out
    assert "\x1b" not in text
    assert not set("│╭╰─") & set(text)
