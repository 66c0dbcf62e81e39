"""Which training goals a refinement explores: named ones, new ones, or the hardest of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ldm.errors import LdmError
from ldm.options import normalise
from ldm.run.builders import opener
from ldm.run.runtime import Runtime
from ldm.run.specs import GoalsBy, RefinementSpec
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.episode import Environment
    from ldm.memory import Contents
    from ldm.types import Task

DEFAULT_GOALS = 60
#: How many goals are played for each one that is taken by how hard it is.
POOL = 4


@dataclass(frozen=True, slots=True)
class Goals:
    """Which training goals to explore.

    count: how many new ones, kinds evenly. ids: these and no others. kinds: only of these task
    kinds. reuse: allow goals that the memory knows already. by: "even" draws kinds evenly; "failed"
    and "long" play POOL times as many greedily, and take those that earned least, or took longest.
    """

    count: int = DEFAULT_GOALS
    ids: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    reuse: bool = False
    by: GoalsBy = "even"

    def __post_init__(self) -> None:
        normalise(self)
        if self.by != "even" and self.ids:
            raise ValueError("goals are named, or chosen by how hard they are")


def choose(
    spec: RefinementSpec, goals: Goals, env: Environment, contents: Contents, runtime: Runtime
) -> tuple[Task, ...]:
    """Return the goals to explore: those named, or some of the new ones."""
    from ldm.errors import LeakageError
    from ldm.explore import evaluated_leak_keys, new_goals, rejected_goal
    from ldm.memory import generations
    from ldm.run.selection import select

    tasks = env.tasks(spec.split)
    evaluated = evaluated_leak_keys(runtime.runs, spec.env, env, opener(spec.env, runtime.cache))
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
        reuse=goals.reuse,
    )
    if goals.ids:
        chosen = select(tasks, ids=goals.ids, kinds=goals.kinds)
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
    limit = goals.count * (1 if goals.by == "even" else POOL)
    return select(new, kinds=goals.kinds, limit=limit, seed=spec.seed)
