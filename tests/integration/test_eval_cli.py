"""`ldm eval` as users meet it: what it prints, records, resumes and refuses."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ldm import records
from ldm.memory import build
from ldm.reason.offline import OfflineReasoner
from ldm.types import Trajectory
from tests.agents.loop_contract import RECIPES
from tests.cli.conftest import run
from tests.conftest import CHECKOUT, announce
from tests.embedder import BagOfWords
from tests.integration.crash import LDM, ROOT
from tests.run.recorded import only_run
from tests.toy import expert_trajectories

pytestmark = pytest.mark.usefixtures("place")
TOY = ("--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "1", "--agent.budget", "20")
ADEPT = ("--env", "tests.toy:ToyEnv", "--workers", "1", "--agent", "tests.integration.agents:Adept")


def test_limit_kinds_and_tasks_narrow_it_down(place: Path) -> None:
    Path("ids").write_text("# chosen\ntest/wash-1\n\ntest/fetch-2\n")
    for options, count in [
        (("--limit", 4), 4),
        (("--kinds", "wash"), 6),
        (("--kinds", "wash,fetch", "--limit", 3), 3),
        (("--tasks", "test/wash-1, test/fetch-2"), 2),
        (("--tasks", "ids"), 2),
        (("--split", "train", "--set", "env.tasks=5"), 5),  # as the shared scripts give it
    ]:
        agent = ("--agent", "random") if "train" in options else ()
        outcome = run("eval", *ADEPT, *agent, *options, "--json")
        assert json.loads(outcome.out)["episodes"] == count, outcome.err


def test_data_named_by_the_environment_are_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("textworld")
    monkeypatch.setenv("ALFWORLD_DATA", "elsewhere")
    run("eval", "--env", "alfworld", "--agent", "random").refused(str(Path("elsewhere")))


@pytest.mark.process
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_go_on_and_does(
    stop: signal.Signals, workers: str, place: Path
) -> None:
    slow = (*TOY, "--env.delay", "0.02", "--workers", workers)
    with subprocess.Popen(
        [*LDM, "eval", *slow],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            limit = time.monotonic() + 60
            # A hidden directory is a run in the making: it is renamed under the reader's feet.
            while not list(place.glob("runs/[!.]*/parts/*")) and time.monotonic() < limit:
                time.sleep(0.01)
            os.killpg(process.pid, stop)
            _, stderr = process.communicate(timeout=60)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 130, stderr
    assert "Stopped: " in stderr
    assert "Traceback" not in stderr
    resume = stderr.split("Resume with `ldm ")[1].split("`")[0].split()
    outcome = run(*resume, "--json", "--workers", "1")
    assert json.loads(outcome.out)["episodes"] == 12


def test_controls_are_in_the_json_object_and_come_back_when_it_is_resumed() -> None:
    report = json.loads(run("eval", *ADEPT, "--control", "random", "--json").out)
    assert report["control"]["success_rate"] == 0.0
    again = json.loads(run("eval", "--resume", report["run"], "--json").out)
    assert again == report


class TestMemories:
    MINDFUL = (*ADEPT[:-1], "tests.integration.agents:Mindful")

    @pytest.fixture(autouse=True)
    def remembering(self, place: Path) -> None:
        build(".ldm/memory", expert_trajectories(), BagOfWords(), OfflineReasoner)

    def test_the_generation_that_was_evaluated_is_recorded(self, place: Path) -> None:
        assert run("eval", *self.MINDFUL).code == 0
        values = json.loads((only_run() / "run.json").read_text())
        assert values["spec"]["generation"] == 0
        assert values["models"] == {"embedder": "bag-of-words"}

    def test_without_an_environment_every_one_with_a_memory_is_evaluated(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        announce(monkeypatch, "ldm.envs", toy="tests.toy:ToyEnv")
        outcome = run("eval", "--agent", "random", "--workers", "1", "--json")
        assert json.loads(outcome.out)["env"] == "toy"


@RECIPES
@pytest.mark.slow
@pytest.mark.parametrize("moved", [False, True])
def test_refinement_explores_no_item_that_was_evaluated_from_a_list(
    moved: bool, shared_data: Path
) -> None:
    shutil.copy(shared_data / "textcraft" / "adapt_test_200.jsonl", "adapt.jsonl")  # ADaPT's
    shipped = CHECKOUT / "data" / "trajectories" / "textcraft" / "train.jsonl.gz"
    records.write(Path("some.jsonl"), records.read(shipped, Trajectory)[::20])
    assert run("build-memory", "some.jsonl").code == 0
    quitter = ("--agent", "tests.integration.agents:Quitter", "--workers", "1")
    run(
        "eval", "--env", "textcraft", *quitter, "--env.tasks", "adapt.jsonl", "--split", "stored"
    ).done()
    options = ["--limit", "1", "--depth", "1", "--workers", "1"]
    if moved:
        Path("adapt.jsonl").rename("moved.jsonl")
        options += ["--env.tasks", "moved.jsonl"]
    assert (
        "Skipping 101 goals of train, evaluated before"
        in run("refine", "--env", "textcraft", *options).done().err
    )
