"""Read tables of facts: TOML files beside the modules that use them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def facts(module: str, name: str = "facts.toml") -> dict[str, Any]:
    """Return the tables of a file beside `module`, the `__file__` of the module that asks."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))
