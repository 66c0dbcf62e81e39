"""Headings under which the help of a command with many options lists them.

A group of options names its heading (`heading`), an option that belongs elsewhere its own
(`rich_help_panel`, Typer's word for it). The text stays plain.
"""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from typing import Annotated, Any, get_args

from typer.core import TyperCommand
from typer.models import ParameterInfo

TRAJECTORIES = "Trajectories"
TASKS = "Tasks"
AGENT = "Agent"
PLAN = "Plan"
SEARCH = "Search"
ADDITIONS = "What is added"
MEMORY = "Memory"
DECISIONS = "Decisions"
REPETITION = "Repetition and evaluation"
MODEL = "Model"
LIMITS = "Limits"
RUNNING = "Running"
GENERAL = "General"

#: In every help: what is used most first, what every command has last.
ORDER = (
    TRAJECTORIES,
    TASKS,
    AGENT,
    PLAN,
    SEARCH,
    ADDITIONS,
    MEMORY,
    REPETITION,
    DECISIONS,
    MODEL,
    LIMITS,
    RUNNING,
    GENERAL,
)
#: Characters of an option's name and values beside which its description stands.
NAME_WIDTH = 30


class GroupedCommand(TyperCommand):
    """A command whose help lists its options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and then the options by heading."""
        arguments: list[tuple[str, str]] = []
        options: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            name, description = record
            line = name.ljust(NAME_WIDTH), description  # so that all descriptions are aligned
            if parameter.param_type_name == "argument":
                arguments.append(line)
            else:
                options[getattr(parameter, "rich_help_panel", None) or GENERAL].append(line)
        for title, lines in (
            ("Arguments", arguments),
            *sorted(options.items(), key=lambda group: ORDER.index(group[0])),
        ):
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


def under(heading: str, hint: Any) -> Any:
    """Return the type of an option that is listed under `heading`, unless it has its own."""
    kind, *facts = get_args(hint)
    placed = []
    for fact in facts:
        if isinstance(fact, ParameterInfo) and not isinstance(fact.rich_help_panel, str):
            fact = copy(fact)
            fact.rich_help_panel = heading
        placed.append(fact)
    return Annotated[(kind, *placed)]
