"""Tasks on a Ray cluster: the same records, whatever becomes of its nodes."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.integration.crash import LDM, ROOT, evaluation
from tests.integration.ray_nodes import LOOPBACK, Nodes, environment, two_nodes

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]

TASKS = 24


def command(place: Path, *options: str) -> list[str]:
    """Return an evaluation of 24 tasks of the noting shed, recorded below `place`."""
    return [
        *(*LDM, "eval", "--env", "tests.integration.ray_nodes:NotingEnv", "--agent", "random"),
        *("--env.tasks", f"{TASKS}", "--env.delay", "0.02", "--agent.budget", "20"),
        *("--env.log", f"{place}.log", "--runs", str(place), *options),
    ]


def noted(place: Path) -> list[tuple[str, str]]:
    """Return the task and the process of every episode that began."""
    log = Path(f"{place}.log")
    lines = log.read_text().splitlines() if log.is_file() else []
    return [(line.split()[0], line.split()[1]) for line in lines]


def begun(place: Path) -> Counter[str]:
    """Return how often an episode of each task began."""
    return Counter(task for task, _ in noted(place))


def makers(place: Path) -> set[str]:
    """Return the processes that played."""
    return {process for _, process in noted(place)}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What comes of the evaluation in this machine's processes."""
    place = tmp_path_factory.mktemp("here")
    command_here = command(place / "runs", "--workers", "2")
    subprocess.check_output(command_here, cwd=ROOT, env=environment(place))
    return evaluation().digest(place / "runs")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with two_nodes(tmp_path) as running:
        yield running


def test_two_nodes_record_what_this_machine_records_and_a_killed_one_loses_no_episode(
    nodes: Nodes, here: str, tmp_path: Path
) -> None:
    surroundings = {**nodes.environment, "RAY_ADDRESS": nodes.address}
    place = tmp_path / "killed"
    streams: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    clustered = command(place, "--backend", "ray")
    process = subprocess.Popen(clustered, cwd=ROOT, env=surroundings, **streams)
    # By default there is an actor for each processor: one on each node.
    while process.poll() is None and (len(noted(place)) < 6 or len(makers(place)) < 2):
        time.sleep(0.01)
    assert len(makers(place)) == 2
    assert set(begun(place).values()) == {1}
    nodes.kill_one()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert evaluation().digest(place) == here
    times = begun(place)
    assert len(times) == TASKS
    assert sum(times.values()) <= TASKS + 1  # the one that it was at, if any, was given out again


def test_a_ray_that_the_map_starts_listens_on_loopback_alone_and_brings_back_what_fails(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "tests.integration.ray_nodes", "local"]
    printed = subprocess.check_output(command, cwd=ROOT, env=environment(home))
    outcome: dict[str, Any] = json.loads(printed)  # and Ray prints nothing
    assert outcome["values"] == [(index + 10) ** 2 for index in range(12)]
    assert outcome["elsewhere"]
    assert outcome["makers"] in (1, 2)  # a quick one may be done before the other begins
    assert outcome["listening"]
    assert {*outcome["listening"]} <= {*LOOPBACK}
    assert not list(home.rglob("*token*"))
    raised, died = outcome["errors"]
    assert raised == "LdmError: Seven is refused. Use eight."
    assert died.startswith("WorkerDied: 3 workers of the Ray cluster died at the same item")
