"""The command line as in tests/cli, and the process that forks for commands to be killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import run, serve, server
from tests.integration import forks

__all__ = ["run", "serve", "server"]


@pytest.fixture(scope="session", autouse=True)
def forks_end() -> Iterator[None]:
    """No process that forks outlives the tests."""
    yield
    forks.stop()
