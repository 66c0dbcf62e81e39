"""What the code may look like, where ruff has no rule for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ldm

PACKAGE = Path(ldm.__file__).parent
LINES, PARAMETERS = 60, 8


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield (file:name, function) of every function in the package, inner ones included."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(PACKAGE)}:{node.name}", node


def test_no_function_is_longer_than_60_lines() -> None:
    assert not [name for name, node in functions() if _lines(node) > LINES]


def test_no_function_has_more_than_8_parameters() -> None:
    """Nor do the commands: their options are declared as groups."""
    assert not [name for name, node in functions() if _parameters(node) > PARAMETERS]


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines from `def` to the end, docstring included, decorators left out."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    of = node.args
    parameters = [*of.posonlyargs, *of.args, *of.kwonlyargs, *filter(None, (of.vararg, of.kwarg))]
    return len([one for one in parameters if one.arg not in ("self", "cls")])
