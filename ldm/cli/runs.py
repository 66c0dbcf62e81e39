"""`ldm runs`: list recorded runs, and show their episodes and trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, TypeVar

import typer

from ldm import runs as recorded
from ldm.agents import reporting_named
from ldm.cli import output
from ldm.cli.options import AsJson, RunsAt
from ldm.errors import LdmError
from ldm.explore.refine import read_explored_goals
from ldm.explore.report import drawn
from ldm.llm.models import account_lines, accounts_in
from ldm.records import plain
from ldm.reporting import TaskTree
from ldm.run import reading
from ldm.run.reading import ReadRun, RecordedEpisode
from ldm.run.runner import results
from ldm.run.runtime import DEFAULT_RUNS
from ldm.text import last_line, short
from ldm.types import Task

runs_app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="List recorded runs and show them."
)

#: Rows of a table, unless all are asked for.
LISTED = 50
#: A bound that never cuts.
ALL = 10**9

Named = TypeVar("Named")


@runs_app.command("list")
def list_runs(runs: RunsAt = DEFAULT_RUNS, as_json: AsJson = False) -> None:
    """List the recorded runs, oldest first, with their status and score.

    Score is the success rate of a finished evaluation. A stopped run can be resumed with the
    command that made it: `ldm eval --resume RUN`.

    \b
    Examples:
      ldm runs list
      ldm runs list --json
    """

    def unreadable(error: LdmError) -> None:
        output.say(f"Skipping: {error.message}")

    listed = [reading.entry_of(run) for run in recorded.list_runs(runs, unreadable)]
    if as_json:
        output.print_json({"runs": listed})
        return
    if not listed:
        output.say(f"There are no runs in {runs}.")
        return
    rows = []
    for one in listed:
        what = one["id"], one["command"], short(one["env"]), short(one["agent"]), one["model"]
        score = "" if one["score"] is None else f"{100 * one['score']:.1f} %"
        finished, started = one["status"] == "finished", one["started"][:16].replace("T", " ")
        tasks = one["tasks"] if finished else f"{one['recorded']}/{one['tasks']}"
        rows.append((*what, score, tasks, one["status"], started))
    names = ("run", "command", "env", "agent", "model", "score", "tasks", "status", "started")
    filled = [i for i in range(len(names)) if any(row[i] != "" for row in rows)]
    columns, table = [names[i] for i in filled], [[row[i] for i in filled] for row in rows]
    output.print_table(f"Runs in {runs}", columns, table, whole=("run",))


@runs_app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="RUN", help="Directory or id.")],
    task: Annotated[str, typer.Argument(help="Task id or a part of it; without it: a list.")] = "",
    trial: Annotated[
        int | None, typer.Option(min=1, help="Which trial; by default the one that counts.")
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="How an agent divided or searched the task.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Print long texts in full.")] = False,
    runs: RunsAt = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Print the episodes of a run, or one with its thoughts, actions, recalled tuples and votes.

    A recalled tuple that the action follows is marked with *. Long texts are cut. Of a refinement,
    the goals are listed, or the tree of one: what was tried, pruned and remembered.

    \b
    Examples:
      ldm runs show RUN
      ldm runs show RUN pick_heat_then_place
    """
    opened = recorded.open_run(name, runs)
    if tree or opened.manifest.command == "refine":
        _print_trees(opened, task, full=full)
        return
    run = reading.read_run(name, runs)
    if not (episodes := run.episodes()):
        raise LdmError(f"{opened.directory} has no episodes.", "`ldm report` shows its plans.")
    if not task:
        _print_list(run, episodes, full=full, as_json=as_json)
        return
    episode = _of_task(episodes, task, lambda one: one.result.task.id)
    if trial is not None and trial > len(episode.trials):
        raise LdmError(
            f"{episode.result.task.id} has no trial {trial}: it has {len(episode.trials)}.",
            "Leave --trial out for the one that counts.",
        )
    if as_json:
        trials = [plain(trial) for trial in episode.trials]
        output.print_json({"result": plain(episode.result), "trials": trials})
        return
    bounds = reading.Bounds(ALL, ALL, ALL) if full else reading.Bounds()
    place = None if trial is None else trial - 1
    facts, tuples = partial(run.facts, episode), reading.tuples_of(run, [episode])
    output.say_all(reading.episode_lines(episode, tuples, bounds, place, facts))


def _print_list(
    run: ReadRun, episodes: Sequence[RecordedEpisode], *, full: bool, as_json: bool
) -> None:
    accounts = accounts_in(run.run.directory)
    if as_json:
        usage = [plain(account) for account in accounts]
        output.print_json({"episodes": [plain(one.result) for one in episodes], "usage": usage})
        return
    listed = episodes if full else episodes[:LISTED]
    rows = [reading.episode_row(one) for one in listed]
    output.print_table(f"Episodes of {run.id}", reading.EPISODE_COLUMNS, rows)
    if (count := len(episodes) - len(listed)) > 0:
        output.show(f"… and {count} more (--full).")
    output.say_all(account_lines(accounts))


def _trees_of(run: recorded.Run) -> list[tuple[Task, str, Sequence[TaskTree]]]:
    """Return each task that was explored, divided or searched, how it ended, and its trees."""
    if run.manifest.command == "refine":
        return [
            (
                one.task,
                one.error or ("improved" if one.added else "unchanged"),
                [*map(drawn, one.trees)],
            )
            for one in read_explored_goals(run)
        ]
    tree_of = reporting_named(run.named("agent")).tree
    return [
        (one.task, "solved" if one.success else f"not solved, score {one.score:.2f}", [tree])
        for one in results(run)
        if (tree := tree_of(one)) is not None
    ]


def _print_trees(run: recorded.Run, name: str, *, full: bool) -> None:
    """Print how tasks were explored, divided or searched: a table of all, or one task's trees."""
    if not (grown := _trees_of(run)):
        raise LdmError(
            f"{run.directory} has no trees.",
            "Agents that divide or search a task grow them, and `ldm refine` does.",
        )
    if name:
        task, ended, trees = _of_task(grown, name, lambda one: one[0].id)
        output.say_all([f"{task.id}: {ended}", f"goal: {task.goal}"])
        for tree in trees:
            output.show(tree.headline)
            output.say_all(tree.lines(texts=full or not tree.paths))
        return
    every = [tree for *_, trees in grown for tree in trees]
    columns = list(dict.fromkeys(name for tree in every for name in tree.columns))
    rows = [
        (task.id, task.goal, *map(tree.columns.get, columns), last_line(ended))
        for task, ended, trees in grown
        for tree in trees or [TaskTree({}, "", ())]
    ]
    output.print_table("Trees", ("task", "goal", *columns, "ended"), rows)


def _of_task(records: Sequence[Named], name: str, id_of: Callable[[Named], str]) -> Named:
    """Return the record of the task with this id, or of the only one whose id contains it."""
    matches = [one for one in records if id_of(one) == name] or [
        one for one in records if name in id_of(one)
    ]
    if len(matches) != 1:
        which = f"{len(matches)} tasks match" if matches else "No task matches"
        raise LdmError(
            f"{which} {name!r} in this run.",
            f"For example {id_of((matches or records)[0])}; `ldm runs show RUN` lists all.",
        )
    return matches[0]
