"""Tables of cases in a file beside their tests: `x.toml` beside `test_x.py`."""

import tomllib
from pathlib import Path
from typing import Any


def cases(test: str, table: str) -> Any:
    """Return a table of the file beside `test`, which is a test module's `__file__`."""
    path = Path(test)
    file = path.with_name(f"{path.stem.removeprefix('test_')}.toml")
    return tomllib.loads(file.read_text("utf-8"))[table]
