"""Credit: how often each tuple was recalled and followed, and with what outcome.

Attempts are counted: each trial of an episode is one, with its score. Credit is not causal: a tuple
that is followed in hard tasks looks harmful. `ldm eval --without-tuples ID` measures the effect.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.config import Evaluate
from ldm.errors import LdmError
from ldm.memory import IndexedTuple
from ldm.run.engine import recorded_spec
from ldm.types import EpisodeResult, Trajectory

if TYPE_CHECKING:
    from ldm.memory import Generation
    from ldm.runs import Run

#: Figures are rounded, so that the last bits of a sum decide nothing.
DECIMALS = 9
COLUMNS = (
    *("tuple", "recalled", "in", "followed", "in", "score", "without", "harm", "own"),
    *("goal", "observation", "action"),
)
#: Characters of goal and observation in a table.
SHOWN = 40


@dataclass(frozen=True, slots=True)
class Credit:
    """The credit of one tuple.

    tuple_id: the tuple's id.
    recalled, recalled_in: the number of steps that recalled it, and of attempts with such a step.
    followed, followed_in: the same of steps whose action follows it (`Step.followed`).
    score: mean score of the attempts that followed it; None if there are none.
    without: mean score of the attempts at the same kinds of task that did not follow it, kinds
        weighted as among those that did; None if there are none.
    others: the number of such attempts.
    harm: the total score that attempts following it lost against the others of their kind; negative
        if they gained. An attempt without others of its kind counts as 0.
    """

    tuple_id: str
    recalled: int
    recalled_in: int
    followed: int
    followed_in: int
    score: float | None
    without: float | None
    others: int
    harm: float


@dataclass(frozen=True, slots=True)
class CreditedTuple:
    """A tuple in its cell, and its credit."""

    credit: Credit
    row: IndexedTuple

    def as_data(self) -> dict[str, Any]:
        """Return JSON values; `outcome` is that of the tuple's own trajectory."""
        source = self.row.tuple
        return {
            **asdict(self.credit),
            "outcome": asdict(source.outcome) if source.outcome else None,
            "trajectory": source.trajectory_id,
            "generation": source.generation,
            "goal": source.goal,
            "observation": source.observation,
            "action": source.action,
        }

    def as_row(self) -> tuple[str, ...]:
        """Return the cells of a table with COLUMNS."""
        one, source = self.credit, self.row.tuple
        counts = (one.recalled, one.recalled_in, one.followed, one.followed_in)
        texts = (" ".join(text.split())[:SHOWN] for text in (source.goal, source.observation))
        own = source.outcome.score if source.outcome else None
        values = (one.score, one.without, one.harm, own)
        figures = ("–" if value is None else f"{value:.2f}" for value in values)
        return (one.tuple_id, *map(str, counts), *figures, *texts, source.action)


def counted(
    results: Iterable[EpisodeResult], trajectories: Iterable[Trajectory]
) -> Iterator[Trajectory]:
    """Yield the attempts of episodes that did not end in an error.

    results, trajectories: as recorded, the trials of each episode side by side.
    """
    attempts = iter(trajectories)
    for result in results:
        trials = [next(attempts) for _ in range(result.trials)]
        if result.end != "error":
            yield from trials


def tuple_credits(attempts: Sequence[Trajectory]) -> list[Credit]:
    """Return the credit of each recalled tuple, the most harmful first."""
    recalled, recalled_in, followed = Counter[str](), Counter[str](), Counter[str]()
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    kinds: dict[str, list[float]] = defaultdict(list)
    for attempt in attempts:
        kind = attempt.task.kind
        kinds[kind].append(attempt.score)
        mine, followed_here = _uses(attempt)
        recalled += mine
        recalled_in.update(mine.keys())
        followed += followed_here
        for tuple_id in followed_here:
            scores[tuple_id][kind].append(attempt.score)
    credited = [
        Credit(
            tuple_id,
            recalled[tuple_id],
            recalled_in[tuple_id],
            followed[tuple_id],
            sum(map(len, scores[tuple_id].values())),
            *_compared(scores[tuple_id], kinds),
        )
        for tuple_id in recalled
    ]
    return sorted(credited, key=lambda c: (-c.harm, -c.followed_in, -c.recalled, c.tuple_id))


def _uses(attempt: Trajectory) -> tuple[Counter[str], Counter[str]]:
    """Return the number of steps that recalled, and that followed, each tuple."""
    recalled, followed = Counter[str](), Counter[str]()
    for step in attempt.steps:
        recalled.update({tuple_id for tuple_id, _ in step.recalls})
        followed.update({step.recalls[place][0] for place in step.followed or ()})
    return recalled, followed


def _compared(
    scores: Mapping[str, Sequence[float]], kinds: Mapping[str, Sequence[float]]
) -> tuple[float | None, float | None, int, float]:
    """Return (score, without, others, harm) of a tuple.

    scores: the scores of the attempts that followed it, by kind. kinds: those of all attempts.
    """
    mine = [score for part in scores.values() for score in part]
    if not mine:
        return None, None, 0, 0.0
    score = round(fsum(mine) / len(mine), DECIMALS)
    expected: list[float] = []
    losses: list[float] = []
    others = 0
    for kind, part in scores.items():
        number = len(kinds[kind]) - len(part)
        others += number
        if number:
            mean = (fsum(kinds[kind]) - fsum(part)) / number
            expected += [mean] * len(part)
            losses += [mean - one for one in part]
    if not expected:
        return score, None, 0, 0.0
    without = round(fsum(expected) / len(expected), DECIMALS)
    return score, without, others, round(fsum(losses), DECIMALS) + 0.0


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


def credit_tuples(
    runs: Sequence[str | Path], *, folder: Path = Path("runs"), trust: bool = False
) -> Credited:
    """Return the credit of a memory's tuples in finished evaluations with it.

    runs: directories, or ids below `folder`. trust: as for `ldm.compare`.
    Raises LdmError if a run is not a finished evaluation with a memory, does not record which
    tuples were followed, has another memory than the first, or the memory has changed.
    """
    from ldm.memory import inspect

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
    from ldm.run.runner import TRAJECTORIES, results

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
