"""What rules are worth: states of training tasks in which they hold, played on both ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import mean

from ldm.config import Refine
from ldm.explore import ExplorationSetup
from ldm.explore.positions import Position, Positions
from ldm.reason.facts import FactReader, descriptions, holds
from ldm.reason.rules import Rule
from ldm.reason.vocabulary import Lesson
from ldm.run.builders import ExplorerBuilder
from ldm.run.refine import resolved
from ldm.run.runtime import Runtime
from ldm.run.selection import select
from ldm.types import Task

#: Tasks that are played, and proposals among which are a rule's action and another one.
TASKS, OTHERS = 20, 8


@dataclass(frozen=True, slots=True)
class Worth:
    """How a rule did in so many states.

    obeyed, broken: the mean score with an action as it says, and with another one. saved: the mean
    number of steps by which the task ended earlier with it.
    """

    rule: str
    states: int = 0
    obeyed: float = 0.0
    broken: float = 0.0
    saved: float = 0.0


def worth_of(
    rules: Sequence[Rule], reader: FactReader, spec: Refine, runtime: Runtime
) -> list[Worth]:
    """Return what rules of a memory are worth, in their order, on tasks of a training split.

    A task is played as memory decides. Where a rule's condition holds for the first time, it is
    played to its end from there twice: with an action as the rule says, and with the likeliest
    other one. States are reached by copies of the environment, or by replay. reader: of facts.
    """
    spec = resolved(spec, runtime)
    setup = ExplorerBuilder(spec, runtime.cache, runtime.embeddings)()
    ends: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    with closing(setup.env):
        tasks = setup.env.tasks(spec.split)
        sources = setup.memory.contents.sources()
        new = [task for task in tasks if task.leak_key not in sources]
        for task in select(new or tasks, kinds=spec.kinds, limit=spec.limit or TASKS):
            for rule, obeyed, broken in _tried(rules, reader, setup, task):
                saved = len(broken.past) - len(obeyed.past)
                ends[rule].append((obeyed.earned, broken.earned, saved))
    return [
        Worth(one.text, len(tried), *(round(mean(x), 3) for x in zip(*tried, strict=True)))
        for one in rules
        for tried in [ends[one.text]]
    ]


def _tried(
    rules: Sequence[Rule], reader: FactReader, setup: ExplorationSetup, task: Task
) -> Iterator[tuple[str, Position, Position]]:
    """Yield (rule, end with it, end against it) of the first state in which each one holds."""
    left, policy, batches = list(rules), setup.policy, setup.policy.batches(task.goal)
    with closing(Positions(setup.env, task)) as positions:

        def end(position: Position, action: str) -> Position:
            first = positions.after(position, action)
            rest = [after for _, after in setup.greedy(positions, first, task, policy, batches)]
            return [first, *rest][-1]

        position = positions.start()
        while not position.now.done and len(position.past) < setup.options.depth:
            observed = setup.observed(task, position)
            proposals = [x.action for x in policy.rank(observed, batches, OTHERS).proposals]
            step = Lesson("", task.goal, task.kind, position.past, observed.observation, "")
            facts, now = reader.read(step)
            for rule in [one for one in left if all(holds(x, facts) for x in one.facts)]:
                obeying = [x for x in proposals if rule.action in descriptions(x, now)]
                others = [x for x in proposals if x not in obeying]
                if obeying and others:
                    left.remove(rule)
                    yield rule.text, end(position, obeying[0]), end(position, others[0])
            position = positions.moved(position, proposals[0])
