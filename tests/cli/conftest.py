"""Running the command as users do, in this process, which keeps its tests fast."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ldm.cli.app import main


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit status and what it wrote."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("eval", "--env", "toy")` is the command `ldm eval --env toy`."""

    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # main sets it

    def command(*args: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["ldm", *map(str, args)])
        with pytest.raises(SystemExit) as finished:
            main()
        captured = capsys.readouterr()
        code = finished.value.code
        assert code is None or isinstance(code, int)
        return Outcome(code or 0, captured.out, captured.err)

    return command
