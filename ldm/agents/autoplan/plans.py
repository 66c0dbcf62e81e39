"""Plan files: the plans that `ldm autoplan` optimised for a kind of task, with their history.

A folder holds a file for each kind: the last plan, X_I, and those before it, from X_0 on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ldm import records
from ldm.errors import LdmError
from ldm.text import read_bytes
from ldm.types import EpisodeResult, Trajectory, Usage, stable_hash

SUFFIX = ".json"
#: The kind of a plan for tasks of all kinds, used for kinds without a plan of their own.
ALL = "all"


@dataclass(frozen=True, slots=True)
class Reflection:
    """The model's reflection on an experience (§3.2.2); the ablation leaves flaw, revision ""."""

    summary: str = ""
    flaw: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Experience:
    """One attempt at a task with the plan of an iteration.

    index: its place among all experiences of the optimisation. trajectory: with the formalised
    actions; said: for each of its steps, the model's words before they were formalised. usage: of
    the reflection.
    """

    index: int
    result: EpisodeResult
    trajectory: Trajectory | None = None
    said: tuple[str, ...] = ()
    reflection: Reflection = Reflection()
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Iteration:
    """One step of the optimisation. plan: X_i, with which the experiences were collected.

    kept: whether the reply to the request for an improved plan was unusable, so that
    X_{i+1} = X_i. usage: of that request.
    """

    plan: str
    experiences: tuple[Experience, ...]
    kept: bool = False
    usage: Usage = field(default_factory=Usage)

    @property
    def success(self) -> float:
        """The share of the batch that succeeded; an error counts as no success."""
        return sum(one.result.success for one in self.experiences) / len(self.experiences)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """An optimised plan. It must not be evaluated on the tasks that it was made from.

    kind: of the tasks that it is for, or ALL. pool: ids of the tasks that batches were drawn from.
    sources: their `leak_key`s. models: by role. settings: of the optimisation. run: the id of the
    run that made it. iterations: the history of the plan. solutions: whether reflections were shown
    the solutions of the training tasks.
    """

    env: str
    kind: str
    split: str
    plan: str
    pool: tuple[str, ...]
    sources: tuple[str, ...]
    models: dict[str, str]
    settings: dict[str, str]
    seed: int
    run: str
    iterations: tuple[Iteration, ...] = ()
    solutions: bool = False

    def at(self, iteration: int | None) -> str:
        """Return the plan X_i of an iteration; None selects this file's own plan.

        Raise LdmError if the file does not hold it.
        """
        if iteration is None:
            return self.plan
        plans = self.numbered()
        if iteration not in plans:
            raise LdmError(
                f"There is no plan of iteration {iteration} for {self.kind} in {self.env}.",
                f"There is: {', '.join(map(str, plans))}.",
            )
        return plans[iteration]

    def numbered(self) -> dict[int, str]:
        """Return the plans X_i by i."""
        return dict(enumerate([*(one.plan for one in self.iterations), self.plan]))


def path_of(folder: Path, env: str, kind: str) -> Path:
    """Return the plan file of a kind of task."""
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in f"{env}-{kind}")
    return folder / f"{safe}{SUFFIX}"


def find(folder: Path, env: str, kind: str) -> Path:
    """Return the plan file for tasks of a kind: its own, or the one for all where that is alone."""
    own, other = (path_of(folder, env, name) for name in (kind, ALL))
    return other if other.is_file() and not own.is_file() else own


def write(path: Path, plan: PlanFile) -> None:
    """Write a plan file atomically, in readable form. Raise OSError on failure."""
    pretty = json.dumps(json.loads(records.dumps(plan)), indent=2, ensure_ascii=False)
    with records.replacing(path) as file:
        file.write(pretty + "\n")


def read(path: Path) -> PlanFile:
    """Return the plan in a file. Raise LdmError if it is missing or damaged."""
    if not path.is_file():
        raise LdmError(f"There is no plan at {path}.", "Make one with `ldm autoplan --out FOLDER`.")
    return records.loads(read_bytes(path), PlanFile, file=str(path))


def digest(folder: Path) -> str:
    """Return a digest of the plan files in a folder. Raise LdmError if there are none."""
    files = sorted(folder.glob(f"*{SUFFIX}"))
    if not files:
        raise LdmError(f"There are no plans in {folder}.", "Make one with `ldm autoplan`.")
    return stable_hash([(file.name, read_bytes(file).hex()) for file in files])


def in_folder(folder: Path, env: str) -> Sequence[PlanFile]:
    """Return all plans for an environment in a folder. Raise LdmError if there are none."""
    known = [read(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    fitting = [plan for plan in known if plan.env == env]
    if not fitting:
        raise LdmError(
            f"{folder} holds no plan for {env}.",
            f"Make one with `ldm autoplan --env {env} --kind KIND --out {folder}`.",
        )
    return fitting
