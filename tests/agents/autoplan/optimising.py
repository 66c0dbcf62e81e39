"""An optimisation of a plan in a run, as the engine carries it out."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ldm.agents.autoplan.optimiser import AttemptSetup, AutoPlanSettings, Collector, Optimisation
from ldm.agents.autoplan.plans import Experience, Iteration
from ldm.run.engine import Session
from ldm.runs import Run
from ldm.types import Task


def optimise(
    run: Run, build: Callable[[], AttemptSetup], pool: Sequence[Task], settings: AutoPlanSettings
) -> tuple[str, list[Iteration]]:
    """Return the last plan and how it came about."""

    def setup() -> AttemptSetup:
        return replace(build(), settings=settings)

    with Session(run, setup, 1, "threads").working() as session:
        state = Optimisation(session.setup(), tuple(pool), settings.iterations)
        session.map(Collector, state.turns, Experience, lambda _: None)
    return state.plan, state.iterations
