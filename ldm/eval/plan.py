"""What an evaluation is determined by, which tasks it takes, and what it must not have seen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

from ldm import records
from ldm.errors import LdmError, LeakageError
from ldm.types import Task, stable_hash

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """One agent on tasks of one split; run.json holds it, so that a run can be resumed.

    env, agent: names in the registries, or package.module:Class.
    env_options, agent_options: (field, value as written) of their Options, sorted by field.
    kinds, limit, tasks: which tasks, see `select`.
    memory: where the memory lies. generation: None is the newest. embedder: None is the memory's.
    memory_digest: of what the memory held, so that a resumed run does not mix two memories.
    seed: of everything that is drawn, the bootstrap of success rates included.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    env: str
    split: str
    agent: str
    env_options: Settings = ()
    agent_options: Settings = ()
    kinds: tuple[str, ...] = ()
    limit: int | None = None
    tasks: tuple[str, ...] = ()
    memory: str = ""
    generation: int | None = None
    embedder: str | None = None
    memory_digest: str = ""
    seed: int = 0

    def arguments(self) -> dict[str, Any]:
        """Return the plan as JSON values, for run.json."""
        values: dict[str, Any] = json.loads(records.dumps(self))
        return values

    @classmethod
    def from_arguments(cls, values: Mapping[str, Any], file: str) -> EvaluationPlan:
        """Return the plan in run.json (`file`). Raises RecordError where it does not fit."""
        return records.loads(json.dumps(values), cls, file=file)


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
        raise LdmError("There is no task left.", "Choose another split, kind or task.")
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
