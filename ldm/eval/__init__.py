"""Evaluation: plans, the runner, statistics and the report (architecture.md#fair-comparisons)."""

from ldm.eval.plan import check_card, check_examples, check_leakage, select
from ldm.eval.report import RefinedRecalls, Report, as_json, refined_recalls
from ldm.eval.runner import agent_of, evaluate, finished, protocol, recorded, results, sample
from ldm.eval.statistics import (
    Difference,
    Group,
    Summary,
    bootstrap,
    difference,
    mcnemar,
    summarize,
)

__all__ = [
    "Difference",
    "Group",
    "RefinedRecalls",
    "Report",
    "Summary",
    "agent_of",
    "as_json",
    "bootstrap",
    "check_card",
    "check_examples",
    "check_leakage",
    "difference",
    "evaluate",
    "finished",
    "mcnemar",
    "protocol",
    "recorded",
    "refined_recalls",
    "results",
    "sample",
    "select",
    "summarize",
]
