"""No general module names an environment or an agent: what depends on them, their classes say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ldm import registry
from ldm.agents import AGENTS
from ldm.envs import ENVS, GROUP
from tests.conftest import CHECKOUT

PACKAGE = CHECKOUT / "ldm"
ENVIRONMENTS = registry.names(ENVS, GROUP)
ENVIRONMENT = re.compile("|".join(ENVIRONMENTS), re.IGNORECASE)
#: "act", "random" and "standard" are words, "ldm" is the package, "autoplan" a command, too.
METHODS = set(AGENTS) - {"act", "random", "standard", "ldm", "autoplan"}
METHOD = re.compile(rf"\b({'|'.join(sorted(METHODS))})\b")
#: What is said under this heading may name anything.
EXAMPLES = re.compile(r"^ *Examples?:\n.*", re.MULTILINE | re.DOTALL)
TEMPLATES = {
    path.relative_to(PACKAGE / "prompts").with_suffix("").as_posix()
    for path in (PACKAGE / "prompts").rglob("*.jinja")
}
#: What lies here belongs to one environment or one agent.
SPECIAL = (
    *(PACKAGE / place / name for name in ENVIRONMENTS for place in ("envs", "worlds")),
    *(PACKAGE / "agents" / name for name in AGENTS),
    *(PACKAGE / "agents" / f"{name}.py" for name in AGENTS),
    # `ldm horizon` trains what the selector of one agent predicts with.
    PACKAGE / "cli" / "horizon.py",
    PACKAGE / "run" / "horizons.py",
)
REGISTRIES = {
    PACKAGE / "envs" / "__init__.py": "ENVS",
    PACKAGE / "agents" / "__init__.py": "AGENTS",
}


def general_modules() -> list[Path]:
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if not any(path == place or place in path.parents for place in SPECIAL)
    ]


def code(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every name and string; registries and templates' file names left out.

    Docstrings count where users read them: those of commands. Their examples do not.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out: set[ast.AST] = set()
    for node in ast.walk(tree):
        unread = _is_docstring(node) and PACKAGE / "cli" not in path.parents
        if unread or _is_registry(node, REGISTRIES.get(path, "")):
            left_out.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in left_out:
            continue
        match node:
            case ast.Constant(value=str(text)) if text not in TEMPLATES:
                yield node.lineno, EXAMPLES.sub("", text)
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.FunctionDef(name=text):
                yield node.lineno, text
            case ast.ImportFrom(module=str(text)):
                yield node.lineno, text


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_registry(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == [name]


@pytest.mark.parametrize("path", general_modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_environment_or_agent_is_named(path: Path) -> None:
    mentions = [
        f"{path.relative_to(CHECKOUT)}:{line}: {text!r}"
        for line, text in code(path)
        if ENVIRONMENT.search(text) or METHOD.search(text)
    ]
    assert mentions == []


def test_help_texts_and_messages_count() -> None:
    """What this test overlooked before: helps of options, docstrings of commands."""
    folder = PACKAGE / "cli"
    texts = [text for _, text in code(folder / "data.py")]
    assert any(text.startswith("Size of the download, if there is a choice") for text in texts)
    assert any(text.startswith("Count the data of an environment") for text in texts)
    assert not any("ldm data textcraft" in text for text in texts)
