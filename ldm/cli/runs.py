"""`ldm runs`: look at what is recorded below runs/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ldm.cli import output
from ldm.cli.completing import runs_below
from ldm.cli.options import RunsFrom, expanded
from ldm.cli.run_files import register
from ldm.errors import LdmError
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.explore import ExploredGoal, Tree
    from ldm.runs import Run
    from ldm.types import EpisodeResult

runs_app = typer.Typer(help="List recorded runs, look into them and delete them.")


register(runs_app)


@runs_app.command("tree")
@expanded
def tree(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Directory or id of a refinement or evaluation.",
            autocompletion=runs_below,
        ),
    ],
    task: Annotated[
        str, typer.Argument(help="Task id or a part of it; without it, the goals are listed.")
    ] = "",
    *,
    observations: Annotated[
        bool, typer.Option("--observations", help="Also show the observations.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the tree into this file.")] = None,
    where: RunsFrom,
) -> None:
    """Print the tree that `ldm refine` grew for a goal: what was tried, pruned and remembered.

    Nodes are the actions that were tried, as in the tables of `ldm refine`: the opening and pruned
    proposals do not count. With --svg the tree is drawn into a file instead.

    For an agent that divides tasks: how it divided a task, and how each part ended. For an agent
    that searches: the steps that it tried, with their values and visits.

    \b
    Examples:
      ldm runs tree RUN
      ldm runs tree RUN pick_heat_then_place --observations
      ldm runs tree RUN pick_heat_then_place --svg tree.svg
    """
    from ldm.explore import read_explored_goals
    from ldm.runs import open_run

    run = open_run(name, where.runs)
    if run.manifest.command == "eval":
        if svg is not None:
            raise LdmError(
                f"{run.directory} is an evaluation: only trees of `ldm refine` are drawn.",
                "Leave out --svg.",
            )
        _print_divided(run, task, trust=where.trust)
        return
    if run.manifest.command != "refine":
        raise LdmError(f"{run.directory} is not a refinement, so it has no trees.", "")
    explored = read_explored_goals(run)
    if not task:
        _list_goals(explored)
    elif svg is not None:
        _draw(_one_of(explored, task), svg)
    else:
        _print_trees(_one_of(explored, task), observations=observations)


def _print_trees(one: ExploredGoal, *, observations: bool) -> None:
    """Print the trees of a goal: one, or one a batch memory."""
    output.say(f"{one.task.id}\ngoal: {one.task.goal}", error=False)
    if one.error:
        output.say(one.error, error=False)
    for explored_tree in one.trees:
        if len(one.trees) > 1:
            output.say(f"\nbatch {', '.join(explored_tree.batches)}", error=False)
        for line in _tree_lines(explored_tree, observations=observations):
            output.say(line, error=False)


def _draw(one: ExploredGoal, file: Path) -> None:
    """Draw the tree of a goal, the one with most nodes where it has several."""
    from ldm.explore.picture import svg
    from ldm.records import replacing
    from ldm.runs import writing

    tree = max(one.trees, key=lambda tree: tree.tried, default=None)
    if tree is None or not tree.nodes:
        raise LdmError(
            f"No tree was grown for {one.task.id}: {one.error or 'its first try was a success'}.",
            "`ldm runs tree RUN` lists the goals with their nodes.",
        )
    with writing(file), replacing(file) as opened:
        opened.write(svg(tree, one.task.goal))
    output.say(f"{counted(tree.tried, 'node')} → {file}", error=False)


def _tree_lines(tree: Tree, *, observations: bool) -> Iterator[str]:
    """Yield the first try (P_g), the tree, and the tuples that were added."""
    from ldm.explore.picture import text

    ground = " | ".join(step.action for step in tree.ground.steps)
    yield f"first try, score {tree.ground.score:.2f}: {ground}"
    yield from text(tree, observations=observations)
    if tree.improved:
        yield f"{counted(len(tree.added), 'tuple')} added to {tree.into}:"
    for row in tree.added:
        yield f"  {row.tuple.observation} -> {row.tuple.action}"


def _print_divided(run: Run, task: str, *, trust: bool) -> None:
    """Print how an agent divided or searched its tasks: all in a table, or one task's tree."""
    from ldm.agents import load_agent, reporting_named
    from ldm.run.runner import agent_of, results

    if trust and ":" in agent_of(run):
        load_agent(agent_of(run))
    tree_of = reporting_named(agent_of(run)).tree
    trees = [(result, tree) for result in results(run) if (tree := tree_of(result)) is not None]
    if not trees:
        raise LdmError(
            f"{run.directory} has no trees.",
            "Agents that divide or search a task grow them, and `ldm refine` does.",
        )
    if not task:
        columns = ("task", "goal", *trees[0][1].columns, "solved")
        rows = [
            (
                result.task.id,
                result.task.goal,
                *tree.columns.values(),
                "yes" if result.success else "no",
            )
            for result, tree in trees
        ]
        output.print_table("Trees", columns, rows)
        return
    result = _one_of([result for result, _ in trees], task)
    divided = next(tree for one, tree in trees if one is result)
    solved = "solved" if result.success else f"not solved, score {result.score:.2f}"
    output.say(f"{result.task.id}\n{solved}, {divided.headline}", error=False)
    for line in divided.lines():
        output.say(line, error=False)


def _list_goals(explored: list[ExploredGoal]) -> None:
    rows = [
        (
            one.task.id,
            one.task.goal,
            str(sum(tree.tried for tree in one.trees)),
            "failed" if one.error else "yes" if any(t.improved for t in one.trees) else "no",
        )
        for one in explored
    ]
    output.print_table("Explored goals", ("task", "goal", "nodes", "improved"), rows)


Recorded = TypeVar("Recorded", "ExploredGoal", "EpisodeResult")


def _one_of(records: list[Recorded], name: str) -> Recorded:
    """Return the record of the task with this id, or of the only one whose id contains it."""
    matches = [one for one in records if one.task.id == name] or [
        one for one in records if name in one.task.id
    ]
    if len(matches) != 1:
        which, fit = (f"{len(matches)} goals", "match") if matches else ("No goal", "matches")
        raise LdmError(
            f"{which} of this run {fit} {name!r}.",
            f"For example {(matches or records)[0].task.id}; `ldm runs tree RUN` lists them.",
        )
    return matches[0]
