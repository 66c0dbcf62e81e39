"""Whole trajectories of a memory as demonstrations: for each task those with the nearest goals.

They are a baseline for LDM², which recalls single steps: the common use of retrieval puts whole
processes into the prompt.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from ldm.agents import Resources
from ldm.agents.executor import ExecutorAgent, ExecutorOptions, task_work
from ldm.agents.loop import Hint, Loop, Work
from ldm.agents.transcript import example_texts, localized
from ldm.config import at_least
from ldm.episode import Episode
from ldm.errors import LdmError
from ldm.llm import GREEDY, Sampling
from ldm.reason.excerpts import characters
from ldm.types import Trajectory


@dataclass(frozen=True, slots=True)
class ExemplarOptions(ExecutorOptions):
    """Options of agents that may be shown a memory's successful trajectories (ours).

    An exemplar that does not fit into the tokens, estimated by its length, is skipped.
    """

    exemplars: Annotated[int, "Nearest trajectories of the memory to show instead"] = 0
    exemplar_tokens: Annotated[int, "Maximum tokens of all exemplars"] = 3000

    def __post_init__(self) -> None:
        ExecutorOptions.__post_init__(self)
        at_least(0, exemplars=self.exemplars)
        at_least(1, exemplar_tokens=self.exemplar_tokens)
        if self.exemplars and self.strength in ("hybrid", "skills"):
            raise ValueError("exemplars are whole tasks of any kind: strength is task or none")


class ExemplarAgent(ExecutorAgent):
    """Base of agents that work on whole tasks and may be shown a memory's trajectories."""

    Options = ExemplarOptions
    options: ExemplarOptions
    #: Whether the model is asked for thoughts.
    thinking: ClassVar[bool] = True

    def __init__(self, options: ExemplarOptions, resources: Resources) -> None:
        """Raise LdmError if exemplars are asked for and `resources` have no memory."""
        super().__init__(options, resources)
        if options.exemplars and resources.memory is None:
            raise LdmError(
                f"The agent {self.name} takes exemplars from a memory, and none is there.",
                "Make one with `ldm build-memory`, or leave out exemplars.",
            )

    @classmethod
    def also_needs(cls, options: Any) -> Sequence[str]:
        """Return ("memory",) if exemplars are shown."""
        return ("memory",) if options.exemplars else ()

    @classmethod
    def sources(cls, options: Any, env: str) -> Collection[str]:
        """Return the sources of the demonstrations; those of a memory are known to it."""
        return () if options.exemplars else super().sources(options, env)

    def attempt(self, episode: Episode, *hints: Hint, sampling: Sampling = GREEDY) -> None:
        """Play one trial of the whole task. hints: shown in addition to the skills."""
        llm = self._resources.model(episode)
        with episode.trial():
            work = self._work(episode, *hints, sampling=sampling)
            Loop(episode, llm, replace(work, thinking=self.thinking), self.options).run()

    def _work(self, episode: Episode, *hints: Hint, sampling: Sampling) -> Work:
        """Return the whole task as work, and note the exemplars that it shows."""
        options = self.options
        if not options.exemplars:
            return task_work(episode, options, *hints, sampling=sampling)
        work = task_work(episode, replace(options, shots=0), *hints, sampling=sampling)
        return replace(work, demonstrations=self._exemplars(episode))

    def _exemplars(self, episode: Episode) -> tuple[Trajectory, ...]:
        """Return the nearest trajectories that fit into the tokens, the nearest first."""
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
