"""Which goals may be explored: new ones, of a training split, that no evaluation has used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from ldm.episode import Environment
from ldm.errors import LdmError
from ldm.runs import list_runs
from ldm.types import Task

#: (field, value as written) of an environment's Options.
Settings = tuple[tuple[str, str], ...]


def evaluated_sources(
    runs: Path, name: str, env: Environment, open_env: Callable[[Settings], Environment]
) -> frozenset[str]:
    """The `leak_key`s of all tasks of environment `name` that a run below `runs` evaluates.

    open_env: the environment with the options of a run, as a split's tasks may hang on them.
    env: as it is now, for runs whose data are no longer where they were.
    """
    splits: dict[tuple[str, Settings], set[str]] = {}
    for run in list_runs(runs):
        manifest = run.manifest
        plan = manifest.arguments.get("plan", {})
        if manifest.command == "eval" and plan.get("env") == name:
            options = tuple(
                (str(field), str(value)) for field, value in plan.get("env_options", ())
            )
            asked = splits.setdefault((str(manifest.protocol.get("split", "")), options), set())
            asked.update(manifest.protocol.get("tasks", ()))
    found: set[str] = set()
    for (split, options), ids in splits.items():
        try:
            with closing(open_env(options)) as theirs:
                known = _leak_keys(theirs, split)
        except LdmError:
            known = _leak_keys_if_any(env, split)
        found.update(known.get(task_id, task_id) for task_id in ids)
    return frozenset(found)


def _leak_keys(env: Environment, split: str) -> dict[str, str]:
    """Task id → `leak_key`."""
    return {task.id: task.leak_key for task in env.tasks(split)}


def _leak_keys_if_any(env: Environment, split: str) -> dict[str, str]:
    try:
        return _leak_keys(env, split)
    except LdmError:  # data that are not there now
        return {}


def new_goals(
    tasks: Iterable[Task],
    *,
    evaluated: frozenset[str],
    remembered: frozenset[str],
    explored: frozenset[str],
    reuse: bool = False,
) -> tuple[Task, ...]:
    """Those of `tasks` that may be explored.

    evaluated, remembered: `leak_key`s of evaluated tasks and of the memory's own trajectories.
    explored: ids of the goals of earlier refinements. reuse: allow remembered and explored ones.
    """
    return tuple(
        task
        for task in tasks
        if task.leak_key not in evaluated
        and (reuse or (task.leak_key not in remembered and task.id not in explored))
    )


def why_not(
    chosen: Sequence[Task], allowed: Sequence[Task], evaluated: frozenset[str]
) -> tuple[Task, str] | None:
    """The first of `chosen` that is not allowed, and why; None where all are."""
    possible = {task.id for task in allowed}
    for task in chosen:
        if task.id not in possible:
            used = task.leak_key in evaluated
            return task, "was evaluated" if used else "is known already (--reuse-goals allows it)"
    return None
