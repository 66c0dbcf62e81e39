"""Credit: for each tuple how often it was recalled and followed, and what came of it.

What is counted are attempts: an episode with one trial is one attempt, and each process of an agent
that plays several is one by itself, with the score that it earned. Nothing here is causal: a tuple
that is followed where tasks are hard anyway looks harmful. `ldm eval --without-tuples ID` tells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

from ldm.errors import LdmError
from ldm.memory import IndexedTuple
from ldm.memory.utility import PRIOR
from ldm.types import EpisodeResult, Trajectory

#: Figures are rounded, so that the last bits of a sum decide no order.
DECIMALS = 9
COLUMNS = (
    *("tuple", "recalled", "in", "followed", "in", "score", "without", "harm", "own"),
    *("goal", "observation", "action"),
)
#: Characters of goal and observation in a table.
SHOWN = 40


@dataclass(frozen=True, slots=True)
class Credit:
    """What became of one tuple.

    tuple_id: the tuple's id.
    recalled, recalled_in: steps that recalled it, and in how many attempts.
    followed, followed_in: steps whose action follows it (`Step.followed`), and in how many of them.
    score: mean score of the attempts that followed it; None where none did.
    without: the mean score of attempts at the same kinds of task that did not follow it, each kind
        with the weight that it has among those that did; None where there is nothing to compare.
    others: how many such attempts there were.
    harm: how much less than that those that followed it earned, all together; below 0 they earned
        more. An attempt whose kind has none without the tuple counts as 0.
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
    """A tuple in its cell, and what became of it."""

    credit: Credit
    row: IndexedTuple

    def as_data(self) -> dict[str, Any]:
        """Return JSON values; `outcome` is what the tuple's own trajectory earned."""
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


@dataclass(frozen=True, slots=True)
class PruneOptions:
    """Which tuples are dropped.

    min_followed: those followed in at least so many attempts, with as many others beside them,
    max_score: that earned no more than this on average, and less than the others.
    """

    min_followed: int = 3
    max_score: float = 0.5

    def __post_init__(self) -> None:
        if self.min_followed < 1 or not 0 <= self.max_score <= 1:
            raise LdmError(
                "--min-followed must be 1 or more, and --max-score from 0 to 1.",
                "Change them; in Python, min_followed and max_score.",
            )

    def drops(self, credit: Credit) -> bool:
        """Return whether a tuple of this credit is dropped."""
        if credit.score is None or min(credit.followed_in, credit.others) < self.min_followed:
            return False
        return credit.score <= self.max_score and credit.harm > 0


def counted(
    results: Iterable[EpisodeResult], trajectories: Iterable[Trajectory]
) -> Iterator[Trajectory]:
    """Yield the attempts of a run's episodes, without those of episodes that ended in an error.

    results, trajectories: as recorded, each episode's trials side by side.
    """
    attempts = iter(trajectories)
    for result in results:
        trials = [next(attempts) for _ in range(result.trials)]
        if result.end != "error":
            yield from trials


def tuple_credits(attempts: Sequence[Trajectory]) -> list[Credit]:
    """Return the credit of each tuple that was recalled, the most harmful first.

    Raises ValueError where a step with recalls does not tell which were followed.
    """
    recalled, recalled_in = Counter[str](), Counter[str]()
    followed = Counter[str]()
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


def utilities(attempts: Sequence[Trajectory]) -> dict[str, float]:
    """Return what following each tuple gained: its Q of MemRL (arXiv 2601.03192), in [-1, 1].

    A tuple starts with 0. Each attempt that follows it moves it towards the attempt's reward, its
    score less the mean of all attempts at such tasks, at the rate 1 / (PRIOR + n) for the n-th:
    unlike a fixed rate this does not depend on the order of the attempts.

    Raises ValueError as `tuple_credits`.
    """
    kinds: dict[str, list[float]] = defaultdict(list)
    for attempt in attempts:
        kinds[attempt.task.kind].append(attempt.score)
    means = {kind: fsum(scores) / len(scores) for kind, scores in kinds.items()}
    gains: dict[str, list[float]] = defaultdict(list)
    for attempt in attempts:
        for tuple_id in _uses(attempt)[1]:
            gains[tuple_id].append(attempt.score - means[attempt.task.kind])
    return {
        tuple_id: round(fsum(gains[tuple_id]) / (PRIOR + len(gains[tuple_id])), 6) + 0.0
        for tuple_id in sorted(gains)
    }


def _uses(attempt: Trajectory) -> tuple[Counter[str], Counter[str]]:
    """Return in how many steps each tuple was recalled, and in how many it was followed."""
    recalled, followed = Counter[str](), Counter[str]()
    for step in attempt.steps:
        if not step.recalls:
            continue
        if step.followed is None:
            raise ValueError("the steps do not tell which recalls were followed")
        recalled.update({tuple_id for tuple_id, _ in step.recalls})
        followed.update({step.recalls[place][0] for place in step.followed})
    return recalled, followed


def _compared(
    scores: Mapping[str, Sequence[float]], kinds: Mapping[str, Sequence[float]]
) -> tuple[float | None, float | None, int, float]:
    """Return (score, without, others, harm) of a tuple.

    scores: kind → the scores of the attempts that followed it. kinds: the same of all attempts.
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
