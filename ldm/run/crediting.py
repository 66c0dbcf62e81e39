"""What the tuples of a memory were worth in recorded evaluations; dropping those that harmed."""

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
    """What the tuples of one memory were worth in evaluations with it.

    memory, generation: where it lies, and which of its generations was evaluated.
    runs: directories of the evaluations. specs: of these. attempts: how many attempts there were.
    tuples: those that were recalled, the most harmful first.
    """

    memory: str
    generation: Generation
    runs: tuple[Path, ...]
    specs: tuple[Evaluate, ...]
    attempts: int
    tuples: tuple[CreditedTuple, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning came to. dropped: the tuples. generation: the new one; None: none was added."""

    credited: Credited
    dropped: tuple[CreditedTuple, ...]
    generation: Generation | None


def credit_tuples(
    runs: Sequence[str | Path], *, folder: Path = Path("runs"), trust: bool = False
) -> Credited:
    """Return what the tuples of a memory were worth in finished evaluations with it.

    runs: directories, or ids below `folder`. trust: as for `ldm.compare`.
    Raises LdmError where a run is no finished evaluation with a memory, was recorded before what is
    followed was, or has another memory than the first, or where that memory has changed.
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
            f"The memory at {first.memory} holds other tuples than when it was evaluated.",
            "Evaluate it as it is now.",
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
    """Drop the tuples that were followed often with poor outcomes, as the memory's next generation.

    runs, folder, trust: as for `credit_tuples`; evaluations of training splits only, since to
    choose by the outcomes of test tasks is to learn from them. options: None for the defaults.
    dry_run: say what would be dropped, and add nothing.

    Where there is nothing to drop, nothing is added.
    Raises what `credit_tuples` raises, and LdmError where a run is of another split, or where the
    generation that was evaluated is no longer the newest.
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


def learn_utilities(
    runs: Sequence[str | Path], *, folder: Path = Path("runs"), trust: bool = False
) -> Generation:
    """Learn what each tuple is worth, for `--recall utility`, as the memory's next generation.

    runs, folder, trust: as for `prune_memory`. Utilities known before are forgotten.
    Raises what `prune_memory` raises.
    """
    from ldm.memory import value
    from ldm.run.credit import utilities

    recorded = [recorded_spec(str(run), Evaluate, folder, trust=trust) for run in runs]
    for run, spec in recorded:
        _check_training(run, spec)
    credited = credit_tuples(runs, folder=folder, trust=trust)
    attempts = [attempt for run, _ in recorded for attempt in _attempts(run)]
    settings = {"runs": ",".join(sorted(directory.name for directory in credited.runs))}
    learnt = utilities(attempts)
    if not learnt:
        raise LdmError("No tuple was followed in these runs.", "Evaluate more tasks.")
    return value(credited.memory, credited.generation, learnt, settings=settings)


def _check_runs(recorded: Sequence[tuple[Run, Evaluate]]) -> None:
    """Raise LdmError unless the runs are different ones with the same memory."""
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
    """Yield the attempts of a finished run. Raises LdmError where they tell no credit."""
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
            "It is of an older version, or of an agent that does not record it: evaluate again.",
        )
    yield from attempts


def _check_training(run: Run, spec: Evaluate) -> None:
    """Raise LdmError where a run is not of a training split."""
    from ldm.envs import load_env

    known = load_env(spec.env.name).train_splits
    if spec.split not in known:
        raise LdmError(
            f"{run.directory} evaluates {spec.split}, no training split of {spec.env.name}. "
            "Pruning by its outcomes would be learning from test tasks.",
            f"Evaluate training tasks that the memory does not hold (--split {' or '.join(known)}) "
            "and name that run.",
        )
