"""General modules know agents and environments by the registry alone; classes say the rest."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ldm import registry
from ldm.agents import AGENTS
from ldm.envs import GROUP
from tests.conftest import CHECKOUT

PACKAGE = CHECKOUT / "ldm"
ENVS = registry.names({}, GROUP)
NAMES = {*AGENTS, *ENVS}
#: Modules of one agent or environment. AutoPlan's is known to the command that makes its plans.
SPECIAL = {target.partition(":")[0] for target in (*AGENTS.values(), *ENVS.values())} - {
    "ldm.agents.autoplan"
}


def special(text: str) -> bool:
    """Return whether a dotted name is, or lies in, a module of one agent or environment."""
    return any(text == one or text.startswith((f"{one}.", f"{one}:")) for one in SPECIAL)


def general_modules() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("ldm", *path.relative_to(PACKAGE).with_suffix("").parts))
        registry_or_method = module.startswith("ldm.agents.")
        # A format of one environment's recordings is called after it.
        registry_or_method |= module.startswith(tuple(f"ldm.interchange.{name}_" for name in ENVS))
        if not (registry_or_method or special(module)):
            yield path


def names_one(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Constant) and one.value in NAMES for one in ast.walk(node))


def dependencies(code: str) -> Iterator[tuple[int, str]]:
    """Yield line and source of what ties code to one agent or environment."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.ImportFrom(module=str(name)) | ast.alias(name=name) if special(name):
                yield node.lineno, name
            case ast.Constant(value=str(text)) if special(text):
                yield node.lineno, text
            case ast.Call(func=ast.Name("load_agent" | "load_env")) if names_one(node):
                yield node.lineno, ast.unparse(node)
            case ast.Compare() if names_one(node) and re.search("agent|env", ast.unparse(node)):
                yield node.lineno, ast.unparse(node)


def test_no_general_module_depends_on_one_agent_or_environment() -> None:
    for path in general_modules():
        assert list(dependencies(path.read_text("utf-8"))) == [], path


def test_a_dependency_is_recognised_and_a_word_is_not() -> None:
    code = """import ldm.agents.react, ldm.agents
from ldm.worlds.webshop import pages
load_env('alfworld')
spec.agent == 'ldm' or target == 'ldm.agents.cot:CotAgent' or word == 'random'"""
    assert sorted(line for line, _ in dependencies(code)) == [1, 2, 3, 4, 4]
