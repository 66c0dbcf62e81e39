"""Evaluation: plans, the runner, statistics and the report (design §7)."""

from ldm.eval.plan import EvaluationPlan, check_leakage, select
from ldm.eval.report import Report, as_json
from ldm.eval.runner import evaluate, finished, protocol, results, sample
from ldm.eval.statistics import Difference, Group, Summary, bootstrap, difference, summarize

__all__ = [
    "Difference",
    "EvaluationPlan",
    "Group",
    "Report",
    "Summary",
    "as_json",
    "bootstrap",
    "check_leakage",
    "difference",
    "evaluate",
    "finished",
    "protocol",
    "results",
    "sample",
    "select",
    "summarize",
]
