"""Runs for reports, all toys: a memory agent, a control, a refinement, an agent that divides tasks,
and an optimisation of plans.

They are recorded once a session, in a directory of their own.
"""

import base64
import gzip
import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import ldm
from ldm import records
from ldm.config import Evaluate, Refine
from ldm.llm.service import Connection
from ldm.report import write_report
from ldm.run.grid import Grid
from ldm.run.runtime import Runtime
from tests.agents import washer
from tests.cli.test_adapt import IDS, reply
from tests.conftest import work_in
from tests.llm.server import Behaviour, FakeServer
from tests.toy import ToyOptions, expert_trajectories

TOY = "tests.toy:ToyEnv"
SHED = {"tasks": 10, "shelves": 5}
BUDGET = {"budget": 12}
CHUNK = re.compile(r'<script type="text/plain" id="([\w-]+)">([A-Za-z0-9+/=]*)</script>')


def chunks(file: Path) -> dict[str, Any]:
    """The data of a report by name, unpacked."""
    return {
        name: json.loads(gzip.decompress(base64.b64decode(packed)))
        for name, packed in CHUNK.findall(file.read_text("utf-8"))
    }


@dataclass(frozen=True)
class Recorded:
    """Directories of runs. earlier, later: of the memory agent, with its generations 0 and 1."""

    earlier: Path
    later: Path
    control: Path
    refinement: Path
    divided: Path
    plans: Path

    @property
    def all(self) -> list[Path]:
        return [self.earlier, self.later, self.control, self.refinement, self.divided, self.plans]

    @cached_property
    def page(self) -> Path:
        """The report on all of them."""
        return write_report(self.all, self.earlier.parents[1] / "report.html", trust=True)

    @cached_property
    def data(self) -> dict[str, Any]:
        """What that report holds."""
        return chunks(self.page)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    place = tmp_path_factory.mktemp("reported")
    known = expert_trajectories(options=ToyOptions(tasks=2))
    records.write(place / "data" / "train.jsonl", known)
    with pytest.MonkeyPatch.context() as patch:  # for as long as it takes to record them
        return _recorded(work_in(place, patch))


def _recorded(place: Path) -> Recorded:
    memory, runtime = str(place / "memory"), Runtime(runs=place / "runs", workers=1)
    ldm.build_memory(place / "data", memory)
    refined = ldm.refine(
        Refine(
            {"name": TOY, "tasks": 10, "shelves": 20}, memory=memory, search={"depth": 12}, limit=4
        ),
        runtime=runtime,
    )
    spec = Evaluate(
        {"name": TOY, **SHED}, limit=6, memory=memory, generation=0, agent={"name": "ldm", **BUDGET}
    )
    earlier, later = ldm.evaluate_all(spec, Grid(generations=(None,)), runtime=runtime)
    control = ldm.evaluate(
        Evaluate({"name": TOY, **SHED}, agent={"name": "random", **BUDGET}, limit=6),
        runtime=runtime,
    )
    with FakeServer(Behaviour(answer=reply)) as server:
        divided = ldm.evaluate(
            Evaluate(TOY, agent="adapt", tasks=tuple(IDS), models={"llm": "fake"}),
            runtime=Runtime(runs=place / "runs", workers=1, server=Connection(server.url, "", 5.0)),
        )
    return Recorded(
        earlier.directory,
        later.directory,
        control.directory,
        refined.run.directory,
        divided.directory,
        _optimised(place),
    )


def _optimised(place: Path) -> Path:
    spec = ldm.OptimisePlan(
        TOY,
        kind="wash",
        out=str(place / "plans"),
        plan={"iterations": 2, "batch": 2, "pool": 4, "steps": 9},
    )
    with FakeServer(Behaviour(answer=washer.reply)) as server:
        runtime = Runtime(runs=place / "runs", workers=1, server=Connection(server.url, "", 5.0))
        made = ldm.optimize_plan(replace(spec, models={"llm": "washer"}), runtime=runtime)
    return made.run.directory
