"""`ldm runs list | delete`: the recorded runs as files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from ldm.cli import output
from ldm.cli.completing import agents, commands, environments, runs_below
from ldm.cli.confirming import Yes, confirm
from ldm.cli.options import AsJson, RunsAt, expanded
from ldm.errors import LdmError
from ldm.run.runtime import DEFAULT_RUNS
from ldm.text import counted

RunNames = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Directories or ids.", autocompletion=runs_below),
]


@dataclass(frozen=True)
class Chosen:
    """Which runs are listed."""

    command: Annotated[
        str, typer.Option(help="Only runs of this command.", autocompletion=commands)
    ] = ""
    env: Annotated[
        str, typer.Option(help="Only runs in this environment.", autocompletion=environments)
    ] = ""
    agent: Annotated[
        str, typer.Option(help="Only evaluations of this agent.", autocompletion=agents)
    ] = ""
    state: Annotated[
        Literal["finished", "stopped", "running"] | None,
        typer.Option(help="Only runs in this state."),
    ] = None
    since: Annotated[
        str, typer.Option(metavar="DATE", help="Only runs since a date, or 7d, 12h, 30m ago.")
    ] = ""


@expanded
def list_runs(
    chosen: Chosen = Chosen(),
    runs: RunsAt = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """List the recorded runs, oldest first, with their state and score.

    Score is the success rate of a finished evaluation. A stopped run can be resumed with the
    command that made it: `ldm eval --resume RUN`.

    \b
    Examples:
      ldm runs list
      ldm runs list --env alfworld --agent react --since 7d
      ldm runs list --state stopped --json
    """
    from ldm.run.listing import RunFilter, entries

    def unreadable(error: LdmError) -> None:
        output.say(f"Skipping: {error.message}")

    criteria = RunFilter(**{**asdict(chosen), "state": chosen.state or ""})
    listed = entries(runs, criteria, unreadable)
    if as_json:
        output.print_json({"runs": [asdict(one) for one in listed]})
        return
    if not listed:
        fitting = " that fit" if criteria != RunFilter() else ""
        output.say(f"There are no runs{fitting} in {runs}.")
        return
    rows = [
        (
            one.id,
            one.command,
            one.env.rpartition(":")[2],
            one.agent.rpartition(":")[2],
            one.model,
            "" if one.score is None else f"{100 * one.score:.1f} %",
            one.tasks if one.state == "finished" else f"{one.recorded}/{one.tasks}",
            one.state,
            one.started[:16].replace("T", " "),
        )
        for one in listed
    ]
    names = ("run", "command", "env", "agent", "model", "score", "tasks", "state", "started")
    filled = [i for i in range(len(names)) if any(row[i] != "" for row in rows)]
    columns, table = [names[i] for i in filled], [[row[i] for i in filled] for row in rows]
    output.print_table(f"Runs in {runs}", columns, table, whole=("run",))


def delete(names: RunNames, runs: RunsAt = DEFAULT_RUNS, yes: Yes = False) -> None:
    """Delete recorded runs, with their results, trajectories and model calls.

    What depends on a run is listed first. A run that a process is using is not deleted.

    \b
    Examples:
      ldm runs delete RUN
      ldm runs delete RUN OTHER --yes
    """
    from ldm.run.listing import delete as remove
    from ldm.run.listing import dependents
    from ldm.runs import open_run

    opened = {run.directory.resolve(): run for run in (open_run(name, runs) for name in names)}
    for run in opened.values():
        if run.is_locked:
            raise LdmError(
                f"{run.directory} is in use by another process.",
                "Wait until it has finished, or stop it. Nothing was deleted.",
            )
    for run in opened.values():
        output.say_all((f"{run.directory}: {line}" for line in dependents(run)), error=True)
    confirm(f"Delete {counted(len(opened), 'run')} for good?", yes=yes)
    for run in opened.values():
        remove(run)
        output.say(f"Deleted {run.directory}.", error=False)


def register(app: typer.Typer) -> None:
    """Add the commands to `ldm runs`."""
    app.command("list")(list_runs)
    app.command("delete")(delete)
