"""Names → classes, looked up lazily: built-in dicts, entry points, or "package.module:Class".

Nothing is imported until a name is used, so `ldm --help` loads no simulator and no model.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from ldm.errors import LdmError


def names(builtin: Mapping[str, str], group: str) -> dict[str, str]:
    """Return all names with their dotted paths: `builtin` and what installed packages announce."""
    announced = {point.name: point.value for point in entry_points(group=group)}
    return dict(sorted({**announced, **builtin}.items()))


def load(name: str, builtin: Mapping[str, str], group: str, what: str) -> Any:
    """Return the object that `name` stands for; messages call it `what`, e.g. "environment".

    Raises LdmError where the name is unknown or its module or attribute cannot be imported.
    """
    # Entry points are looked up last, because that reads a file of every installed package.
    target = name if ":" in name else builtin.get(name) or names(builtin, group).get(name)
    if target is None:
        known = names(builtin, group)
        close = get_close_matches(name, known, n=1)
        suggestion = f"Did you mean {close[0]!r}? " if close else ""
        raise LdmError(
            f"There is no {what} {name!r}.",
            f"{suggestion}Known: {', '.join(known)}; or name your own as package.module:Class.",
        )
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # also of a bad name
        raise LdmError(
            f"The {what} {name!r} ({target}) cannot be imported: {error}.",
            "Check the spelling and that its package is installed in this environment.",
        ) from error
