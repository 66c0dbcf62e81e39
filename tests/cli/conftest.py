"""Running the command as users do, in this process, which keeps its tests fast."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from ldm.cli.app import main
from tests.llm.conftest import Serve
from tests.llm.server import FakeServer


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit status and what it wrote."""

    code: int
    out: str
    err: str

    def done(self, *said: str) -> Outcome:
        """Assert that it succeeded and printed all these texts."""
        assert self.code == 0, self.err
        assert [text for text in said if text not in self.out] == [], self.out
        return self

    def refused(self, *said: str, code: int = 1) -> Outcome:
        """Assert that it failed, and explained it with all these texts and without a traceback."""
        assert self.code == code, self.out
        assert [text for text in said if text not in self.err] == [], self.err
        assert "Traceback" not in self.err
        return self


def run(*arguments: object) -> Outcome:
    """Run `ldm ARGUMENTS` in this process: `run("eval", "--env", "toy")`."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("PYTHONSAFEPATH", "1")  # main sets it
        patch.setattr(sys, "argv", ["ldm", *map(str, arguments)])
        with pytest.raises(SystemExit) as finished:
            main()
    code = finished.value.code
    assert code is None or isinstance(code, int)
    return Outcome(code or 0, out.getvalue(), err.getvalue())


@pytest.fixture
def server(
    request: pytest.FixtureRequest, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> FakeServer:
    """The model server of commands; it answers what the test module's `reply` says, if any."""
    reply = getattr(request.module, "reply", None)
    server = serve(answer=reply) if reply else serve()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return server
