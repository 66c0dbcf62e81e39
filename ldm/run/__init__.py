"""Experiments from Python: build a memory, refine it, optimise plans, evaluate, compare, judge.

`import ldm` offers them, see ldm/__init__.py. Each takes a spec, which run.json holds, and a
`Runtime`, which says where and how it runs. The command line is a thin layer above.
"""
