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

import importlib
from typing import TYPE_CHECKING, Any

from ldm.version import __version__ as __version__

if TYPE_CHECKING:
    from ldm.agents import Resources
    from ldm.config import Build, Evaluate, OptimisePlan, Refine, Section
    from ldm.envs.formats import Assumed
    from ldm.episode import Agent, Environment, EnvironmentBase, Episode
    from ldm.errors import LdmError
    from ldm.llm.models import ModelOptions
    from ldm.llm.service import Connection
    from ldm.memory import Memory
    from ldm.memory.growing import GrowingMemory
    from ldm.memory.recalls import Recalls
    from ldm.run.building import build_memory, read_trajectories, write_trajectories
    from ldm.run.credit import Credited, credit_tuples
    from ldm.run.evaluate import Comparison, compare, evaluate, evaluate_all
    from ldm.run.grid import Grid
    from ldm.run.judged import JudgedRun, judge_run
    from ldm.run.plan import OptimisedPlan, OptimisedPlans, PlanGrid, optimize_plan, optimize_plans
    from ldm.run.plan_scores import PlanEvaluation, PlanScores
    from ldm.run.presets import Preset, list_presets, preset
    from ldm.run.refine import Refined, refine
    from ldm.run.reproducing import Reproduction, evaluate_preset
    from ldm.run.results import Report
    from ldm.run.resuming import resume
    from ldm.run.runtime import Runtime
    from ldm.types import Card, Recall, StateActionTuple, Step, Task, TimeStep, Trajectory

__all__ = [
    "Agent",
    "Assumed",
    "Build",
    "Card",
    "Comparison",
    "Connection",
    "Credited",
    "Environment",
    "EnvironmentBase",
    "Episode",
    "Evaluate",
    "Grid",
    "GrowingMemory",
    "JudgedRun",
    "LdmError",
    "Memory",
    "ModelOptions",
    "OptimisePlan",
    "OptimisedPlan",
    "OptimisedPlans",
    "PlanEvaluation",
    "PlanGrid",
    "PlanScores",
    "Preset",
    "Recall",
    "Recalls",
    "Refine",
    "Refined",
    "Report",
    "Reproduction",
    "Resources",
    "Runtime",
    "Section",
    "StateActionTuple",
    "Step",
    "Task",
    "TimeStep",
    "Trajectory",
    "build_memory",
    "compare",
    "credit_tuples",
    "evaluate",
    "evaluate_all",
    "evaluate_preset",
    "judge_run",
    "list_presets",
    "optimize_plan",
    "optimize_plans",
    "preset",
    "read_trajectories",
    "refine",
    "resume",
    "write_trajectories",
]

#: Where the public names are defined. They are loaded when first used, so that `import ldm` and
#: `ldm --help` answer at once.
_NAMES = {
    "ldm.agents": ("Resources",),
    "ldm.config": ("Build", "Evaluate", "OptimisePlan", "Refine", "Section"),
    "ldm.envs.formats": ("Assumed",),
    "ldm.episode": ("Agent", "Environment", "EnvironmentBase", "Episode"),
    "ldm.errors": ("LdmError",),
    "ldm.llm.models": ("ModelOptions",),
    "ldm.llm.service": ("Connection",),
    "ldm.memory": ("Memory",),
    "ldm.memory.growing": ("GrowingMemory",),
    "ldm.memory.recalls": ("Recalls",),
    "ldm.run.building": ("build_memory", "read_trajectories", "write_trajectories"),
    "ldm.run.credit": ("Credited", "credit_tuples"),
    "ldm.run.evaluate": ("Comparison", "compare", "evaluate", "evaluate_all"),
    "ldm.run.grid": ("Grid",),
    "ldm.run.judged": ("JudgedRun", "judge_run"),
    "ldm.run.plan": (
        "OptimisedPlan",
        "OptimisedPlans",
        "PlanGrid",
        "optimize_plan",
        "optimize_plans",
    ),
    "ldm.run.plan_scores": ("PlanEvaluation", "PlanScores"),
    "ldm.run.presets": ("Preset", "list_presets", "preset"),
    "ldm.run.refine": ("Refined", "refine"),
    "ldm.run.reproducing": ("Reproduction", "evaluate_preset"),
    "ldm.run.results": ("Report",),
    "ldm.run.resuming": ("resume",),
    "ldm.run.runtime": ("Runtime",),
    "ldm.types": ("Card", "Recall", "StateActionTuple", "Step", "Task", "TimeStep", "Trajectory"),
}
_MODULES = dict(sorted((name, module) for module, names in _NAMES.items() for name in names))


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ldm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
