"""The choice of goals to explore: new ones, of a training split, that no evaluation has used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path

from ldm.config import Section
from ldm.episode import Environment
from ldm.errors import LdmError
from ldm.runs import list_runs
from ldm.types import Task


def evaluated_leak_keys(
    runs: Path, name: str, env: Environment, open_env: Callable[[Section], Environment]
) -> frozenset[str]:
    """Return the `leak_key`s of all tasks of environment `name` that a run in `runs` evaluates.

    open_env: opens the environment as a run had it: its options may decide on a split's tasks.
    env: the present environment, for runs whose data have moved.
    """
    splits: dict[tuple[str, Section], set[str]] = {}
    for run in list_runs(runs):
        manifest = run.manifest
        if manifest.command == "eval" and run.named("env") == name:
            section = run.section("env")
            ids = splits.setdefault((str(manifest.protocol.get("split", "")), section), set())
            ids.update(manifest.protocol.get("tasks", ()))
    leak_keys: set[str] = set()
    for (split, section), ids in splits.items():
        by_id: dict[str, str] = {}
        with suppress(LdmError), closing(open_env(section)) as evaluated_env:
            by_id = _leak_keys(evaluated_env, split)
        if not by_id:
            with suppress(LdmError):  # the data are missing now
                by_id = _leak_keys(env, split)
        leak_keys.update(by_id.get(task_id, task_id) for task_id in ids)
    return frozenset(leak_keys)


def _leak_keys(env: Environment, split: str) -> dict[str, str]:
    """Return task id → `leak_key` of a split."""
    return {task.id: task.leak_key for task in env.tasks(split)}


def new_goals(
    tasks: Iterable[Task],
    *,
    evaluated: frozenset[str],
    remembered: frozenset[str],
    explored: frozenset[str],
    reuse: bool = False,
) -> tuple[Task, ...]:
    """Return the tasks that may be explored.

    evaluated, remembered: `leak_key`s of evaluated tasks and of the memory's own trajectories.
    explored: ids of the goals of earlier refinements. reuse: allow remembered and explored ones.
    """
    return tuple(
        task
        for task in tasks
        if task.leak_key not in evaluated
        and (reuse or (task.leak_key not in remembered and task.id not in explored))
    )
