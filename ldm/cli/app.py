"""The `ldm` command: what it consists of, and what the user sees when something goes wrong.

Command modules import everything heavy inside their functions, so that `ldm --help` and shell
completion answer at once.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.autoplan import autoplan
from ldm.cli.build import build_memory, import_files
from ldm.cli.catalog import agents, envs
from ldm.cli.curve import curve
from ldm.cli.data import data_app
from ldm.cli.demo import demo
from ldm.cli.doctor import doctor
from ldm.cli.episodes import export, show
from ldm.cli.evaluate import compare, evaluate
from ldm.cli.fold import fold
from ldm.cli.headings import GroupedCommand
from ldm.cli.judge import judge
from ldm.cli.llm import llm_app
from ldm.cli.memory import memory_app
from ldm.cli.merging import diff, merge
from ldm.cli.presets import presets_app
from ldm.cli.refine import refine
from ldm.cli.report import report, view
from ldm.cli.runs import runs_app
from ldm.cli.upkeep import compact, forget, migrate, verify
from ldm.cli.validate import schema, validate
from ldm.diagnosis import module_clash
from ldm.errors import Interrupted, LdmError
from ldm.parallel import collect_seldom, sigterm_as_interrupt

INTERRUPTED = 130

app = typer.Typer(
    name="ldm",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help and errors as written: brackets are no markup
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  ldm doctor                                    check the installation, data and configuration
  ldm build-memory                              shipped expert episodes → .ldm/memory
  ldm memory search --env alfworld "heat an egg" "You see a fridge 1."
  ldm eval --env alfworld --split valid_seen --agent ldm
""",
)


def _print_version(requested: bool) -> None:
    if requested:
        from ldm import __version__

        output.say(f"ldm {__version__}", error=False)
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


app.command("demo", short_help="Build, refine and evaluate on what ships with ldm.")(demo)
app.command("build-memory", cls=GroupedCommand, short_help="Form a memory from trajectories.")(
    build_memory
)
app.command("import", short_help="Convert trajectories from and to other formats.")(import_files)
for command in (diff, merge, fold, forget, verify, compact, migrate):
    memory_app.command(command.__name__)(command)
app.add_typer(memory_app, name="memory")
app.command(
    "refine", cls=GroupedCommand, short_help="Explore training goals and add improvements."
)(refine)
app.command("autoplan", cls=GroupedCommand, short_help="Optimise a plan for a kind of task.")(
    autoplan
)
app.command("eval", cls=GroupedCommand, short_help="Evaluate an agent on the tasks of a split.")(
    evaluate
)
app.command("compare", short_help="Compare finished evaluations.")(compare)
app.command("curve", short_help="Plot success against an option or memory size.")(curve)
app.command("judge", short_help="Let a model judge the answers of a run.")(judge)
app.add_typer(presets_app, name="presets")
app.command("report", short_help="Write one page on recorded runs.")(report)
app.command("view", short_help="Build the report on runs, and open it.")(view)
runs_app.command("show", short_help="Print episodes: what was done, and why.")(show)
runs_app.command("export", short_help="Write episodes as logs of other tools.")(export)
app.add_typer(runs_app, name="runs")
app.command("agents", short_help="List the agents and their options.")(agents)
app.command("envs", short_help="List the environments and their options.")(envs)
app.add_typer(data_app, name="data")
app.add_typer(llm_app, name="llm")
app.command("validate", short_help="Check JSONL files against their schema.")(validate)
app.command("schema", short_help="Print the JSON Schema of a record.")(schema)
app.command("doctor", short_help="Check the installation, data and configuration.")(doctor)


def main() -> None:
    """Run the command line; whatever happens, the user gets a plain message and an exit status.

    0: done. 1: an error that the message explains. 2: wrong usage. 130: interrupted.
    """
    # Processes that we start must not find modules in the working directory either.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    collect_seldom()
    try:
        try:
            with sigterm_as_interrupt():  # so that nothing is left half-written
                app(prog_name="ldm")
        except SystemExit as finished:
            if finished.code == INTERRUPTED:
                _complain("Interrupted.")
            sys.stdout.flush()
            raise
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _complain("Interrupted.")
        sys.exit(INTERRUPTED)
    except Exception as error:
        if os.environ.get("LDM_DEBUG") == "1":
            output.say(traceback.format_exc())
            sys.exit(1)
        _complain(*_explain(error))
        sys.exit(INTERRUPTED if isinstance(error, Interrupted) else 1)


def _explain(error: Exception) -> tuple[str, str]:
    """Return what went wrong and what to do about it, in words for users."""
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
            remedy = "`ldm doctor` shows what is installed and how to install the rest."
            return f"Error: {error}.", module_clash() or remedy
    kind = type(error).__name__
    return f"Error inside ldm: {kind}: {error}", "Run it again with LDM_DEBUG=1 and report that."


def _complain(message: str, remedy: str = "") -> None:
    output.say(message)
    if remedy:
        output.say(remedy)
