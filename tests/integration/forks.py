"""`ldm …` in forks of one process that has imported what commands need, to be killed and resumed.

A start of Python and its imports are most of a short command, and tests of killed commands start
hundreds of them. A fork is a process of its own, with its own files, locks and children; it has the
embedder of `tests.integration.quick`. `python -m tests.integration.forks` is the process that
forks: of each line on standard input it makes a command, and says that one's process id and, when
it has ended, its exit status.
"""

import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import ldm

ROOT = Path(__file__).resolve().parents[2]
#: In place of a program, before the words of a command: run it in a fork.
FORKED = "forked"
#: A program as tests pass it on: `ldm`, in a fork.
QUICK = (FORKED,)
IMPORTED = (
    *("scipy.stats", "sklearn.cluster", "sklearn.feature_extraction.text"),
    *("sklearn.linear_model", "ldm.cli.app", "ldm.memory.growing", "ldm.memory.changes"),
    *("ldm.reason.offline", "openai", "tests.integration.quick", "tests.toy"),
    *sorted(set(ldm._MODULES.values())),
)
#: Variables by which a process measures its coverage; other tests cover what commands do.
MEASURING = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


class Fork:
    """A command at work, with the part of `subprocess.Popen` that tests need."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        forker = _forker()
        assert forker.stdin is not None
        assert forker.stdout is not None
        self.args = request["words"]
        self.returncode: int | None = None
        self._answers = forker.stdout
        forker.stdin.write(json.dumps(request).encode() + b"\n")
        forker.stdin.flush()
        self.pid = int(self._answers.readline())

    def poll(self) -> int | None:
        """Return the exit status, None while it works."""
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raises subprocess.TimeoutExpired where it works for longer."""
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(self._answers.readline())
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes] | Fork]:
    """Start a command in a session of its own, and wait for it in the end; its output is lost."""
    if command[0] == FORKED:
        fork = Fork(_request(command, environment, os.devnull, os.devnull))
        yield fork
        fork.wait()
        return
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        yield process


def run(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. check: raise CalledProcessError where it fails."""
    if command[0] != FORKED:
        return subprocess.run(command, env=environment, check=check, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        code = Fork(_request(command, environment, *map(str, files))).wait()
        done = subprocess.CompletedProcess(command, code, *(file.read_text() for file in files))
    if check:
        done.check_returncode()
    return done


def _request(
    command: Sequence[str], environment: Mapping[str, str] | None, out: str, err: str
) -> dict[str, Any]:
    variables = {**(os.environ if environment is None else environment)}
    for name in MEASURING:
        variables.pop(name, None)
    words = list(command[1:])
    return {"words": words, "env": variables, "folder": os.getcwd(), "out": out, "err": err}


@cache
def _forker() -> subprocess.Popen[bytes]:
    """Start the process that forks; it ends when this one does."""
    variables = {k: v for k, v in os.environ.items() if k not in MEASURING}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.integration.forks"],
        env={**variables, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )


def stop() -> None:
    """End the process that forks, where there is one."""
    if _forker.cache_info().currsize:
        with _forker() as forker:
            assert forker.stdin is not None
            forker.stdin.close()
        _forker.cache_clear()


def _next_command() -> dict[str, Any] | None:
    """Fork for each request; return it in the fork, and None in the end."""
    for module in IMPORTED:
        importlib.import_module(module)
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            request: dict[str, Any] = json.loads(line)
            return request
        print(pid, flush=True)  # noqa: T201 - said to the process that asked
        status = os.waitpid(pid, 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201
    return None


def _become(request: Mapping[str, Any]) -> None:
    """Let this process be the command that is asked for, up to its first line of code."""
    os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags), number)
    sys.argv = ["ldm", *request["words"]]


if __name__ == "__main__":
    if order := _next_command():
        from tests.integration import quick

        _become(order)
        quick.main()
