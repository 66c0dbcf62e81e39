"""Programs in processes of their own."""

import os
import subprocess
import sys


def printed(code: str, *arguments: object, seed: str = "0") -> str:
    """Return what a program prints, which has to end well. seed: Python's for hashes."""
    variables = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
