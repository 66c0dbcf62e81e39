"""Demonstrations: the few recorded trajectories that prompts show (docs/architecture.md#agents).

Beside a file of them, NAME.jsonl, there may be one that says how their tasks divide into sub-tasks,
NAME.plans.json: ADaPT's planner is shown that. Those that ship are made by
`scripts/make_demonstrations.py` from our own games, shop and recipes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ldm import records, untrusted
from ldm.errors import LdmError
from ldm.types import Trajectory, stable_hash

#: One file an environment: ENV.jsonl.
SHIPPED = Path(__file__).parent

_OBJECT = "It holds one JSON object: task id → plan (docs/architecture.md)."


def digest(path: Path) -> str:
    """Return a digest of a file and of the plans beside it; LdmError where it cannot be read."""
    plans_file = path.with_suffix(".plans.json")
    try:
        texts = [path.read_bytes(), plans_file.read_bytes() if plans_file.is_file() else b""]
    except OSError as error:
        raise LdmError(
            f"There are no demonstrations at {path}: {error.strerror}.", "Name another file."
        ) from error
    return stable_hash([text.hex() for text in texts])


def check(place: str | None, before: str | None) -> None:
    """Raise LdmError where the file at `place` is another than the one with the digest `before`."""
    if place is not None and before not in (None, digest(Path(place))):
        raise LdmError(
            f"The demonstrations in {place} have changed since the run began.",
            "Start a new run, or put the former ones back.",
        )


def load(env: str, place: str | None = None) -> tuple[Trajectory, ...]:
    """Return the demonstrations for an environment, in their file's order; () without any.

    place: a file of Trajectory records that is used in place of the shipped ones.
    Raises LdmError where that file is missing, damaged or of other environments only.
    """
    path = _path(env, place)
    if place is None:
        return _read(path) if path.is_file() else ()
    if not path.is_file():
        raise LdmError(
            f"There are no demonstrations at {path}.",
            "Name a JSONL file of Trajectory records (their schema: ldm schema trajectory).",
        )
    fitting = tuple(one for one in _read(path) if one.task.env == env)
    if not fitting:
        raise LdmError(
            f"{path} holds no demonstration for {env}.",
            "Name a file with trajectories of that environment, or leave the option out.",
        )
    return fitting


def plans(env: str, place: str | None = None) -> Mapping[str, str]:
    """Return task id → how that demonstration's task divides, as planners write it.

    {} where nobody wrote that down. place: as for `load`.
    Raises LdmError where the file is no JSON object of texts.
    """
    path = _path(env, place).with_suffix(".plans.json")
    return _plans(path) if path.is_file() else {}


def chosen(known: Sequence[Trajectory], kind: str, shots: int) -> tuple[Trajectory, ...]:
    """Return up to `shots` of them: those of the task kind `kind` first, then the others."""
    return tuple(sorted(known, key=lambda one: one.task.kind != kind)[:shots])


def sources(env: str, place: str | None, shots: int) -> frozenset[str]:
    """Return what may not be evaluated by an agent that is shown demonstrations."""
    return frozenset(one.task.leak_key for one in load(env, place)) if shots else frozenset()


def _path(env: str, place: str | None) -> Path:
    return SHIPPED / f"{env}.jsonl" if place is None else Path(place).expanduser()


@lru_cache(maxsize=32)
def _plans(path: Path) -> Mapping[str, str]:
    by_task = untrusted.json_file(path)
    if not isinstance(by_task, dict) or not all(isinstance(one, str) for one in by_task.values()):
        raise LdmError(f"{path} does not map task ids to texts.", _OBJECT)
    return by_task


@lru_cache(maxsize=32)
def _read(path: Path) -> tuple[Trajectory, ...]:
    return tuple(records.read(path, Trajectory))
