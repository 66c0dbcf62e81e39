"""The `ldm` command: its subcommands, and the messages for errors.

A command's module is imported when the command is used, so that `ldm --help` and the completion of
commands answer at once.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import resource
import sys
import traceback
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ldm import registry
from ldm.cli import output
from ldm.cli.options import SpecCommand
from ldm.errors import Interrupted, LdmError
from ldm.parallel import collect_seldom, interruptible

GROUP = "ldm.commands"
#: Bytes of address space without which Chroma and safetensors abort.
LEAST_MEMORY = 1_000_000_000


INTERRUPTED = 130
#: Command → its definition and its line in `ldm --help`. A Typer is a group of commands.
COMMANDS = {
    "demo": ("ldm.cli.demo:demo", "Build, refine and evaluate on what ships with ldm."),
    "build-memory": ("ldm.cli.build:build_memory", "Form a memory from trajectories."),
    "import": ("ldm.cli.build:import_files", "Convert trajectories from and to other formats."),
    "memory": ("ldm.cli.memory:memory_app", "Inspect, search, change and move a memory."),
    "refine": ("ldm.cli.refine:refine", "Explore training goals and add improvements."),
    "autoplan": ("ldm.cli.autoplan:autoplan", "Optimise a plan for a kind of task."),
    "eval": ("ldm.cli.evaluate:evaluate", "Evaluate an agent on the tasks of a split."),
    "compare": ("ldm.cli.evaluate:compare", "Compare finished evaluations."),
    "presets": ("ldm.cli.catalog:presets", "List or show published tables to reproduce."),
    "runs": ("ldm.cli.runs:runs_app", "List and show recorded runs."),
    "llm": ("ldm.cli.doctor:llm_app", "Try language models."),
    "agents": ("ldm.cli.catalog:agents", "List the agents and their options."),
    "envs": ("ldm.cli.catalog:envs", "List the environments and their options."),
    "data": ("ldm.cli.doctor:data", "Check or download the data of an environment."),
    "validate": ("ldm.cli.doctor:validate", "Check JSONL files against their schema."),
    "doctor": ("ldm.cli.doctor:doctor", "Check the installation, data and configuration."),
}


class Commands(TyperGroup):
    """The commands, each imported when it is used; those of plug-ins follow ours."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        announced = registry.names({}, GROUP)
        return list(dict.fromkeys([*COMMANDS, *super().list_commands(ctx), *announced]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return a command, or None if the name is unknown."""
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name][0].partition(":")
            return as_command(cmd_name, getattr(importlib.import_module(module), attribute))
        if cmd_name not in registry.names({}, GROUP):
            return super().get_command(ctx, cmd_name)
        try:
            return as_command(cmd_name, registry.load(cmd_name, {}, GROUP, "command"))
        except LdmError as error:
            return as_command(cmd_name, _broken(error))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command and its arguments; for a misspelt name, suggest similar ones."""
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            close = get_close_matches(args[0], self.list_commands(ctx))
            if close and "Did you mean" not in str(error.message):
                error.message += f" Did you mean {', '.join(map(repr, close))}?"
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command without importing our own."""
        rows = []
        for name in self.list_commands(ctx):
            known = COMMANDS.get(name)
            line = known[1] if known else self.get_command(ctx, name).get_short_help_str(80)
            rows.append((name, line))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _broken(error: LdmError) -> Any:
    """Return a command that raises the error, so that other commands and their help still work."""

    def command() -> None:
        raise error

    command.__doc__ = error.message
    return command


def as_command(name: str, target: Any) -> Any:
    """Return a function or a Typer as a command."""
    if not isinstance(target, typer.Typer):
        single = typer.Typer(add_completion=False, **SETTINGS)
        kind = SpecCommand if hasattr(target, "owners") else None
        single.command(name, cls=kind)(target)
        target = single
    target.rich_markup_mode = None
    return typer.main.get_command(target)


def every_command(context: Any = None) -> Iterator[tuple[str, Any]]:
    """Yield (words, command) of every command, for documents and tests."""
    context = context or typer.Context(typer.main.get_command(app))
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if hasattr(command, "list_commands"):
            below = typer.Context(command, parent=context, info_name=name)
            yield from ((f"{name} {words}", one) for words, one in every_command(below))
        else:
            yield name, command


SETTINGS: dict[str, Any] = {
    "no_args_is_help": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,  # help and errors as written: brackets are no markup
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
}

app = typer.Typer(
    name="ldm",
    cls=Commands,
    epilog="""\b
Examples:
  ldm demo                                      the whole way, in a minute
  ldm doctor                                    check the installation, data and configuration
  ldm build-memory                              bundled expert episodes → .ldm/memory
  ldm memory search --env alfworld "heat an egg" "You see a fridge 1."
  ldm eval --env alfworld --k 7
""",
    **{**SETTINGS, "no_args_is_help": True},
)


def _print_version(requested: bool) -> None:
    if requested:
        from ldm.version import __version__

        output.show(f"ldm {__version__}")
        raise typer.Exit


@app.callback()
def ldm(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Human experience as memory for language-model agents.

    Recorded trajectories become a memory of state-action tuples; agents that recall from it, and
    agents that do not, are evaluated on the same environments. Set LDM_DEBUG=1 to see the
    traceback of an error.
    """


def main() -> None:
    """Run the command line; on any error, print a plain message and set the exit status.

    0: done. 1: an error that the message explains. 2: wrong usage. 130: interrupted.
    """
    # Processes that we start must not find modules in the working directory either.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it is closed; workers would take a pipe of theirs for it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
            os.set_inheritable(getattr(sys, name).fileno(), True)
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what its encoding lacks, as \u2192
    collect_seldom()
    try:
        try:
            _check_memory()
            with interruptible():  # so that nothing is left half-written
                app(prog_name="ldm")
        except SystemExit as finished:
            if finished.code == INTERRUPTED:
                output.say("Interrupted.")
            sys.stdout.flush()
            raise
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        output.say("Interrupted.")
        sys.exit(INTERRUPTED)
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if os.environ.get("LDM_DEBUG") == "1":
            output.say(traceback.format_exc())
            sys.exit(1)
        output.say_all(filter(None, _explain(error)), error=True)
        sys.exit(INTERRUPTED if isinstance(error, Interrupted) else 1)


def _check_memory() -> None:
    """Raise LdmError if a limit leaves so little memory that libraries abort the process."""
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= allowed < LEAST_MEMORY:
        raise LdmError(
            f"`ulimit -v` allows {allowed // 10**6:,} MB of memory, and ldm needs "
            f"{LEAST_MEMORY // 10**6:,}.",
            "Raise it, or set it to unlimited.",
        )


def _explain(error: BaseException) -> tuple[str, str]:
    """Return the error message and its remedy for the user."""
    match error:
        case Interrupted():
            return error.message, error.remedy
        case LdmError():
            return f"Error: {error.message}", error.remedy
        case MemoryError():
            return "Error: there is not enough memory.", "Use fewer --workers or less data."
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            where = f" while writing {error.filename}" if error.filename else ""
            return f"Error: the disk is full{where}.", "Free some space and run it again."
        case OSError():
            return f"Error: {error}.", "Check the path and its permissions."
        case ImportError():
            from ldm.diagnosis import module_clash

            remedy = "`ldm doctor` shows what is installed and how to install the rest."
            return f"Error: {error}.", module_clash() or remedy
    kind = type(error).__name__
    return f"Error inside ldm: {kind}: {error}", "Run it again with LDM_DEBUG=1 and report that."
