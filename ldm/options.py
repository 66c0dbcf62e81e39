"""Options of agents and environments: how they are described and checked."""

from __future__ import annotations

from typing import Any

from ldm.config import hints

#: Prefix of an option that belongs to the environment, where others are named beside it.
ENV_PREFIX = "env."


def descriptions(options: type[Any]) -> dict[str, str]:
    """Return field → description of a dataclass of options: the text of its `Annotated` type."""
    known = hints(options)
    return {name: one.description for name, one in known.items() if one.description}


def at_least(minimum: float, **values: float | None) -> None:
    """Raise ValueError if one of the values is below the minimum; None is no value."""
    for name, value in values.items():
        if value is not None and value < minimum:
            raise ValueError(f"{name} must be at least {minimum:g}, not {value:g}")
