"""What the code may look like, where ruff has no rule for it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ldm

PACKAGE = Path(ldm.__file__).parent
LINES, PARAMETERS = 60, 8

#: They say what happened to a value and not what it is.
VAGUE = frozenset({"found", "told", "said", "kept", "shown", "wanted", "asked", "seen"})
#: Fields whose names stand in files, in replies of models or in prompts that were recorded.
STORED = {
    *("agents/autoplan/plans.py:said", "agents/autoplan/plans.py:kept"),
    *("agents/demonstrations/__init__.py:seen", "reason/views.py:seen"),
}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield (file:name, function) of every function in the package, inner ones included."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(PACKAGE)}:{node.name}", node


def test_no_function_is_longer_than_60_lines() -> None:
    assert not [name for name, node in functions() if _lines(node) > LINES]


def test_no_function_has_more_than_8_parameters() -> None:
    """Nor do the commands: their options are declared as groups."""
    crowded = [name for name, node in functions() if _parameters(node) > PARAMETERS]
    assert crowded == ["memory/growing.py:recall"]  # the conditions of a query, all by name


def test_no_value_is_called_by_what_happened_to_it() -> None:
    vague = {
        f"{path.relative_to(PACKAGE)}:{name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in _names(parsed(path))
        if name.strip("_") in VAGUE
    }
    assert vague == STORED


@pytest.mark.parametrize(
    "source",
    [
        *("found = 1", "with open(place) as found: pass", "rows = [found for found in ()]"),
        *("def search(*, found=1): pass", "def found(): pass", "key = lambda found: 1"),
        *("class Search:\n    found: int", "self.found = 1", "import search as found"),
        *("match value:\n    case [found, *_]: pass", "try: pass\nexcept OSError as found: pass"),
    ],
)
def test_a_name_is_noticed_wherever_it_is_given(source: str) -> None:
    assert "found" in _names(ast.parse(source))
    assert "found" not in _names(ast.parse("reply['found'], call(found=1), entry.found"))


def _names(tree: ast.Module) -> set[str]:
    """Return the names that a module gives: to values, parameters, functions and attributes."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                names.add(name)
    return names


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines from `def` to the end, docstring included, decorators left out."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    of = node.args
    parameters = [*of.posonlyargs, *of.args, *of.kwonlyargs, *filter(None, (of.vararg, of.kwarg))]
    return len([one for one in parameters if one.arg not in ("self", "cls")])
