"""Evaluation: plans, statistics and the report (design §7)."""
