"""What the tests of DEPS share with those of other agents."""

from tests.agents.conftest import environments

__all__ = ["environments"]
