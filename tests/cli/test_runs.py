"""`ldm runs list`, and what the shell completes, as users meet them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ldm.runs import open_run
from tests.cli.conftest import Run
from tests.embedder import BagOfWords

TOY = ("eval", "--env", "tests.toy:ToyEnv", "--workers", "1")
RANDOM = (*TOY, "--agent", "random", "--agent.budget", "4")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory; nothing loads a real model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords(name or "words"))
    return tmp_path


def played(run: Run, *args: object) -> Path:
    """The directory of an evaluation that is run now."""
    outcome = run(*args, "--json").done()
    return Path(json.loads(outcome.out)["run"])


class TestListing:
    def test_says_what_each_run_is_and_what_it_came_to(self, run: Run, place: Path) -> None:
        directory = played(run, *RANDOM, "--limit", "2")
        (entry,) = json.loads(run("runs", "list", "--json").out)["runs"]
        assert (entry["id"], entry["command"], entry["agent"]) == (directory.name, "eval", "random")
        assert (entry["state"], entry["tasks"], entry["recorded"]) == ("finished", 2, 2)
        rate = json.loads((directory / "summary.json").read_text())["overall"]["success_rate"]
        assert entry["score"] == rate
        listing = run("runs", "list").out
        for word in ("random", "ToyEnv", "finished", f"{100 * rate:.1f} %", directory.name):
            assert word in listing

    def test_of_stopped_and_running_ones_says_how_far_they_are(self, run: Run, place: Path) -> None:
        directory = played(run, *RANDOM, "--limit", "3")
        (directory / "episodes.jsonl").unlink()
        (directory / "parts").mkdir()
        (directory / "parts" / "a.jsonl").write_text('{"index":0,"x":1}\n{"index":2}\n{"ind')
        (entry,) = json.loads(run("runs", "list", "--json").out)["runs"]
        assert (entry["state"], entry["recorded"], entry["tasks"]) == ("stopped", 2, 3)
        with open_run(str(directory), place).lock():
            (entry,) = json.loads(run("runs", "list", "--json").out)["runs"]
            assert entry["state"] == "running"


class TestCompletion:
    def completed(self, words: str) -> list[str]:
        """What the shell offers after these words, and what was imported for it."""
        program = "import atexit, sys, ldm.cli.app as a\n"
        program += "atexit.register(lambda: print('heavy', {'torch', 'chromadb'} & {*sys.modules}))"
        program += "\nsys.argv = ['ldm']; a.main()"
        environment = {
            **os.environ,
            "_LDM_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        *names, heavy = done.stdout.splitlines()
        assert heavy == "heavy set()"
        return names

    @pytest.mark.parametrize(
        ("words", "names"),
        [
            ("ldm eval --env tex", ["textcraft"]),
            ("ldm eval --agent random,nai", ["random,naive"]),
            ("ldm eval --env alfworld --split demo_t", ["demo_test", "demo_train"]),
            ("ldm eval --env alfworld --kinds hea", ["heat"]),
            ("ldm eval --env nowhere --split demo_t", [""]),
        ],
    )
    def test_knows_values(self, words: str, names: list[str]) -> None:
        assert self.completed(words) == names

    def test_knows_runs(self, run: Run) -> None:
        directory = played(run, *RANDOM, "--limit", "1")
        assert self.completed("ldm runs show runs/Toy") == [str(directory)]
