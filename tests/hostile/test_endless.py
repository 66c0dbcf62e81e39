"""What never ends is no input: pipes and devices are refused, by whatever name they are given."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ldm import records
from ldm.llm.client import RetryPolicy
from ldm.text import check_file
from tests.cli.conftest import run
from tests.conftest import CHECKOUT
from tests.hostile.conftest import PATIENCE
from tests.hostile.small import small_memory
from tests.toy import expert_trajectories

ASKING = "eval --env tests.toy:ToyEnv --agent tests.integration.agents:Asking --llm m"
#: Every command that takes a file, with the name under which it gets it.
COMMANDS = {
    "import FILE --out out.jsonl": ("a.jsonl", "a.json"),
    "import FOLDER --out out.jsonl": ("a.jsonl", "a.json"),
    "validate FILE": ("a.jsonl", "a.jsonl.gz", "a"),
    "build-memory FILE --memory new": ("a.jsonl",),
    "memory import FILE --memory new": ("a.jsonl", "a.ldmpack", "a"),
    "memory forget --sources FILE": ("a.jsonl",),
    f"{ASKING} --replay FILE": ("llm.jsonl",),
    f"{ASKING} --models.cache FOLDER": ("a.jsonl",),
    f"{ASKING} --models.prices FILE": ("prices.json",),
    "eval --env tests.toy:ToyEnv --agent random --tasks FILE": ("ids.txt",),
    "eval --env textcraft --agent autoplan --llm m --agent.plans FOLDER": ("textcraft.json",),
    "eval --resume FOLDER": ("run.json",),
    "compare FOLDER FOLDER": ("run.json",),
    "runs show FOLDER": ("run.json",),
    "data webshop FOLDER": ("items_shuffle.json",),
    "data hotpotqa FOLDER": ("hotpot_dev_distractor_v1.json",),
}
CASES = [(command, name) for command, names in COMMANDS.items() for name in names]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_terminal(path: Path) -> None:
    path.symlink_to("/dev/ptmx")  # opening it makes one, on which nobody types


ENDLESS = (pipe, link_to_zeros, link_to_a_terminal)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_memory(tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("make", ENDLESS, ids=lambda make: make.__name__)
def test_no_command_waits_for_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    memory: Path,
    make: Callable[[Path], None],
    patience: Callable[[], object],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setattr(RetryPolicy, "wait", lambda *_: 0.0)  # nobody listens there
    shutil.copytree(memory, tmp_path / ".ldm" / "memory")
    wrong = []
    for number, (command, name) in enumerate(CASES):
        file = tmp_path / str(number) / name
        file.parent.mkdir()
        make(file)
        patience()
        words = command.replace("FILE", str(file)).replace("FOLDER", str(file.parent)).split()
        outcome = run(*words)
        left = [place for place in ("out.jsonl", "new") if Path(place).exists()]
        if outcome.code != 1 or "Error inside ldm" in outcome.err or left:
            wrong.append((command, name, outcome, left))
    assert not wrong


def test_what_ends_at_once_and_links_to_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").symlink_to("a")
    check_file(tmp_path / "b")
    check_file(Path("/dev/null"))


@pytest.mark.process
def test_what_the_shell_hands_over_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    records.write(file, expert_trajectories()[:2])
    ldm = f"{sys.executable} -m ldm validate"
    for command in (f"cat {file} | {ldm} /dev/stdin", f"{ldm} <(cat {file})"):
        done = subprocess.run(
            ["bash", "-c", command], cwd=CHECKOUT, capture_output=True, text=True, check=True
        )
        assert "2 trajectory records, ok" in done.stdout
    endless = subprocess.run(
        ["bash", "-c", f"{ldm} --schema trajectory /dev/stdin < /dev/zero"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (endless.returncode, "may never end" in endless.stdout) == (1, True)
