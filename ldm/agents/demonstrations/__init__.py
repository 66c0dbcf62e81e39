"""Demonstrations: the few recorded trajectories that prompts show (docs/architecture.md#agents).

A file of whole tasks, NAME.jsonl, may have companions:
- NAME.skills.jsonl, atomic skills (ADaPT, arXiv 2311.05772, Table 1): trajectories of short tasks
  whose kind is the skill. `success` is whether its executor completes it or has to give up. A skill
  that takes a look and no action (`Card.judged`) has an observation and the judgement, a thought.
- NAME.plans.jsonl, divisions of tasks (`Division`), which planners are shown for any kind of task.

`scripts/make_demonstrations.py` makes the shipped ones from our own games, shop and recipes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from ldm import records
from ldm.episode import Digests
from ldm.errors import LdmError
from ldm.text import read_bytes
from ldm.types import Trajectory, stable_hash

R = TypeVar("R")
#: The folder of the shipped files, ENV.jsonl and so on for each environment.
SHIPPED = Path(__file__).parent
#: Suffixes of the companions of a file of whole tasks.
SKILLS, DIVISIONS = ".skills.jsonl", ".plans.jsonl"


@dataclass(frozen=True, slots=True)
class Division:
    """The division of a task into sub-tasks, which may divide further, as planners write it.

    task: in words, a whole one or a sub-task. seen: the first observation. plan: a short one.
    detailed: one whose steps can each be carried out, "" for none. tried: earlier attempts without
    success. source: the `Task.leak_key` of its origin, which must not be evaluated.
    """

    task: str
    seen: str
    plan: str
    detailed: str = ""
    tried: str = ""
    source: str = ""


def digest(path: Path) -> str:
    """Return a digest of a file and its companions. Raise LdmError if it cannot be read."""
    companions = (path.with_suffix(end) for end in (SKILLS, DIVISIONS))
    texts = [read_bytes(file) if file.is_file() else b"" for file in companions]
    return stable_hash([text.hex() for text in (read_bytes(path), *texts)])


#: `Agent.digests` of those whose options name a file of demonstrations.
DIGESTS: Digests = {"demonstrations": ("demonstrations_digest", digest)}


def load(env: str, place: str | None = None) -> tuple[Trajectory, ...]:
    """Return the demonstrations for an environment, in their file's order; () without any.

    place: a file of Trajectory records that is used in place of the shipped ones.
    Raise LdmError if that file is missing, damaged or only for other environments.
    """
    path = path_of(env, place)
    if place is None:
        return _read(path, Trajectory) if path.is_file() else ()
    if not path.is_file():
        raise LdmError(
            f"There are no demonstrations at {path}.",
            "Name a JSONL file of trajectories (`ldm validate --schema trajectory` shows them).",
        )
    fitting = tuple(one for one in _read(path, Trajectory) if one.task.env == env)
    if not fitting:
        raise LdmError(
            f"{path} holds no demonstration for {env}.",
            "Name a file with trajectories of that environment, or leave the option out.",
        )
    return fitting


def skills(env: str, place: str | None = None) -> tuple[Trajectory, ...]:
    """Return demonstrations of atomic skills; () if there are none. place: as for `load`.

    Raise LdmError if their file is damaged.
    """
    path = path_of(env, place).with_suffix(SKILLS)
    return _read(path, Trajectory) if path.is_file() else ()


def divisions(env: str, place: str | None = None) -> tuple[Division, ...]:
    """Return the divisions of tasks that planners are shown; as `skills`."""
    path = path_of(env, place).with_suffix(DIVISIONS)
    return _read(path, Division) if path.is_file() else ()


def chosen(known: Sequence[Trajectory], kind: str, shots: int) -> tuple[Trajectory, ...]:
    """Return up to `shots` of the known ones: those of the task kind `kind` first."""
    return tuple(sorted(known, key=lambda one: one.task.kind != kind)[:shots])


def common(known: Sequence[Trajectory], kinds: Sequence[str], shots: int) -> tuple[Trajectory, ...]:
    """Return up to `shots` demonstrations for any task: the first of each of these kinds.

    Without kinds they are the first ones.
    """
    firsts = [next((one for one in known if one.task.kind == kind), None) for kind in kinds]
    return tuple(one for one in (firsts if kinds else known) if one is not None)[:shots]


def sources(
    env: str, place: str | None, shots: int, *, with_skills: bool = False, with_plans: bool = False
) -> frozenset[str]:
    """Return the sources that must not be evaluated by an agent that is shown demonstrations.

    with_skills, with_plans: whether it is also shown those of skills, and divisions of tasks.
    """
    if not shots:
        return frozenset()
    sources = [one.task.leak_key for one in load(env, place)]
    if with_skills:
        sources += [one.task.leak_key for one in skills(env, place)]
    if with_plans:
        sources += [one.source for one in divisions(env, place)]
    return frozenset(sources) - {""}


def path_of(env: str, place: str | None) -> Path:
    """Return the file of demonstrations for an environment. place: as for `load`."""
    return SHIPPED / f"{env}.jsonl" if place is None else Path(place).expanduser()


@lru_cache(maxsize=64)
def _read(path: Path, kind: type[R]) -> tuple[R, ...]:
    return tuple(records.read(path, kind))
