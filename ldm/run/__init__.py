"""Experiments from Python: build a memory, refine it, optimise plans, evaluate, compare.

`import ldm` offers them, see ldm/__init__.py. Each takes a spec, saved in run.json, and a
`Runtime` with paths, workers and callbacks. The command line is a thin layer above.
"""
