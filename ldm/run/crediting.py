"""Credit the tuples of a memory from recorded evaluations, and drop harmful ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.config import Evaluate
from ldm.errors import LdmError
from ldm.run.engine import recorded_spec

if TYPE_CHECKING:
    from ldm.memory import Generation
    from ldm.run.credit import CreditedTuple, PruneOptions
    from ldm.runs import Run
    from ldm.types import Trajectory


@dataclass(frozen=True, slots=True)
class Credited:
    """The credit of a memory's tuples in evaluations with it.

    memory, generation: its location, and the evaluated generation.
    runs, specs: the directories and specs of the evaluations. attempts: the number of attempts.
    tuples: the recalled ones, the most harmful first.
    """

    memory: str
    generation: Generation
    runs: tuple[Path, ...]
    specs: tuple[Evaluate, ...]
    attempts: int
    tuples: tuple[CreditedTuple, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of pruning. generation: the new one, or None if none was added."""

    credited: Credited
    dropped: tuple[CreditedTuple, ...]
    generation: Generation | None


def credit_tuples(
    runs: Sequence[str | Path], *, folder: Path = Path("runs"), trust: bool = False
) -> Credited:
    """Return the credit of a memory's tuples in finished evaluations with it.

    runs: directories, or ids below `folder`. trust: as for `ldm.compare`.
    Raises LdmError if a run is not a finished evaluation with a memory, does not record which
    tuples were followed, has another memory than the first, or the memory has changed.
    """
    from ldm.memory import inspect
    from ldm.run.credit import CreditedTuple, tuple_credits

    recorded = [recorded_spec(str(run), Evaluate, folder, trust=trust) for run in runs]
    _check_runs(recorded)
    attempts = [attempt for run, _ in recorded for attempt in _attempts(run)]
    first = recorded[0][1]
    contents = inspect(first.memory, attempts[0].task.env, first.generation)
    if contents.generation.digest != first.memory_digest:
        raise LdmError(
            f"The memory at {first.memory} has changed since it was evaluated.",
            "Evaluate it again.",
        )
    credits_of = tuple_credits(attempts)
    named = contents.rows.with_ids([one.tuple_id for one in credits_of])
    rows = {row.tuple.id: row for row in named}
    return Credited(
        first.memory,
        contents.generation,
        tuple(run.directory for run, _ in recorded),
        tuple(spec for _, spec in recorded),
        len(attempts),
        tuple(CreditedTuple(one, rows[one.tuple_id]) for one in credits_of),
    )


def prune_memory(
    runs: Sequence[str | Path],
    options: PruneOptions | None = None,
    *,
    folder: Path = Path("runs"),
    trust: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """Drop tuples that were followed often with poor outcomes, as the memory's next generation.

    runs, folder, trust: as for `credit_tuples`, but of training splits only, because choosing by
    the outcomes of test tasks is learning from them. options: None for the defaults.
    dry_run: return the tuples to drop without adding a generation.

    Raises what `credit_tuples` raises, and LdmError if a run is of another split or evaluated
    another generation than the newest.
    """
    from ldm.memory import hide
    from ldm.run.credit import PruneOptions

    options = options or PruneOptions()
    for run in runs:
        _check_training(*recorded_spec(str(run), Evaluate, folder, trust=trust))
    credited = credit_tuples(runs, folder=folder, trust=trust)
    dropped = tuple(one for one in credited.tuples if options.drops(one.credit))
    if dry_run or not dropped:
        return Pruned(credited, dropped, None)
    settings = {
        "dropped": str(len(dropped)),
        **{name: str(value) for name, value in asdict(options).items()},
        "runs": ",".join(sorted(directory.name for directory in credited.runs)),
    }
    ids = [one.credit.tuple_id for one in dropped]
    generation = hide(credited.memory, credited.generation, ids, settings=settings)
    return Pruned(credited, dropped, generation)


def _check_runs(recorded: Sequence[tuple[Run, Evaluate]]) -> None:
    """Raise LdmError unless the runs are distinct and have the same memory."""
    if not recorded:
        raise LdmError("No run is named.", "Name finished evaluations.")
    directories = [run.directory.resolve() for run, _ in recorded]
    for place, (run, spec) in enumerate(recorded):
        if directories[place] in directories[:place]:
            raise LdmError(f"{run.directory} is named twice.", "Name each run once.")
        if not spec.memory_digest:
            raise LdmError(
                f"{run.directory} used no memory: its agent {spec.agent.name} recalls no tuples.",
                "Name runs of an agent with a memory.",
            )
        first_run, first = recorded[0]
        if (spec.env, spec.memory_digest) != (first.env, first.memory_digest):
            raise LdmError(
                f"{first_run.directory} and {run.directory} had different memories: generation "
                f"{first.generation} of {first.memory} for {first.env.name}, and generation "
                f"{spec.generation} of {spec.memory} for {spec.env.name}.",
                "Name runs with the same memory and generation.",
            )


def _attempts(run: Run) -> Iterator[Trajectory]:
    """Yield the attempts of a finished run; raise LdmError if they do not record recalls."""
    from ldm import records
    from ldm.run.credit import counted
    from ldm.run.runner import TRAJECTORIES, results
    from ldm.types import Trajectory

    ended = results(run)
    attempts = list(counted(ended, records.read(run.directory / TRAJECTORIES, Trajectory)))
    steps = [step for attempt in attempts for step in attempt.steps if step.recalls]
    if not steps:
        raise LdmError(
            f"Nothing was recalled in {run.directory}.", "Name runs that recall, without errors."
        )
    if any(step.followed is None for step in steps):
        raise LdmError(
            f"{run.directory} does not record which of the recalled tuples were followed.",
            "Its agent does not record it; evaluate another one.",
        )
    yield from attempts


def _check_training(run: Run, spec: Evaluate) -> None:
    """Raise LdmError unless a run is of a training split."""
    from ldm.envs import load_env

    known = load_env(spec.env.name).train_splits
    if spec.split not in known:
        raise LdmError(
            f"{run.directory} evaluates {spec.split}, no training split of {spec.env.name}. "
            "Pruning by its outcomes would be learning from test tasks.",
            f"Evaluate training tasks that the memory does not hold (--split {' or '.join(known)}) "
            "and name that run.",
        )
