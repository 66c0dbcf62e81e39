"""Verdicts of a model judge on a run: what they say beside its scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ldm.run.statistics import Interval, rate_interval
from ldm.runs import Run
from ldm.types import Answer

#: In the directory of the run that is judged: the verdicts.
JUDGED = "judged.jsonl"

By = Literal["success", "model judge", "no answer", "unusable reply"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one episode: whether its answer means the same as the right one.

    answer: None where none was given. success: in the environment. by: how the verdict came about;
    what succeeded is the same without a call, and without an answer, or a usable reply, nothing is.
    model: the judge.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    task: str
    answer: Answer | None
    success: bool
    same: bool
    by: By
    model: str


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """All verdicts on a run."""

    run: Run
    model: str
    verdicts: tuple[Judged, ...]

    @property
    def rate(self) -> float:
        """The share of answers that mean the same as the right ones."""
        return sum(one.same for one in self.verdicts) / len(self.verdicts)

    @property
    def success_rate(self) -> float:
        return sum(one.success for one in self.verdicts) / len(self.verdicts)

    @property
    def agreement(self) -> float:
        """The share of episodes where verdict and success agree."""
        return sum(one.same == one.success for one in self.verdicts) / len(self.verdicts)

    def counts(self) -> Mapping[str, int]:
        """Return how the verdicts came about."""
        return Counter(one.by for one in self.verdicts)

    def intervals(self) -> tuple[Interval, Interval]:
        """Return the 95 % intervals of the success rate and of the judge's."""
        seed = self.run.manifest.seeds.get("seed", 0)
        outcomes = zip(*((one.success, one.same) for one in self.verdicts), strict=True)
        success, same = (
            rate_interval([float(x) for x in values], seed=seed) for values in outcomes
        )
        return success, same

    def lines(self) -> Iterator[str]:
        """Yield what to know beside the rates."""
        more = sum(one.same and not one.success for one in self.verdicts)
        count, by = len(self.verdicts), self.counts()
        yield (
            f"Agreement on {round(self.agreement * count)} of {count} "
            f"({100 * self.agreement:.1f} %): the model judge accepts {more} further answers."
        )
        yield (
            f"{by.get('model judge', 0)} answers were put to {self.model}; "
            f"{by.get('success', 0)} succeeded and count as the same without a call, "
            f"{by.get('no answer', 0)} episodes gave no answer."
        )
        if unusable := by.get("unusable reply", 0):
            yield f"{unusable} replies could not be used and count as not the same."
        yield "A model judge is not the human judgement that papers report."
        yield f"Verdicts: {self.run.directory / JUDGED}"

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; rates in [0, 1]."""
        success, same = self.intervals()
        return {
            "run": str(self.run.directory),
            "model_judge": self.model,
            "episodes": len(self.verdicts),
            "success_rate": self.success_rate,
            "interval": success,
            "judged_rate": self.rate,
            "judged_interval": same,
            "agreement": self.agreement,
            "by": dict(self.counts()),
        }
