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
    from ldm.eval.curves import Curve
    from ldm.eval.judged import JudgedRun
    from ldm.eval.plan_scores import PlanEvaluation, PlanScores
    from ldm.experiments.building import (
        BuildOptions,
        build_memory,
        read_trajectories,
        write_trajectories,
    )
    from ldm.experiments.crediting import (
        Credited,
        Pruned,
        credit_tuples,
        learn_utilities,
        prune_memory,
    )
    from ldm.experiments.curves import curve
    from ldm.experiments.evaluation import Comparison, compare, evaluate, evaluate_all
    from ldm.experiments.goal_choice import Goals
    from ldm.experiments.grid import Grid
    from ldm.experiments.judging import judge_run
    from ldm.experiments.planning import (
        OptimisedPlan,
        OptimisedPlans,
        PlanGrid,
        optimize_plan,
        optimize_plans,
    )
    from ldm.experiments.presets import Preset, list_presets, preset
    from ldm.experiments.refinement import Refined, refine
    from ldm.experiments.reporting import report
    from ldm.experiments.reproducing import Reproduction, evaluate_preset
    from ldm.experiments.resuming import resume
    from ldm.experiments.runtime import Runtime
    from ldm.experiments.specs import EvaluationSpec, PlanSpec, RefinementSpec
    from ldm.llm.models import ModelOptions
    from ldm.llm.service import Connection
    from ldm.memory import Memory
    from ldm.memory.growing import GrowingMemory
    from ldm.memory.recalls import Recalls
    from ldm.options import settings
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

#: Where the public names are defined. They are loaded when first used, so that `import ldm` and
#: `ldm --help` answer at once.
_MODULES = {
    "Agent": "ldm.episode",
    "Assumed": "ldm.envs.interchange.foreign",
    "BuildOptions": "ldm.experiments.building",
    "Card": "ldm.types",
    "Comparison": "ldm.experiments.evaluation",
    "Connection": "ldm.llm.service",
    "Credited": "ldm.experiments.crediting",
    "Curve": "ldm.eval.curves",
    "Environment": "ldm.episode",
    "Episode": "ldm.episode",
    "EvaluationSpec": "ldm.experiments.specs",
    "Goals": "ldm.experiments.goal_choice",
    "Grid": "ldm.experiments.grid",
    "GrowingMemory": "ldm.memory.growing",
    "JudgedRun": "ldm.eval.judged",
    "LdmError": "ldm.errors",
    "Memory": "ldm.memory",
    "ModelOptions": "ldm.llm.models",
    "OptimisedPlan": "ldm.experiments.planning",
    "OptimisedPlans": "ldm.experiments.planning",
    "PlanEvaluation": "ldm.eval.plan_scores",
    "PlanGrid": "ldm.experiments.planning",
    "PlanScores": "ldm.eval.plan_scores",
    "PlanSpec": "ldm.experiments.specs",
    "Preset": "ldm.experiments.presets",
    "Pruned": "ldm.experiments.crediting",
    "Recall": "ldm.types",
    "Recalls": "ldm.memory.recalls",
    "Refined": "ldm.experiments.refinement",
    "RefinementSpec": "ldm.experiments.specs",
    "Report": "ldm.eval",
    "Reproduction": "ldm.experiments.reproducing",
    "Resources": "ldm.agents",
    "Runtime": "ldm.experiments.runtime",
    "StateActionTuple": "ldm.types",
    "Step": "ldm.types",
    "Task": "ldm.types",
    "TimeStep": "ldm.types",
    "Trajectory": "ldm.types",
    "build_memory": "ldm.experiments.building",
    "compare": "ldm.experiments.evaluation",
    "credit_tuples": "ldm.experiments.crediting",
    "curve": "ldm.experiments.curves",
    "evaluate": "ldm.experiments.evaluation",
    "evaluate_all": "ldm.experiments.evaluation",
    "evaluate_preset": "ldm.experiments.reproducing",
    "judge_run": "ldm.experiments.judging",
    "learn_utilities": "ldm.experiments.crediting",
    "list_presets": "ldm.experiments.presets",
    "optimize_plan": "ldm.experiments.planning",
    "optimize_plans": "ldm.experiments.planning",
    "preset": "ldm.experiments.presets",
    "prune_memory": "ldm.experiments.crediting",
    "read_trajectories": "ldm.experiments.building",
    "refine": "ldm.experiments.refinement",
    "report": "ldm.experiments.reporting",
    "resume": "ldm.experiments.resuming",
    "settings": "ldm.options",
    "write_trajectories": "ldm.experiments.building",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ldm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
