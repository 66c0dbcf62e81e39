"""`python -m tests.page` runs the commands on standard input as a shell would, all in one process.

So torch and Chroma are loaded once for a page of the documentation, not once a command.
"""

import glob
import runpy
import shlex
import sys
from pathlib import Path

from ldm.cli.app import main
from ldm.run import building


def run(line: str) -> None:
    """Run `ldm …`, `python FILE …` or `python -m MODULE …`; raises SystemExit where it fails."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    program, *arguments = [name for word in words for name in sorted(glob.glob(word)) or [word]]
    if program not in ("ldm", "python") or {"|", ">", "&&", "||", ";"} & set(arguments):
        raise SystemExit(f"{line}: only `ldm …` and `python FILE …` can be run from a page")
    if as_module := arguments[:1] == ["-m"]:
        arguments = arguments[1:]
    sys.argv = [program, *arguments] if program == "ldm" else arguments
    try:
        if program == "ldm":
            main()
        elif as_module:
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    # The shipped episodes are the few that a test put here.
    building.shipped_trajectories = lambda: Path("data/trajectories")
    for command in sys.stdin.read().replace("\\\n", " ").splitlines():
        run(command)
