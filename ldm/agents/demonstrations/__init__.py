"""Demonstrations: the few recorded trajectories that prompts show (design §6).

Those that ship are made by `scripts/make_demonstrations.py` from our own games, shop and recipes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ldm import records
from ldm.errors import LdmError
from ldm.types import Trajectory

#: One file an environment: ENV.jsonl.
SHIPPED = Path(__file__).parent


def load(env: str, place: str | None = None) -> tuple[Trajectory, ...]:
    """All demonstrations for an environment, in the order of their file; () where there are none.

    place: a file of Trajectory records that is used in place of the shipped ones.
    Raises LdmError where that file is missing, damaged or of other environments only.
    """
    if place is None:
        path = SHIPPED / f"{env}.jsonl"
        return _read(path) if path.is_file() else ()
    path = Path(place).expanduser()
    if not path.is_file():
        raise LdmError(
            f"There are no demonstrations at {path}.",
            "Name a JSONL file of Trajectory records (their schema: ldm schema trajectory).",
        )
    found = tuple(one for one in _read(path) if one.task.env == env)
    if not found:
        raise LdmError(
            f"{path} holds no demonstration for {env}.",
            "Name a file with trajectories of that environment, or leave the option out.",
        )
    return found


def chosen(found: Sequence[Trajectory], kind: str, shots: int) -> tuple[Trajectory, ...]:
    """Up to `shots` of them: those of the task kind `kind` first, then the others."""
    return tuple(sorted(found, key=lambda one: one.task.kind != kind)[:shots])


def sources(env: str, place: str | None, shots: int) -> frozenset[str]:
    """What may not be evaluated by an agent that is shown demonstrations (design §7)."""
    return frozenset(one.task.leak_key for one in load(env, place)) if shots else frozenset()


@lru_cache(maxsize=32)
def _read(path: Path) -> tuple[Trajectory, ...]:
    return tuple(records.read(path, Trajectory))
