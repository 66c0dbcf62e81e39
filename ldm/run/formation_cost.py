"""What forming a memory with a model will cost, measured on a few of the trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.config import Build
from ldm.errors import LdmError, MemoryStoreError
from ldm.llm.estimate import SAMPLE, cost_lines
from ldm.llm.models import serving
from ldm.run.builders import card_of, models_of, open_embedder
from ldm.run.building import calls_folder, formation_options, selected
from ldm.run.runtime import Runtime

if TYPE_CHECKING:
    from ldm.embed import Embedder
    from ldm.llm import LLM
    from ldm.reason.prompting import PromptedOptions
    from ldm.types import Trajectory, Usage


def estimate(
    data: Iterable[str | Path | Trajectory] | None, memory: str, options: Build, runtime: Runtime
) -> Iterator[str]:
    """Form a few trajectories, each by itself, and yield lines on what all of them will cost.

    Nothing is stored but the calls, of which the histories' are not paid again. Types are made of
    whole batches, which takes fewer calls than of single trajectories: the estimate is high there.
    Raises LdmError where no model is named, or there is no new trajectory.
    """
    from ldm.reason.prompting import PromptedOptions
    from ldm.run.selection import even

    models = models_of(options)
    if not models.configured:
        raise LdmError("Without a model, forming a memory costs nothing.", "Name one: --llm MODEL.")
    chosen, classes = selected(data, options, runtime)
    held = set() if options.rebuild else _held(memory)
    new = [
        one
        for one in {one.id: one for one in chosen}.values()
        if one.id not in held
        and any(step.action for step in one.steps)
        and formation_options(one.task.env, options).takes(one)
    ]
    if not new:
        raise LdmError(f"There is nothing new for {memory}: building it costs nothing.", "")
    kinds = [(one.id, f"{one.task.env} {one.task.kind}") for one in new]
    sample = [new[i] for i in even(kinds, min(SAMPLE, len(new)))]
    embedder = open_embedder(options.embedder, runtime.embeddings)
    record = calls_folder(memory, runtime)
    prompted = PromptedOptions(options.formation, concurrency=models.in_flight)
    usages = []
    with (
        serving(models, runtime.connection, record, runtime.message) as served,
        runtime.progress("estimate", len(sample)) as advance,
    ):
        llm = served.get("reasoner")
        for one in sample:
            known_as = classes.get(one.task.env, one.task.env)
            usages.append(_cost(one, llm, known_as, embedder, prompted))
            advance()
    yield from cost_lines(usages, len(new), models, "trajectories")
    yield "Build the memory with the same command without --estimate; no history is paid twice."


def _held(memory: str) -> set[str]:
    """Return the ids of the trajectories that a memory holds; none where there is no memory."""
    from ldm.memory import environments, inspect

    try:
        names = environments(memory)
    except MemoryStoreError:
        return set()
    return {t for env in names for b in inspect(memory, env).batches for t in b.trajectories}


def _cost(
    trajectory: Trajectory, llm: LLM, known_as: str, embedder: Embedder, options: PromptedOptions
) -> Usage:
    """Form a batch of one trajectory; return what its calls cost. known_as: its environment."""
    from ldm.llm import ScopedLLM
    from ldm.memory import form_batch
    from ldm.memory.formation import BatchPlan
    from ldm.reason.offline import OfflineReasoner
    from ldm.reason.prompted import PromptedReasoner
    from ldm.types import Usage

    spent: list[Usage] = []
    scoped = ScopedLLM(llm, lambda: (), spent.append)
    offline = OfflineReasoner(embedder)
    reasoner = PromptedReasoner(scoped, card_of(known_as), offline, embedder, options)
    form_batch(BatchPlan("sample", trajectory.task.kind, (trajectory,)), reasoner, 0)
    return sum(spent, Usage())
