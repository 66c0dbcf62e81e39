"""Human experience as memory for language-model agents, and a fair way to compare such agents.

    import ldm

    ldm.build_memory()
    memory = ldm.Memory.open(".ldm/memory", "alfworld")
    for recall in memory.retrieve("put a hot egg in the fridge", "You see a microwave 1."):
        print(recall.similarity, recall.tuple.action)
    ldm.refine(ldm.RefinementSpec("alfworld"))
    report = ldm.evaluate(ldm.EvaluationSpec("alfworld"))

The package reads as the method: `ldm.memory` (trajectories become tuples, tuples are recalled),
`ldm.reasoner` (what the paper asks a language model for), `ldm.policy` (one decision),
`ldm.agents`, `ldm.envs`, `ldm.explore`, `ldm.eval` and `ldm.experiments` (all of it, recorded and
resumable). See docs/architecture.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldm.agents import Resources
    from ldm.envs.interchange.foreign import Assumed
    from ldm.episode import Agent, Environment, Episode
    from ldm.errors import LdmError
    from ldm.eval import Report
    from ldm.experiments import (
        BuildOptions,
        Comparison,
        Credited,
        Curve,
        EvaluationSpec,
        Goals,
        Grid,
        JudgedRun,
        ModelOptions,
        OptimisedPlan,
        OptimisedPlans,
        PlanEvaluation,
        PlanGrid,
        PlanScores,
        PlanSpec,
        Preset,
        Pruned,
        Refined,
        RefinementSpec,
        Reproduction,
        Runtime,
        build_memory,
        compare,
        credit_tuples,
        curve,
        evaluate,
        evaluate_all,
        evaluate_preset,
        judge_run,
        learn_utilities,
        list_presets,
        optimize_plan,
        optimize_plans,
        preset,
        prune_memory,
        read_trajectories,
        refine,
        report,
        resume,
        settings,
        write_trajectories,
    )
    from ldm.llm.service import Connection
    from ldm.memory import Memory
    from ldm.memory.growing import GrowingMemory
    from ldm.memory.recalls import Recalls
    from ldm.types import Card, Recall, StateActionTuple, Step, Task, TimeStep, Trajectory

__version__ = "0.2.0"

__all__ = [
    "Agent",
    "Assumed",
    "BuildOptions",
    "Card",
    "Comparison",
    "Connection",
    "Credited",
    "Curve",
    "Environment",
    "Episode",
    "EvaluationSpec",
    "Goals",
    "Grid",
    "GrowingMemory",
    "JudgedRun",
    "LdmError",
    "Memory",
    "ModelOptions",
    "OptimisedPlan",
    "OptimisedPlans",
    "PlanEvaluation",
    "PlanGrid",
    "PlanScores",
    "PlanSpec",
    "Preset",
    "Pruned",
    "Recall",
    "Recalls",
    "Refined",
    "RefinementSpec",
    "Report",
    "Reproduction",
    "Resources",
    "Runtime",
    "StateActionTuple",
    "Step",
    "Task",
    "TimeStep",
    "Trajectory",
    "build_memory",
    "compare",
    "credit_tuples",
    "curve",
    "evaluate",
    "evaluate_all",
    "evaluate_preset",
    "judge_run",
    "learn_utilities",
    "list_presets",
    "optimize_plan",
    "optimize_plans",
    "preset",
    "prune_memory",
    "read_trajectories",
    "refine",
    "report",
    "resume",
    "settings",
    "write_trajectories",
]

#: Where the public names are defined, unless in `ldm.experiments`. They are loaded when first used,
#: so that `import ldm` and `ldm --help` answer at once.
_MODULES = {
    "Agent": "ldm.episode",
    "Assumed": "ldm.envs.interchange.foreign",
    "Card": "ldm.types",
    "Connection": "ldm.llm.service",
    "Environment": "ldm.episode",
    "Episode": "ldm.episode",
    "GrowingMemory": "ldm.memory.growing",
    "LdmError": "ldm.errors",
    "Memory": "ldm.memory",
    "Recall": "ldm.types",
    "Recalls": "ldm.memory.recalls",
    "Report": "ldm.eval",
    "Resources": "ldm.agents",
    "StateActionTuple": "ldm.types",
    "Step": "ldm.types",
    "Task": "ldm.types",
    "TimeStep": "ldm.types",
    "Trajectory": "ldm.types",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ldm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES.get(name, "ldm.experiments")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
