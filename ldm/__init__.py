"""Human experience as memory for language-model agents, and a fair way to compare such agents.

    import ldm

    ldm.build_memory()
    memory = ldm.Memory.open(".ldm/memory", "alfworld")
    for recall in memory.retrieve("put a hot egg in the fridge", "You see a microwave 1."):
        print(recall.similarity, recall.tuple.action)
    ldm.refine(ldm.Refine("alfworld"))
    report = ldm.evaluate(ldm.Evaluate("alfworld", agent={"name": "ldm", "k": 7}))

The package reads as the method: `ldm.memory` (trajectories become tuples, tuples are recalled),
`ldm.reason` (what the paper asks a language model for), `ldm.policy` (one decision),
`ldm.agents`, `ldm.envs`, `ldm.explore` and `ldm.run` (experiments, recorded and
resumable). See docs/architecture.md.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

from ldm.version import __version__ as __version__

#: Public name → the module that defines it, as the stub says. Each is loaded when first used, so
#: that `import ldm` and `ldm --help` answer at once.
_MODULES = dict(
    sorted(
        (name.name, str(statement.module))
        for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
        if isinstance(statement, ast.ImportFrom)
        for name in statement.names
        if name.name not in globals()
    )
)
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ldm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
