"""Which training goals a refinement explores: named ones, new ones, or the hardest of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldm.config import DEFAULT_GOALS, Refine
from ldm.errors import LdmError
from ldm.run.builders import opener
from ldm.run.runtime import Runtime
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.episode import Environment
    from ldm.memory import Contents
    from ldm.types import Task

#: Goals played for each one that is taken by how hard it is.
POOL = 4


def choose(
    spec: Refine, env: Environment, contents: Contents, runtime: Runtime
) -> tuple[Task, ...]:
    """Return the goals to explore: those named, or new ones, kinds evenly.

    By how hard they are, POOL times as many are returned, of which `hardest` takes some later.
    Raises LdmError if a named goal may not be explored, or if none is left.
    """
    from ldm.errors import LeakageError
    from ldm.explore import evaluated_leak_keys, new_goals, rejected_goal
    from ldm.memory import generations
    from ldm.run.selection import select

    tasks = env.tasks(spec.split)
    evaluated = evaluated_leak_keys(runtime.runs, spec.env.name, env, opener(runtime.cache))
    before = [
        generation
        for generation in generations(spec.memory, env.card.name)
        if generation.number <= contents.generation.number
    ]
    new = new_goals(
        tasks,
        evaluated=evaluated,
        remembered=contents.sources(),
        explored=frozenset(task for generation in before for task in generation.tasks),
        reuse=spec.reuse_goals,
    )
    if spec.tasks:
        chosen = select(tasks, ids=spec.tasks, kinds=spec.kinds)
        if refused := rejected_goal(chosen, new, evaluated):
            task, why = refused
            if task.leak_key in evaluated:
                raise LeakageError([task.leak_key], "Explore other goals; this one was evaluated.")
            raise LdmError(f"The goal {task.id} {why}.", "Explore others, or use --reuse-goals.")
        return chosen
    if left_out := sum(task.leak_key in evaluated for task in tasks):
        goals_of = f"{counted(left_out, 'goal')} of {spec.split}"
        runtime.message(f"Skipping {goals_of}, evaluated before.")
    if not new:
        raise LdmError(
            f"All {len(tasks)} goals of {spec.split} are known to the memory already.",
            "Explore another split, or use --reuse-goals.",
        )
    limit = (spec.limit or DEFAULT_GOALS) * (1 if spec.goals == "even" else POOL)
    return select(new, kinds=spec.kinds, limit=limit, seed=spec.seed)
