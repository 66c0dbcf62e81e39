"""The process that forks for commands to be killed."""

from collections.abc import Iterator

import pytest

from tests.integration import forks


@pytest.fixture(scope="session", autouse=True)
def forks_end() -> Iterator[None]:
    """No process that forks outlives the tests."""
    yield
    forks.stop()
