"""A plug-in: reports on recorded runs.

`write_report` writes one page that shows every step and why it was taken: `overview` and `details`
choose what it shows, and `writing` packs it with the files in `assets/`: plain HTML, CSS and
JavaScript. The command is in `commands`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldm.report.writing import write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> Any:
    """Load `write_report` on first use, as the command line is."""
    if name != "write_report":
        raise AttributeError(f"module 'ldm.report' has no attribute {name!r}")
    from ldm.report.writing import write_report

    return write_report
