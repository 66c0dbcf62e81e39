"""The recipes and the published tasks, as the tests of the environment read them."""

from tests.envs.textcraft.conftest import book, env, golden, stored

__all__ = ["book", "env", "golden", "stored"]
