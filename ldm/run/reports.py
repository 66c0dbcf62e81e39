"""From recorded runs to reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ldm.run.builders import agent_of
from ldm.run.fairness import conditions_of
from ldm.run.grid import label
from ldm.run.specs import EvaluationSpec

if TYPE_CHECKING:
    from ldm.run.results import Report
    from ldm.runs import Run
    from ldm.types import EpisodeResult


def report_of(
    runs: Sequence[tuple[Run, EvaluationSpec]], outcomes: Sequence[Sequence[EpisodeResult]]
) -> Report:
    """Return what is shown of finished runs that are repeats of the same."""
    from ldm.run.results import Report
    from ldm.run.statistics import summarize

    run, spec = runs[0]
    reporting = agent_of(spec).reporting
    results = [result for outcome in outcomes for result in outcome]
    return Report(
        env=spec.env,
        split=spec.split,
        label=label(spec),
        sees_reward=agent_of(spec).sees_reward,
        directory=run.directory,
        summary=summarize(results, seed=spec.seed, reporting=reporting),
        results=tuple(results),
        reporting=reporting,
        conditions=conditions_of(spec, run),
        directories=tuple(one.directory for one, _ in runs),
        seed=spec.seed,
    )
