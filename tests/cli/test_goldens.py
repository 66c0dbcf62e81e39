"""What the main commands print and write, word for word; `--update-goldens` writes it anew.

The commands are run as users run them; nothing below the command line is named here, so that these
tests say whether a change of the code below changes what users see.
"""

import json
import shutil
from pathlib import Path

import pytest

from ldm import records
from tests.agents import cook
from tests.cli.conftest import run
from tests.cli.transcript import Transcript
from tests.conftest import CHECKOUT, Golden, work_in
from tests.llm.conftest import Serve
from tests.run.recorded import interrupt_at, only_run
from tests.toy import ToyOptions, expert_trajectories

GOLDENS = Path(__file__).parent / "goldens"
TOY = ("--env", "tests.toy:ToyEnv")
ADEPT = (*TOY, "--agent", "tests.integration.agents:Adept", "--workers", "1")
SHED = (*TOY, "--env.tasks", "10", "--env.shelves", "8")
REFINE = ("refine", *SHED, "--depth", "8", "--workers", "1")


def prepare(patch: pytest.MonkeyPatch, place: Path) -> None:
    """Work in `place`, at a terminal like any other."""
    work_in(place, patch)
    patch.setenv("COLUMNS", "100")
    patch.setenv("TERM", "dumb")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a memory of four episodes in a shed with eight shelves."""
    place = tmp_path_factory.mktemp("built")
    episodes = expert_trajectories(options=ToyOptions(tasks=4, shelves=8))
    records.write(place / "data" / "train.jsonl", episodes)
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch, place)
        assert run("build-memory", "data").code == 0
    return place


@pytest.fixture(scope="session")
def refined(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same directory with the memory refined once, without a gate as in the paper."""
    place = tmp_path_factory.mktemp("refined")
    shutil.copytree(built, place, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch, place)
        assert run(*REFINE, "--gate", "off", "--explorer", "best-first").code == 0
    return place


@pytest.fixture
def transcript(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cache_home: Path,
    golden: Golden,
) -> Transcript:
    """A transcript of commands in an empty directory, for the golden file named like the test."""
    prepare(monkeypatch, tmp_path)
    path = GOLDENS / f"{request.node.name.removeprefix('test_')}.txt"
    places = {tmp_path: "<place>", CHECKOUT: "<checkout>", cache_home: "<cache>"}
    return Transcript(golden, path, places)


def use(place: Path, transcript: Transcript) -> None:
    """Copy a prepared directory into the working directory."""
    shutil.copytree(place, Path(), dirs_exist_ok=True)
    transcript.places = {**transcript.places, place: "<place>"}


class TestMemories:
    def test_build_memory(self, transcript: Transcript, built: Path) -> None:
        shutil.copytree(built / "data", "data")
        transcript.ldm("build-memory", "data")
        transcript.ldm("build-memory", "data")
        transcript.ldm("build-memory", "data", "--rebuild", "--batch-size", "2", "--json")
        transcript.check()

    def test_memory(self, transcript: Transcript, refined: Path) -> None:
        use(refined, transcript)
        transcript.ldm("memory", "show", "--env", "toy")
        transcript.ldm("memory", "show", "--env", "toy", "--json")
        for number in ("0", "0", "1"):
            transcript.ldm("memory", "rollback", number, "--yes")
        transcript.check()


class TestEvaluations:
    def test_eval(self, transcript: Transcript) -> None:
        transcript.ldm("eval", *ADEPT, "--limit", "4")
        transcript.ldm("eval", *ADEPT, "--kinds", "wash", "--json")
        transcript.ldm("eval", *ADEPT, "--env.broken", "test/wash-1", "--agent.trials", "2")
        transcript.ldm("eval", *ADEPT, "--limit", "1", "--env.broken", "test/fetch-0", "--json")
        transcript.add_runs()
        transcript.check()

    def test_eval_interrupted(self, transcript: Transcript) -> None:
        with pytest.MonkeyPatch.context() as patch:
            interrupt_at(patch, "test/wash-3")
            transcript.ldm("eval", *ADEPT, "--limit", "4")
        run = only_run("ToyEnv")
        transcript.add(*sorted(path.name for path in run.iterdir()))
        transcript.ldm("compare", run, run)
        transcript.ldm("eval", "--resume", run, "--workers", "1")
        transcript.add_runs()
        transcript.check()

    def test_compare(self, transcript: Transcript) -> None:
        for options in ((), ("--agent.control", "none")):
            assert run("eval", *ADEPT, *options).code == 0
        first, second = only_run("ToyEnv-test-Adept-"), only_run("ToyEnv-test-Adept_control")
        transcript.ldm("compare", first, second)
        transcript.ldm("compare", second, first, "--json")
        transcript.ldm("compare", first.name, second.name)
        transcript.check()


class TestRefinements:
    def test_refine(self, transcript: Transcript, built: Path) -> None:
        use(built, transcript)
        transcript.ldm(*REFINE)
        transcript.add_runs()
        transcript.ldm(*REFINE)
        transcript.check()

    def test_runs(self, transcript: Transcript, refined: Path) -> None:
        use(refined, transcript)
        assert run("eval", *ADEPT).code == 0
        refinement = only_run("refine")
        for second, made in enumerate((refinement, only_run("ToyEnv"))):
            manifest = made / "run.json"
            values = json.loads(manifest.read_text())
            values["started"] = f"2026-01-01T00:00:0{second}+00:00"  # runs are listed by it
            manifest.write_text(json.dumps(values))
        transcript.ldm("runs", "list")
        transcript.ldm("runs", "list", "--json")
        listing = transcript.ldm("runs", "show", refinement).out.splitlines()
        improved = next(line.split()[0] for line in listing if line.strip().endswith("improved"))
        solved = next(line.split()[0] for line in listing if " 0 " in line)
        transcript.ldm("runs", "show", refinement, improved)
        transcript.ldm("runs", "show", refinement.name, solved)
        transcript.ldm("runs", "list", "--runs", "elsewhere")
        transcript.check()


def test_autoplan(transcript: Transcript, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", serve(answer=cook.reply).url)
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    brief = ("--iterations", "2", "--batch", "1", "--plan.pool", "2", "--plan.steps", "50")
    kind = (*SHORT["HEAT"][:-1], "cook", "--workers", "1")
    transcript.ldm(*kind, *brief)
    run = only_run("autoplan")
    transcript.ldm("autoplan", "--resume", run, "--json")
    transcript.ldm("autoplan", "--resume", run, "--batch", "3")
    played = ("eval", "--env", "alfworld", "--agent", "autoplan", "--kinds", "heat")
    options = ("--limit", "1", "--agent.budget", "50", "--llm", "cook", "--workers", "1")
    transcript.ldm(*played, *options, "--split", "demo_test", "--agent.plans", "plans", "--json")
    transcript.add_runs()
    transcript.check()


#: What words of goldens/errors.commands stand for, beside EVALUATED and UNLIKE, which are runs
#: with different protocols, and REFINED, a refinement.
SHORT = {
    "TOY": TOY,
    "SHED": SHED,
    "RANDOM": ("eval", *TOY, "--agent", "random"),
    "MODEL": ("eval", *TOY, "--agent", "tests.integration.agents:Asking"),
    "HEAT": ("autoplan", "--env", "alfworld", "--kind", "heat", "--llm", "m"),
}


def test_errors(transcript: Transcript, refined: Path) -> None:
    """Commands that do not fit, in a directory with a refined memory: they leave nothing."""
    use(refined, transcript)
    evaluation = (*SHORT["RANDOM"], "--workers", "1", "--seed", "7")
    assert run(*evaluation, "--limit", "2").code == 0
    assert run(*evaluation, "--env.dialect", "old", "--runs", "others").code == 0
    (unlike,) = Path("others").iterdir()
    runs = {"EVALUATED": only_run("ToyEnv"), "UNLIKE": unlike, "REFINED": only_run("refine")}
    meant: dict[str, tuple[object, ...]] = {**SHORT, **{name: (run,) for name, run in runs.items()}}
    before = sorted(Path().rglob("*"))
    for line in (GOLDENS / "errors.commands").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            transcript.ldm(*(part for word in line.split() for part in meant.get(word, (word,))))
    assert sorted(Path().rglob("*")) == before
    transcript.check()
