"""Whatever happens, the user gets a plain message, a remedy and the right exit status."""

import errno
import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from ldm import __version__
from ldm.cli import app as module
from ldm.errors import Interrupted, LdmError
from tests.cli.conftest import run
from tests.conftest import CHECKOUT
from tests.processes import printed

HEAVY = {"torch", "sentence_transformers", "chromadb", "sklearn", "spacy", "textworld", "polars"}


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let every command raise `error`."""

    def broken(**_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(module, "app", broken)


def test_version_is_printed() -> None:
    assert run("--version").out == f"ldm {__version__}\n"


def test_help_shows_examples_as_they_are_written() -> None:
    run("--help").done("\n    ldm doctor ")
    assert not any("completion" in run(group, "--help").out for group in ("llm", "memory", "runs"))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LdmError("The lamp is out.", "Light it."), "Error: The lamp is out.\nLight it.\n"),
        (MemoryError(), "Error: there is not enough memory.\n"),
        (OSError(errno.ENOSPC, "No space left on device", "a.jsonl"), "disk is full while writing"),
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full.\n"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), "Permission denied: 'x'"),
        (ImportError("No module named 'textworld'"), "`ldm doctor`"),
        (TypeError("three"), "Error inside ldm: TypeError: three\nRun it again with LDM_DEBUG=1"),
    ],
)
def test_errors_are_explained_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    fail_with(monkeypatch, error)
    outcome = run().refused(message)
    assert not outcome.out


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, TypeError("three \x1b[2J"))
    monkeypatch.setenv("LDM_DEBUG", "1")
    outcome = run()
    assert outcome.code == 1
    assert "Traceback (most recent call last)" in outcome.err
    assert outcome.err.endswith("TypeError: three \\x1b[2J\n\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt(), "Interrupted.\n"),
        (
            Interrupted("3 of 9.", "Go on: ldm eval --resume x"),
            "3 of 9.\nGo on: ldm eval --resume x\n",
        ),
    ],
)
def test_an_interrupted_run_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, said: str
) -> None:
    fail_with(monkeypatch, error)
    outcome = run()
    assert (outcome.code, outcome.out, outcome.err) == (130, "", said)


def test_an_interrupt_that_a_library_turns_into_an_error_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hiding(**_: object) -> NoReturn:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise TypeError("in a library")

    monkeypatch.setattr(module, "app", hiding)
    outcome = run()
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "Interrupted.\n")


def test_an_interrupt_inside_a_command_takes_one_line() -> None:
    program = "import time, ldm.cli.app as a\n"
    program += "a.app.command('wait')(lambda: (print('ready', flush=True), time.sleep(60)))\n"
    program += "import sys; sys.argv = ['ldm', 'wait']; a.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "Interrupted.\n")


def test_what_an_encoding_lacks_is_escaped() -> None:
    program = "import ldm.cli.app as a, sys; a.app.command('say')(lambda: a.output.show('→ é'))\n"
    program += "sys.argv = ['ldm', 'say']; a.main()"
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.check_output([sys.executable, "-c", program], env=ascii_only)
    assert shown == b"\\u2192 \\xe9\n"


def printing_into(standard_output: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with something else behind its standard output."""
    command = [sys.executable, "-m", "ldm", "validate", "--schema", "tuple"]
    return subprocess.run(
        command, stdout=standard_output, stderr=subprocess.PIPE, text=True, check=False
    )


@pytest.mark.process
def test_workers_start_without_output_streams(tmp_path: Path) -> None:
    words = "eval --env tests.toy:ToyEnv --agent random --limit 2 --workers 2 --runs"
    line = f"{sys.executable} -m ldm {words} {tmp_path}/runs >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], check=False, cwd=CHECKOUT).returncode == 0


def test_a_closed_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = printing_into(writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_reported() -> None:
    with open("/dev/full", "w") as full:
        done = printing_into(full)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the disk is full.\n")
    assert "Traceback" not in done.stderr


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    program = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('heavy:', *sorted({HEAVY!r} & set(sys.modules))))\n"
        "import ldm.cli.app; sys.argv = ['ldm', '--help']; ldm.cli.app.main()"
    )
    assert printed(program).splitlines()[-1].strip() == "heavy:"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setattr(typer.main, "get_command", inspect.unwrap(typer.main.get_command))
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    run("--show-completion", shell).done("_LDM_COMPLETE")
