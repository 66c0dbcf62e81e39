"""LDM² (Wang, Li & Zeng, arXiv 2312.08402): decide from recalled state-action tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ldm.agents import Resources
from ldm.episode import Agent, Episode
from ldm.errors import LdmError
from ldm.policy import CONSULTED, VOTES, Memo, Observed, Policy, PolicyOptions
from ldm.reason import Process, Reasoner
from ldm.types import Card


@dataclass(frozen=True, slots=True)
class LdmOptions(PolicyOptions):
    """Options of the memory agent.

    decision: "pooled" is one process over all batch memories of the goal's kind (ours), "per-batch"
    one process per batch memory, each in a fresh trial, of which one is chosen (Eq. 4 and 5).
    The paper states no budget.
    """

    decision: Annotated[
        Literal["pooled", "per-batch"], "One process over all batches, or one for each"
    ] = "pooled"
    budget: Annotated[int, "Steps of a trial"] = 50


class LdmAgent(Agent):
    """The memory agent. It never sees a reward, and chooses among processes without one."""

    name = "ldm"
    needs = ("memory", "reasoner")
    paper = "LDM², arXiv 2312.08402, §3"
    Options = LdmOptions
    options: LdmOptions

    def __init__(self, options: LdmOptions, resources: Resources) -> None:
        """Raise LdmError if `resources` lack a memory that fits the options, or a reasoner."""
        if resources.memory is None or (resources.reasoner is None and resources.ask is None):
            raise LdmError("The agent ldm needs a memory.", "Make one with `ldm build-memory`.")
        options.check(resources.memory)
        super().__init__(options, resources)
        self._memory = resources.memory

    @classmethod
    def with_model(cls, given: Mapping[str, str]) -> Mapping[str, str]:
        """Return the policy's options for decisions with a model."""
        return PolicyOptions.with_model(given)

    def budget(self, card: Card) -> int:
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        reasoner = self._resources.reasoning(episode, self.options.prompted())
        policy = Policy(self._memory, reasoner, self.options, self._resources.seed)
        batches = policy.batches(episode.goal)
        try:
            if self.options.decision == "pooled":
                self._process(episode, policy, batches)
            else:
                self._best_of(episode, policy, reasoner, batches)
        finally:
            if counts := reasoner.counts():
                episode.note("replies", **counts)

    def _best_of(
        self, episode: Episode, policy: Policy, reasoner: Reasoner, batches: Sequence[str]
    ) -> None:
        """Play a process from each batch; submit the one that the reasoner chooses (Eq. 5)."""
        processes = []
        for batch in batches:
            confidences = self._process(episode, policy, [batch])
            done = episode.trajectory(episode.trials - 1)
            steps = tuple((step.action, step.observation) for step in done.steps)
            processes.append(Process(episode.goal, done.opening, steps, tuple(confidences)))
        chosen = reasoner.choose(processes)
        episode.note("choice", batches=list(batches), chosen=batches[chosen])
        episode.submit(chosen)

    def _process(self, episode: Episode, policy: Policy, batches: Sequence[str]) -> list[float]:
        """Play one decision process in a fresh trial; return the confidences of its actions."""
        confidences: list[float] = []
        consultations: list[str] = []
        votes: list[list[Any]] = []
        memo = Memo()
        with episode.trial():
            while True:
                decision = policy.decide(_observed(episode, memo), batches)
                memo = decision.memo
                consultations.append(decision.reason)
                votes.append([[vote.action, vote.confidence] for vote in decision.votes])
                confidences.append(decision.proposals[0].confidence)
                episode.act(decision.action, recalls=decision.used, followed=decision.followed)
        if any(votes):
            # What the recalls voted for at each step, with shares; [] where none fitted.
            episode.note(VOTES, steps=votes)
        if any(consultations) or self.options.consult != "always":
            # Why a model decided each step; "" where memory did.
            episode.note(CONSULTED, steps=consultations)
        return confidences


def _observed(episode: Episode, memo: Memo) -> Observed:
    now = episode.now
    return Observed(
        goal=episode.goal,
        past=episode.past,
        observation=now.observation,
        admissible=now.admissible,
        previous=memo,
        key=episode.task_id,
        localize=episode.localize,
        steps_left=episode.steps_left,
        refused=not now.valid,
    )
