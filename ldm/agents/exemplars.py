"""Whole trajectories of a memory as demonstrations: for each task the ones with the nearest goals.

They compare what LDM² recalls, single steps, with what retrieval is mostly used for, whole
processes in the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ldm.agents import Resources
from ldm.agents.executor import Hint, LoopAgent, LoopOptions, Work, task_work
from ldm.agents.transcript import example_texts, localized
from ldm.episode import Episode
from ldm.errors import LdmError
from ldm.llm import GREEDY, Sampling
from ldm.reason.excerpts import characters
from ldm.types import Trajectory


@dataclass(frozen=True, slots=True)
class ExemplarOptions(LoopOptions):
    """exemplars: how many of the memory's successful trajectories, those with the nearest goals, to
    show in place of the demonstrations of whole tasks; 0 shows the demonstrations (ours).
    exemplar_tokens: maximum tokens of all exemplars, estimated by their length; one that does not
    fit is replaced by the next (ours).
    """

    exemplars: int = 0
    exemplar_tokens: int = 3000

    def __post_init__(self) -> None:
        # super() does not work in a dataclass with slots, which is made anew.
        LoopOptions.__post_init__(self)
        if self.exemplars < 0 or self.exemplar_tokens < 1:
            raise ValueError("exemplars is 0 or more, exemplar_tokens 1 or more")
        if self.exemplars and self.strength in ("hybrid", "skills"):
            raise ValueError("exemplars are whole tasks of any kind: strength is task or none")


class ExemplarAgent(LoopAgent):
    """What agents share that work at whole tasks and may be shown a memory's trajectories."""

    Options: ClassVar[type[ExemplarOptions]] = ExemplarOptions
    options: ExemplarOptions

    def __init__(self, options: ExemplarOptions, resources: Resources) -> None:
        """Raise LdmError where exemplars are asked for and `resources` have no memory."""
        super().__init__(options, resources)
        if options.exemplars and resources.memory is None:
            raise LdmError(
                f"The agent {self.name} takes exemplars from a memory, and none is there.",
                "Make one with `ldm build-memory`, or leave out exemplars.",
            )

    @staticmethod
    def also_needs(options: ExemplarOptions) -> Sequence[str]:
        """Return what these options need beside `needs`."""
        return ("memory",) if options.exemplars else ()

    @staticmethod
    def sources(options: LoopOptions, env: str) -> Iterable[str]:
        """Return the sources of the demonstrations; those of a memory it knows itself."""
        if isinstance(options, ExemplarOptions) and options.exemplars:
            return frozenset()
        return LoopAgent.sources(options, env)

    def work(self, episode: Episode, *hints: Hint, sampling: Sampling = GREEDY) -> Work:
        """Return the whole task as work, see `task_work`; what is shown of a memory is noted.

        Call it within a trial.
        """
        options = self.options
        if not options.exemplars:
            return task_work(episode, options, *hints, sampling=sampling)
        work = task_work(episode, replace(options, shots=0), *hints, sampling=sampling)
        return replace(work, demonstrations=self._exemplars(episode))

    def _exemplars(self, episode: Episode) -> tuple[Trajectory, ...]:
        """Return the nearest trajectories within the budget of tokens, the nearest first."""
        memory, options = self._resources.memory, self.options
        assert memory is not None  # noqa: S101 - checked when the agent was made
        room, chosen = characters(options.exemplar_tokens), []
        record = []
        for one in memory.whole_near(episode.goal):
            local = localized(one.trajectory, episode.localize)
            (text,) = example_texts([local], width=options.observation, thoughts=False)
            if len(text) <= room:
                room -= len(text)
                chosen.append(local)
                record.append([one.id, one.trajectory.task.id, one.similarity])
            if len(chosen) == options.exemplars:
                break
        if episode.trials == 1:  # the same in each trial
            episode.note("exemplars", shown=record)
        return tuple(chosen)
