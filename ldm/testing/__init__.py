"""Contract tests for environments and agents, as pytest classes, and a scripted model.

To test your own class, subclass `EnvironmentContract` or `AgentContract` in a test module:

    class TestLibrary(EnvironmentContract):
        name = "library:Library"
        split = "test"
"""

from __future__ import annotations

try:
    import pytest
except ImportError as error:
    raise ImportError("ldm.testing needs pytest: pip install pytest") from error

pytest.register_assert_rewrite("ldm.testing.environment", "ldm.testing.agent")

# After their asserts are registered to be rewritten.
from ldm.testing.agent import AgentContract, Onlooker, ScriptedModel  # noqa: E402
from ldm.testing.environment import EnvironmentContract  # noqa: E402

__all__ = ["AgentContract", "EnvironmentContract", "Onlooker", "ScriptedModel"]
