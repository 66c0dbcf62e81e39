"""Which tasks an evaluation takes, and what its agent must not have seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from ldm.agents import check_files
from ldm.episode import Agent
from ldm.errors import LdmError, LeakageError
from ldm.types import Task, stable_hash


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
    Raises LdmError where a kind or id is unknown, or where nothing is left.
    """
    _known("kind", kinds, {task.kind for task in tasks})
    _known("task", ids, {task.id for task in tasks})
    if limit is not None and limit < 1:
        raise LdmError(f"A limit of {limit} leaves no task.", "Use at least 1.")
    chosen = [
        task
        for task in tasks
        if (not kinds or task.kind in kinds) and (not ids or task.id in set(ids))
    ]
    if not chosen:
        raise LdmError("No task is left.", "Choose another split, kind or task.")
    if limit is None or limit >= len(chosen):
        return tuple(chosen)
    return tuple(chosen[i] for i in even([(t.id, t.kind) for t in chosen], limit, seed))


def even(items: Sequence[tuple[str, str]], limit: int, seed: int | None = None) -> list[int]:
    """Return the indices of `limit` items (id, kind), an even share of each kind, ascending.

    They are dealt round the kinds like cards; within a kind in the order of a hash of the ids.
    """
    hands: dict[str, list[int]] = {}
    salt = () if seed is None else (seed,)
    for i in sorted(range(len(items)), key=lambda i: stable_hash("limit", *salt, items[i][0])):
        hands.setdefault(items[i][1], []).append(i)
    dealt = sorted(
        ((place, kind, i) for kind, hand in hands.items() for place, i in enumerate(hand)),
        key=lambda card: card[:2],
    )
    return sorted(i for _, _, i in dealt[:limit])


def _known(what: str, names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            close = get_close_matches(name, sorted(known), n=1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            some = sorted(known)
            examples = ", ".join(some[:8]) + (", …" if len(some) > 8 else "")
            raise LdmError(f"The split has no {what} {name!r}.", f"{hint}It has: {examples}.")


def check_leakage(
    sources: Iterable[str],
    tasks: Iterable[Task],
    *,
    what: str = "the memory",
    remedy: str = "Evaluate other tasks, or build a memory without these trajectories.",
) -> None:
    """Raise LeakageError where a task to be evaluated is a source of `what`."""
    evaluated = {task.leak_key for task in tasks}
    leaked = sorted(evaluated.intersection(sources))
    if leaked:
        raise LeakageError(leaked, remedy, what)


def check_examples(agent: type[Agent], options: Any, env: str, tasks: Sequence[Task]) -> None:
    """Raise LdmError if the agent cannot work on one of the tasks, or its prompts show one.

    options: the agent's.
    """
    check_files(agent, options)
    agent.check_kinds(options, env, {task.kind for task in tasks})
    what = f"the {agent.source_noun} of {agent.name}"
    remedy = f"Evaluate other tasks, {agent.source_remedy}."
    check_leakage(agent.sources(options, env), tasks, what=what, remedy=remedy)
