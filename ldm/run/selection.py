"""Which tasks an evaluation takes, and what its agent must not have seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from ldm.agents import AgentClass
from ldm.errors import LdmError, LeakageError
from ldm.types import Card, Task, stable_hash


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


def check_card(agent: AgentClass, options: Any, card: Card) -> None:
    """Raise LdmError where the agent cannot work in the environment of this card."""
    check = getattr(agent, "check_card", None)  # of agents that need something of an environment
    if check is not None:
        check(options, card)


def check_examples(agent: AgentClass, options: Any, env: str, tasks: Sequence[Task]) -> None:
    """Raise LeakageError where the agent's prompts show one of the tasks.

    options: the agent's. Raises LdmError where it has no plan for the kind of one of the tasks.
    """
    sources = getattr(agent, "sources", None)  # of agents with demonstrations or plans only
    if sources is None:
        return
    kinds = getattr(agent, "kinds", None)  # of agents that know only some kinds of task
    known = None if kinds is None else kinds(options, env)
    if known is not None and (lacking := sorted({task.kind for task in tasks} - known)):
        raise LdmError(
            f"There is no plan for {', '.join(lacking)} in {options.plans}.",
            f"Evaluate the others, --kinds {','.join(sorted(known))}, or make one with "
            f"`ldm autoplan --env {env} --kind {lacking[0]}`.",
        )
    what = f"the demonstrations of {agent.name}"
    remedy = (
        "Evaluate other tasks, show others with --set demonstrations=FILE, or none with "
        "--set shots=0."
    )
    if hasattr(options, "plans"):
        what = f"the plans of {agent.name}: they were made from them"
        remedy = "Evaluate other tasks, or name other plans with --plans FOLDER."
    check_leakage(sources(options, env), tasks, what=what, remedy=remedy)
