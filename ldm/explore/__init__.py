"""Refinement: tree exploration that adds high-reward tuples to the memory (design §5)."""
