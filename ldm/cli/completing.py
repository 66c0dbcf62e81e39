"""Values that the shell completes: names of environments, agents, splits, kinds and runs.

Completion must be instant, so nothing that is slow to import is used. After any error, nothing is
completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path

import typer

Completion = Callable[[typer.Context, str], list[str]]


def _completing(names: Callable[[typer.Context], Iterable[str]]) -> Completion:
    """Return a completer for these names; in a comma-separated list complete the last one."""

    @wraps(names)
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        try:
            known = sorted(set(names(context)))
        except Exception:
            return []
        return [before + comma + name for name in known if name.startswith(last)]

    complete.__annotations__ = {"context": typer.Context, "incomplete": str, "return": list[str]}
    del complete.__wrapped__  # Typer reads the signature
    return complete


@_completing
def environments(context: typer.Context) -> Iterable[str]:
    """Complete the names of environments."""
    from ldm import registry
    from ldm.envs import ENVS, GROUP

    return registry.names(ENVS, GROUP)


@_completing
def agents(context: typer.Context) -> Iterable[str]:
    """Complete the names of agents."""
    from ldm import registry
    from ldm.agents import AGENTS, GROUP

    return registry.names(AGENTS, GROUP)


@_completing
def splits(context: typer.Context) -> Iterable[str]:
    """Complete the splits of the environment that is named."""
    from ldm.envs import load_env
    from ldm.envs.metadata import metadata_of

    env = load_env(context.params["env"])
    shipped = metadata_of(env).shipped
    more = (shipped.explore, shipped.test) if shipped else ()
    return (env.default_split, *env.train_splits, *more)


@_completing
def kinds(context: typer.Context) -> Iterable[str]:
    """Complete the task kinds of the environment that is named."""
    from ldm.envs import load_env
    from ldm.envs.metadata import card_of

    card = card_of(load_env(context.params["env"]))
    return card.kinds if card else ()


@_completing
def runs_below(context: typer.Context) -> Iterable[str]:
    """Complete the ids of the runs in the folder of runs."""
    folder = Path(context.params.get("runs") or "runs")
    return [str(path.parent) for path in folder.glob("*/run.json")]
