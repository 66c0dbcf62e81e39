"""`ldm runs`: look at what is recorded below runs/."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ldm.cli import output
from ldm.cli.build import AsJson
from ldm.cli.evaluate import DEFAULT_RUNS
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.explore import Explored

runs_app = typer.Typer(help="Look at recorded runs.")

RunsAt = Annotated[Path, typer.Option("--runs", help="Folder in which runs are recorded.")]


@runs_app.command("list")
def list_runs(runs: RunsAt = DEFAULT_RUNS, as_json: AsJson = False) -> None:
    """List the recorded runs, oldest first.

    \b
    Examples:
      ldm runs list
      ldm runs list --json
    """
    from ldm.runs import known_runs

    found = [run.manifest for run in known_runs(runs)]
    if as_json:
        output.print_json([{"id": m.id, "command": m.command, "started": m.started} for m in found])
        return
    if not found:
        output.say(f"There are no runs in {runs}.")
        return
    rows = [(m.id, m.command, m.started, m.fingerprint) for m in found]
    output.print_table(f"Runs in {runs}", ("run", "command", "started", "fingerprint"), rows)


@runs_app.command("tree")
def tree(
    name: Annotated[str, typer.Argument(metavar="RUN", help="Directory or id of a refinement.")],
    task: Annotated[
        str, typer.Argument(help="Task id or a part of it; without it, the goals are listed.")
    ] = "",
    observations: Annotated[
        bool, typer.Option("--observations", help="Show what was seen, too.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Write a picture to this file.")] = None,
    runs: RunsAt = DEFAULT_RUNS,
) -> None:
    """Print the tree that `ldm refine` grew for a goal: what was tried, pruned and remembered.

    \b
    Examples:
      ldm runs tree RUN
      ldm runs tree RUN pick_heat_then_place --observations
      ldm runs tree RUN pick_heat_then_place --svg tree.svg
    """
    from ldm.explore import explored_trees
    from ldm.explore.picture import svg as picture
    from ldm.explore.picture import text
    from ldm.runs import open_run, writing

    run = open_run(name, runs)
    if run.manifest.command != "refine":
        raise LdmError(f"{run.directory} is no refinement: it has no trees.", "")
    explored = explored_trees(run)
    if not task:
        _list_goals(explored)
        return
    one = _chosen(explored, task)
    output.say(f"{one.task.id}\ngoal: {one.task.goal}", error=False)
    if one.error:
        output.say(one.error, error=False)
    for found in one.trees:
        if len(one.trees) > 1:
            output.say(f"\nbatch {', '.join(found.batches)}", error=False)
        ground = " | ".join(step.action for step in found.ground.steps)
        output.say(f"ground process, score {found.ground.score:.2f}: {ground}", error=False)
        for line in text(found, observations=observations):
            output.say(line, error=False)
        if found.improved:
            output.say(f"{len(found.added)} tuples were added to {found.into}:", error=False)
        for row in found.added:
            output.say(f"  {row.tuple.observation} -> {row.tuple.action}", error=False)
    if svg is not None:
        with writing(svg):
            svg.write_text(picture(one.trees[0], one.task.goal), encoding="utf-8")
        output.say(f"Picture: {svg}", error=False)


def _list_goals(explored: list[Explored]) -> None:
    rows = [
        (
            one.task.id,
            one.task.goal,
            str(sum(len(tree.nodes) for tree in one.trees)),
            "failed" if one.error else "yes" if any(t.improved for t in one.trees) else "no",
        )
        for one in explored
    ]
    output.print_table("Explored goals", ("task", "goal", "nodes", "improved"), rows)


def _chosen(explored: list[Explored], name: str) -> Explored:
    """The goal with this id, or the only one whose id contains it."""
    found = [one for one in explored if one.task.id == name] or [
        one for one in explored if name in one.task.id
    ]
    if len(found) != 1:
        which, fit = (f"{len(found)} goals", "fit") if found else ("no goal", "fits")
        raise LdmError(
            f"{which} of this run {fit} {name!r}.",
            f"For example {(found or explored)[0].task.id}; `ldm runs tree RUN` lists them.",
        )
    return found[0]
