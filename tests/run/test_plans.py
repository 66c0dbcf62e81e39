"""Optimising plans from Python: several kinds and repeats, evaluated, and taken up again."""

from __future__ import annotations

from pathlib import Path

import pytest

import ldm
from ldm.llm.service import Connection
from ldm.run.plan import OptimisedPlans
from ldm.run.runtime import Runtime
from tests.agents.washer import reply
from tests.llm.conftest import Serve, serve
from tests.llm.server import FakeServer
from tests.run.recorded import TOY

__all__ = ["serve"]

SPEC = ldm.OptimisePlan(
    TOY,
    kind="wash",
    out="plans",
    plan={"iterations": 1, "batch": 1, "pool": 2, "steps": 9},
    models={"llm": "washer"},
)
KINDS = ("fetch", "wash")


@pytest.fixture
def server(serve: Serve) -> FakeServer:
    return serve(answer=reply)


@pytest.fixture
def runtime(server: FakeServer) -> Runtime:
    return Runtime(workers=1, server=Connection(server.url))


def test_plans_of_a_grid_are_evaluated_and_a_resumed_one_returns_the_same(
    place: Path, server: FakeServer, runtime: Runtime
) -> None:
    made = ldm.optimize_plans(
        SPEC,
        ldm.PlanGrid(("each",), sweep="reflection=full,summary"),
        evaluation=ldm.PlanEvaluation("test", limit=2, curve=True),
        runtime=runtime,
    )
    kinds = [(one.spec.variant, one.plan.kind) for one in made.plans]
    assert kinds == [(f"reflection={one}", kind) for one in ("full", "summary") for kind in KINDS]
    assert made.scores is not None
    assert made.scores.variants == ["reflection=full", "reflection=summary"]
    assert made.scores.evaluation.tasks == 2
    paid = len(server.bodies)
    again = ldm.resume(made.plans[0].run.directory, runtime=runtime)
    assert isinstance(again, OptimisedPlans)
    assert len(server.bodies) == paid
    assert [one.plan for one in again.plans] == [one.plan for one in made.plans]
    assert again.scores is not None
    assert again.scores.as_json() == made.scores.as_json()
