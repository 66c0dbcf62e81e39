"""LDM² (Wang, Li & Zeng, arXiv 2312.08402): decide from recalled state-action tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ldm.agents import Resources
from ldm.episode import Agent, Episode
from ldm.errors import LdmError
from ldm.policy import CONSULTED, VOTES, Policy, PolicyOptions
from ldm.reason import Answer, Process, State
from ldm.types import Card, History


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
        """Raise LdmError if `resources` lack a memory or a reasoner."""
        if resources.memory is None or (resources.reasoner is None and resources.ask is None):
            raise LdmError("The agent ldm needs a memory.", "Make one with `ldm build-memory`.")
        super().__init__(options, resources)
        self._memory = resources.memory

    @classmethod
    def with_model(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of a policy that decides with a model."""
        return PolicyOptions.with_model(given)

    def budget(self, card: Card) -> int:
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        reasoner = self._resources.reasoning(episode, self.options.prompted())
        policy = Policy(self._memory, reasoner, self.options, self._resources.seed)
        batches = policy.batches(episode.goal, episode.kind)
        alone = self.options.decision == "per-batch"
        processes: list[Process] = []
        try:
            for searched in [[batch] for batch in batches] if alone else [batches]:
                decisions: list[Answer] = []
                with episode.trial():
                    while True:
                        last = decisions[-1] if decisions else None
                        decision = policy.decide(_state(episode, last), searched)
                        decisions.append(decision)
                        episode.act(
                            decision.action, recalls=decision.used, followed=decision.followed
                        )
                self._note(episode, decisions)
                processes.append(_process(episode, decisions))
            if alone:  # submit the process that the reasoner chooses (Eq. 5)
                chosen = reasoner.choose(processes)
                episode.note("choice", batches=list(batches), chosen=batches[chosen])
                episode.submit(chosen)
        finally:
            if counts := reasoner.counts():
                episode.note("replies", **counts)

    def _note(self, episode: Episode, decisions: Sequence[Answer]) -> None:
        """Note the votes of the recalls in a process, and why a model decided each step."""
        votes = [[[one.action, one.confidence] for one in each.votes] for each in decisions]
        if any(votes):
            episode.note(VOTES, steps=votes)
        reasons = [each.reason for each in decisions]
        if any(reasons) or self.options.consult != "always":
            episode.note(CONSULTED, steps=reasons)


def _process(episode: Episode, decisions: Sequence[Answer]) -> Process:
    """Return the trial that has just ended, with the confidences of its actions."""
    done = episode.trajectory(episode.trials - 1)
    steps = tuple((step.action, step.observation) for step in done.steps)
    confidences = tuple(one.proposals[0].confidence for one in decisions)
    return Process(episode.goal, done.opening, steps, confidences)


def _state(episode: Episode, last: Answer | None) -> State:
    """Return the state of an episode. last: the decision before."""
    now, (past, sight) = episode.now, episode.effective
    return State(
        goal=episode.goal,
        history=History(past=past),
        observation=sight,
        admissible=now.admissible,
        refused=episode.refused,
        led=last is not None and bool(last.reason),
        plan=last.plan if last else (),
        kind=episode.kind,
        steps_left=episode.steps_left,
        course=episode.past,
        latest=now.observation,
        key=episode.task_id,
        localize=episode.localize,
    )
