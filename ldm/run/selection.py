"""The data, split and tasks of an experiment, and the check for leakage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ldm.agents import check_files
from ldm.config import Section
from ldm.envs import load_env
from ldm.envs.metadata import metadata
from ldm.episode import Agent
from ldm.errors import LdmError, LeakageError, did_you_mean
from ldm.run.runtime import Runtime
from ldm.types import Task, by_key, stable_hash


def with_data(env: Section, runtime: Runtime) -> Section:
    """Return the environment with its typed options, and with its data folder if that is known.

    Raises LdmError for an option that does not fit.
    """
    folder = None if "data" in env.options else runtime.data(env.name)
    if folder:
        env = env.with_options(data=folder)
    return env.settled(env.typed(load_env(env.name).Options, f"environment {env.name}"))


def training_split(env: Section, split: str, runtime: Runtime, *, explore: bool = True) -> str:
    """Return the training split to use: the given one, or the environment's first.

    explore: of the splits that need no data, take the one for exploring; else the last.
    Raises LdmError if `split` is not a training split of the environment.
    """
    known = load_env(env.name).train_splits
    if split and split not in known:
        raise LdmError(
            f"{split} is not a training split of {env.name}.", f"Use one of: {', '.join(known)}."
        )
    shipped = metadata(env.name).shipped
    if split or shipped is None or "data" in env.options:
        return split or known[0]
    return _without_data(env.name, shipped.explore if explore else known[-1], runtime)


def evaluation_split(env: Section, split: str, runtime: Runtime) -> str:
    """Return the split to evaluate: the given one, or the environment's default."""
    shipped = metadata(env.name).shipped
    if split or shipped is None or "data" in env.options:
        return split or load_env(env.name).default_split
    return _without_data(env.name, shipped.test, runtime)


def _without_data(env: str, split: str, runtime: Runtime) -> str:
    """Return the shipped split, and report that it is used because no data are known."""
    data = metadata(env).data
    variable = f" or ${data.variable}" if data else ""
    runtime.message(
        f"No {env} data configured (--data{variable}); using the bundled split {split}."
    )
    return split


def select(
    tasks: Sequence[Task],
    *,
    kinds: Sequence[str] = (),
    limit: int | None = None,
    ids: Sequence[str] = (),
    seed: int | None = None,
) -> tuple[Task, ...]:
    """Return the tasks to evaluate or to explore, in the order of `tasks`.

    kinds: only these task types. ids: only these tasks. limit: at most that many, an even share of
    each kind; which ones depends on their ids and the seed alone, and a smaller limit takes a part
    of what a larger one takes.
    Raises LdmError if a kind or id is unknown, or if no task is left.
    """
    _known("kind", kinds, {task.kind for task in tasks})
    _known("task", ids, {task.id for task in tasks})
    if limit is not None and limit < 1:
        raise LdmError(f"A limit of {limit} leaves no task.", "Use at least 1.")
    named = set(ids)
    chosen = [task for task in tasks if not kinds or task.kind in kinds]
    chosen = [task for task in chosen if not named or task.id in named]
    if not chosen:
        raise LdmError("No task is left.", "Choose another split, kind or task.")
    if limit is None or limit >= len(chosen):
        return tuple(chosen)
    return tuple(chosen[i] for i in even([(t.id, t.kind) for t in chosen], limit, seed))


def even(items: Sequence[tuple[str, str]], limit: int, seed: int | None = None) -> list[int]:
    """Return the indices of `limit` items (id, kind), an even share of each kind, ascending.

    They are dealt round the kinds like cards; within a kind in the order of a hash of the ids.
    """
    salt = () if seed is None else (seed,)
    cards = sorted(range(len(items)), key=lambda i: stable_hash("limit", *salt, items[i][0]))
    hands = by_key((items[i][1], i) for i in cards)
    dealt = sorted((place, kind, i) for kind, hand in hands.items() for place, i in enumerate(hand))
    return sorted(i for _, _, i in dealt[:limit])


def _known(what: str, names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            some = sorted(known)
            examples = ", ".join(some[:8]) + (", …" if len(some) > 8 else "")
            no_file = f"There is no file {name}. " if name.endswith(".txt") else ""
            remedy = f"{no_file or did_you_mean(name, some)}It has: {examples}."
            raise LdmError(f"The split has no {what} {name!r}.", remedy)


def check_leakage(
    sources: Iterable[str],
    tasks: Iterable[Task],
    *,
    what: str = "the memory",
    remedy: str = "Evaluate other tasks, or build a memory without these trajectories.",
) -> None:
    """Raise LeakageError if a task to be evaluated is a source of `what`."""
    evaluated = {task.leak_key for task in tasks}
    if leaked := sorted(evaluated.intersection(sources)):
        tasks_are = "task is also a source" if len(leaked) == 1 else "tasks are also sources"
        examples = ", ".join(leaked[:5]) + (", …" if len(leaked) > 5 else "")
        raise LeakageError(f"{len(leaked)} evaluated {tasks_are} of {what}: {examples}", remedy)


def check_examples(agent: type[Agent], options: Any, env: str, tasks: Sequence[Task]) -> None:
    """Raise LdmError if the agent cannot work on one of the tasks, or its prompts show one.

    options: the agent's.
    """
    check_files(agent, options)
    agent.check_kinds(options, env, {task.kind for task in tasks})
    what = f"the {agent.source_noun} of {agent.name}"
    remedy = f"Evaluate other tasks, {agent.source_remedy}."
    check_leakage(agent.sources(options, env), tasks, what=what, remedy=remedy)
