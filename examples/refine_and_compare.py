"""Build a memory, refine it, and compare what an agent reaches with it before and after.

    python examples/refine_and_compare.py

Refinement lets the agent explore goals that the memory does not know yet. Where it finds a better
way than the one it would take by itself, the steps of that way join the memory. What joins at once
is a generation: 0 is the memory as it was built, 1 what it is after the first refinement. Both stay
there, so both are evaluated on the same games, which are neither in the memory nor explored.
"""

from __future__ import annotations

from pathlib import Path

import ldm


def main(
    data: Path | None = None,
    folder: Path = Path(".ldm/examples/refined"),
    goals: int = 60,
    limit: int | None = None,
) -> ldm.Comparison:
    """Explore `goals` goals with a memory of `data` (None: shipped episodes), evaluate `limit`."""
    memory, runtime = str(folder / "memory"), ldm.Runtime(runs=folder / "runs")
    options = ldm.Build("alfworld", rebuild=True)
    [built] = ldm.build_memory(data, memory, options)
    print(f"generation 0: {len(built.rows)} tuples from {built.trajectories} episodes")

    exploration = ldm.Refine("alfworld", "demo_explore", memory=memory)
    refined = ldm.refine(exploration, ldm.Goals(goals), runtime=runtime)
    improved = sum(bool(explored.added) for explored in refined.explored)
    added = sum(len(explored.added) for explored in refined.explored)
    print(f"{goals} goals explored, {improved} of them improved: {added} tuples added")

    runs = []
    for generation in (None, 0):  # None is the newest
        spec = ldm.Evaluate(
            "alfworld", "demo_test", memory=memory, generation=generation, limit=limit
        )
        runs.append(ldm.evaluate(spec, runtime=runtime).directory)
    return ldm.compare(runs)


if __name__ == "__main__":
    print(main())
