"""The command line as in tests/cli."""

from tests.cli.conftest import run, serve, server

__all__ = ["run", "serve", "server"]
