"""Refinement: tree exploration that adds high-reward tuples to the memory (LDM² §3.3).

`refine` explores goals, with the paper's `tree` or a `best_first` search; `gate` revises solved
episodes in hindsight and decides what joins the memory; `report` shows the results.
"""
