"""Record a command in a terminal as an animated SVG.

    python scripts/record_demo.py docs/demo.svg -- ldm demo --folder .ldm/demo

Lines appear at the relative times at which they were printed, all in SECONDS. Progress bars, which
are drawn again and again, are left out.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH, SECONDS = 110, 12.0
#: What clears or leaves a line; the rest of the sequences is colour, which rich reads.
MOVES = re.compile(r"\x1b\[\??[0-9;]*[A-HJKSTfhl]")

BAR = re.compile("[━╸╺]")
#: Fonts that a viewer would have to download.
FONTS = re.compile(r"@font-face {.*?}\s*", re.DOTALL)


def played(command: list[str]) -> list[tuple[float, str]]:
    """Run a command in a terminal; return its lines with the seconds at which they were printed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
        os.execvp(command[0], command)  # noqa: S606 - as typed
    begin, lines, rest = time.monotonic(), list[tuple[float, str]](), ""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux's way to say that the terminal's other end is closed
            data = b""
        if not data:
            break
        *whole, rest = (rest + data.decode(errors="replace")).split("\n")
        now = time.monotonic() - begin
        texts = (MOVES.sub("", line.rstrip("\r")).rpartition("\r")[2] for line in whole)
        lines += [(now, text) for text in texts if not BAR.search(text)]
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(f"{shlex.join(command)} failed:\n" + "\n".join(text for _, text in lines))
    return lines


def drawn(lines: list[tuple[float, str]], title: str) -> str:
    """Return lines as an SVG in which each appears at its time."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    for _, text in lines:
        console.print(Text.from_ansi(text), no_wrap=True, crop=True)
    picture = FONTS.sub("", console.export_svg(title=title, unique_id="demo"))
    end = max(lines[-1][0], 1e-9)
    rules = "".join(
        f'[clip-path="url(#demo-line-{n})"]{{animation-delay:{SECONDS * at / end:.2f}s}}'
        for n, (at, _) in enumerate(lines)
    )
    style = (
        '[clip-path^="url(#demo-line-"]{opacity:0;animation:demo-show .01s linear forwards}'
        f"@keyframes demo-show{{to{{opacity:1}}}}{rules}"
    )
    return picture.replace("</style>", f"{style}</style>", 1)


if __name__ == "__main__":
    place, arguments = Path(sys.argv[1]), sys.argv[3:]
    place.write_text(drawn(played(arguments), shlex.join(arguments)), encoding="utf-8")
