"""A plug-in: reports on recorded runs.

`write_report` writes one page that shows every step and why it was taken: `overview` and `details`
choose what it shows, and `page` packs it with the files in `assets/`, which are plain HTML, CSS and
JavaScript. `curve` computes success against a number in which runs differ. `exporting`
writes runs as logs of other tools. The commands are in `commands`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldm.report.curve_runs import curve
    from ldm.report.writing import write_report

__all__ = ["curve", "write_report"]
#: Where the public names are defined: they are loaded on first use, as the command line is.
_MODULES = {"curve": "ldm.report.curve_runs", "write_report": "ldm.report.writing"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ldm.report' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
