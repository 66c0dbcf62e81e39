"""Count what tests/test_ceilings.py limits: code, commands, options, tests, goldens and documents.

    python scripts/structure.py [--path] [--json]

Code lines are those with a token that is neither a comment nor a docstring. `--path` also follows
`ldm eval` on two tasks, from `main` to the first step of the environment.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ldm"
#: Packages that the core never imports.
PLUGINS = ("cluster", "deps", "integrations", "interchange", "report", "serve", "servers", "worlds")
BUILD = "build-memory --env alfworld --per-kind 1 --memory {folder}/memory"
EVAL = (
    "eval --env alfworld --split demo_test --limit 2 --workers 1 --memory {folder}/memory"
    " --runs {folder}/runs"
)
TEXTS = (ast.Constant, ast.JoinedStr)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(file: Path) -> int:
    """Return the number of code lines of a Python file."""
    source = file.read_text("utf-8")
    docstrings, lines = set[int](), set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(_lines(node.body[0]))
        elif isinstance(node, TEXTS):  # whose lines may be empty, or look like comments
            lines.update(_lines(node))
    for number, text in enumerate(source.split("\n"), 1):
        if text.strip() and not text.lstrip().startswith("#"):
            lines.add(number)
    return len(lines - docstrings)


def _lines(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def packages() -> dict[str, int]:
    """Return the code lines of each package of ldm; modules beside them count as "*.py"."""
    counts = Counter[str]()
    for file in PACKAGE.rglob("*.py"):
        first, *below = file.relative_to(PACKAGE).parts
        counts[first if below else "*.py"] += code_lines(file)
    return dict(counts.most_common())


def options() -> dict[str, list[str]]:
    """Return command → its options, without those that every command has."""
    from ldm.cli.app import every_command

    return {
        words: [name for name in one if name[:2] == "--" and name != "--help"]
        for words, command in every_command()
        for one in [[one.opts[-1] for one in command.params]]
    }


def shown_options() -> dict[str, int]:
    """Return command → how many options its `--help` lists, that one included."""
    from ldm.cli.app import every_command
    from ldm.cli.options import RARE

    return {
        words: 1
        + sum(not (getattr(one, "rich_help_panel", None) or "").endswith(RARE) for one in given)
        for words, command in every_command()
        for given in [[one for one in command.params if one.param_type_name == "option"]]
    }


def documents(folder: str, pattern: str) -> list[str]:
    """Return the texts of the files below a folder that match a pattern."""
    return [file.read_text("utf-8") for file in (ROOT / folder).rglob(pattern) if file.is_file()]


def counts(lines: dict[str, int]) -> dict[str, int]:
    """Return every count but those of `path`.

    lines: code lines by package.
    """
    commands = options()
    return {
        "core": sum(count for name, count in lines.items() if name not in PLUGINS),
        "all": sum(lines.values()),
        "commands": len(commands),
        "options": len({name for names in commands.values() for name in names}),
        "help": max(shown_options().values()),
        "tests": sum(map(code_lines, (ROOT / "tests").rglob("*.py"))),
        "goldens": sum(text.count("\n") for text in documents("tests", "goldens/*")),
        "docs": sum(len(text.split()) for text in documents("docs", "*.md")),
    }


def path() -> dict[str, Any]:
    """Return the frames of ldm from `main` to the first step of `ldm eval`, and modules loaded.

    No module of ldm may be loaded before.
    """
    stack: list[str] = []
    modules: list[str] = []

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name == "step" and _is_environment(frame):
            sys.setprofile(None)
            modules.extend(sorted(name for name in sys.modules if name.split(".")[0] == "ldm"))
            stack.extend(_callers(frame))

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        build, evaluation = (line.format(folder=folder).split() for line in (BUILD, EVAL))
        command = [sys.executable, "-m", "ldm", *build]
        here = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, env=here, check=True, stdout=subprocess.DEVNULL)
        from ldm.cli.app import main

        sys.argv = ["ldm", *evaluation]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            sys.setprofile(watch)
            main()
        sys.setprofile(None)
    if stack[:1] != ["main"]:
        raise SystemExit(f"The first step was not called from main: {' → '.join(stack)}")
    return {"frames": len(stack), "modules": len(modules), "stack": stack}


def _is_environment(frame: FrameType) -> bool:
    of = frame.f_locals.get("self")
    return all(hasattr(of, name) for name in ("card", "tasks", "reset", "fork"))


def _callers(frame: FrameType | None) -> list[str]:
    """Return the names of the functions of ldm on the stack, the outermost first."""
    names = []
    while frame is not None:
        if Path(inspect.getfile(frame.f_code)).is_relative_to(PACKAGE):
            names.append(frame.f_code.co_qualname.replace(".<locals>", ""))
        frame = frame.f_back
    return names[::-1]


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--path", action="store_true", help="also follow `ldm eval`")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    wanted = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    followed = path() if wanted.path else {}
    stack = followed.pop("stack", [])
    lines = packages()
    figures = {**counts(lines), **followed}
    if wanted.json:
        print(json.dumps({**figures, "packages": lines, "stack": stack}))
        return
    for name, count in figures.items():
        print(f"{name:<18} {count:>7,}")
    for name, count in lines.items():
        print(f"  ldm/{name:<14} {count:>7,}{'  plug-in' if name in PLUGINS else ''}")
    if stack:
        print(" → ".join(stack))


if __name__ == "__main__":
    main()
