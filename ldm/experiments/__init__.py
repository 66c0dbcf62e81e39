"""Experiments from Python: build a memory, refine it, optimise plans, evaluate, compare, judge.

Each takes a spec, which run.json holds, and a `Runtime`, which says where and how it runs. The
command line is a thin layer above.
"""

from __future__ import annotations

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
from ldm.experiments.evaluation import Comparison, Evaluation, compare, evaluate, evaluate_all
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
from ldm.options import settings

__all__ = [
    "BuildOptions",
    "Comparison",
    "Credited",
    "Curve",
    "Evaluation",
    "EvaluationSpec",
    "Goals",
    "Grid",
    "JudgedRun",
    "ModelOptions",
    "OptimisedPlan",
    "OptimisedPlans",
    "PlanEvaluation",
    "PlanGrid",
    "PlanScores",
    "PlanSpec",
    "Preset",
    "Pruned",
    "Refined",
    "RefinementSpec",
    "Reproduction",
    "Runtime",
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
