"""Code that nobody asked for does not run: neither what lies about nor what a file names."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ldm import records, registry
from ldm.agents import load_agent
from ldm.envs.metadata import batch_size
from ldm.errors import LdmError
from tests.cli.conftest import run
from tests.conftest import CHECKOUT
from tests.test_types import TRAJECTORY

#: Modules that libraries look for and that are not always installed.
PROBED = {
    *("brotli", "cchardet", "chardet", "dotenv", "h2", "jax", "lz4", "numpy", "orjson", "pandas"),
    *("psutil", "pyarrow", "sentry_sdk", "setproctitle", "simplejson", "sitecustomize", "socks"),
    *("tensorflow", "torch", "ujson", "usercustomize", "uvloop", "yaml", "zstandard"),
}
#: A module that leaves a mark where it is imported.
PLANTED = "import pathlib\npathlib.Path({mark!r}).write_text(__name__ + '\\n')\n"
#: Whatever a command imports is looked for at its first import: one process can run them all.
ALL_IN_ONE = """\
import sys
from ldm.cli.app import main
for command in sys.argv[1:]:
    sys.argv = ["ldm", *command.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
"""
AGENT = PLANTED + "from ldm.agents.random import RandomAgent as Agent\n"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that planted modules write to."""
    return tmp_path / "mark"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory for commands, and a process in which no module was named yet."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry, "_named", set())
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith(("hired", "planted")):
            del sys.modules[name]


def hire(place: Path, mark: Path, name: str = "hired") -> str:
    """Write a module with an agent; return the agent's name."""
    (place / f"{name}.py").write_text(AGENT.format(mark=str(mark)))
    return f"{name}:Agent"


def recorded(place: Path, agent: str) -> str:
    """Evaluate with an installed agent, and let the record name another one; return the run."""
    words = "eval --env alfworld --split demo_test --agent random --limit 1 --workers 1"
    run(*words.split(" ")).done()
    (manifest,) = place.glob("runs/*/run.json")
    content = json.loads(manifest.read_text())
    content["spec"]["agent"] = agent
    manifest.write_text(json.dumps(content))
    return str(manifest.parent)


@pytest.mark.process
@pytest.mark.slow
def test_no_command_imports_what_lies_in_the_working_directory(place: Path, mark: Path) -> None:
    for name in PROBED | sys.stdlib_module_names:
        text = PLANTED.format(mark=str(mark)) + "raise ImportError\n"
        (place / f"{name}.py").write_text(text)
    (place / ".env").write_text("CHROMA_API_IMPL=planted.Implementation\n")
    evaluation = "eval --env alfworld --split demo_test --limit 2 --workers 2 --agent"
    episodes = CHECKOUT / "data/trajectories/alfworld"
    commands = (
        f"build-memory {episodes} --per-kind 1",
        "memory show",
        "memory verify",
        f"{evaluation} ldm",
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", ALL_IN_ONE, *commands],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()


def test_a_module_that_the_user_names_is_found_there(place: Path, mark: Path) -> None:
    path = list(sys.path)
    assert load_agent(hire(place, mark)).name == "random"
    assert mark.read_text() == "hired\n"
    assert sys.path == path


@pytest.mark.parametrize("command", ["compare RUN RUN", "eval --resume RUN"])
def test_a_module_that_a_run_names_is_imported_only_where_the_user_trusts_it(
    place: Path, mark: Path, command: str
) -> None:
    words = command.replace("RUN", recorded(place, hire(place, mark))).split()
    run(*words).refused("names the agent 'hired:Agent', which is not registered", "--trust")
    assert not mark.exists()
    run(*words, "--trust").done()
    assert mark.exists()


def test_the_environment_that_trajectories_name_is_not_imported(place: Path, mark: Path) -> None:
    env = hire(place, mark, "planted")
    hostile = replace(TRAJECTORY, task=replace(TRAJECTORY.task, env=env), score=1.0)
    records.write(place / "a.jsonl", [hostile])
    run("build-memory", "a.jsonl").done()
    assert batch_size(env) == 50
    for command in ("eval", "refine", "memory show"):
        outcome = run(*command.split())
        assert command == "memory show" or "is not registered" in outcome.err
    assert not mark.exists()


def test_a_registered_target_may_be_recorded_in_full() -> None:
    name = "ldm.agents.random:RandomAgent"
    assert load_agent(name, recorded=True).name == "random"
    with pytest.raises(LdmError, match="not registered"):
        load_agent("os:system", recorded=True)


def test_actions_are_pinned_by_digest() -> None:
    workflows = (CHECKOUT / ".github").rglob("*.y*ml")
    uses = [u for file in workflows for u in re.findall(r"uses:\s*(.*)", file.read_text())]
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action.strip()), action
