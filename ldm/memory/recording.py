"""Recording an episode step by step as a trajectory."""

from __future__ import annotations

from dataclasses import dataclass, field

from ldm.errors import LdmError
from ldm.types import Origin, Step, Task, Trajectory, stable_hash

#: The split of recorded tasks.
SPLIT = "train"


@dataclass
class Recording:
    """An episode in progress: `step` records each action, `finish` the end."""

    env: str
    goal: str
    kind: str = ""
    source: str = ""
    origin: Origin = "agent"
    _observations: list[str] = field(default_factory=list)
    _actions: list[str] = field(default_factory=list)
    _rewards: list[float | None] = field(default_factory=list)
    _end: str = ""
    _score: float | None = None

    def step(self, observation: str, action: str, reward: float | None = None) -> None:
        """Record an observation, the action that followed it, and its reward.

        reward: in [-1, 1]; the sum of rewards is the score. None if it is not known (`finish`).
        """
        if not action.strip():
            raise ValueError("the action of a step must not be empty")
        if reward is not None and not -1 <= reward <= 1:
            raise ValueError("a reward is a number from -1 to 1")
        self._observations.append(observation)
        self._actions.append(action)
        self._rewards.append(reward)

    def finish(self, score: float | None = None, observation: str = "") -> None:
        """Record the end of the episode.

        score: in [0, 1], 1 for a success and 0 for a failure; None for the sum of the rewards.
        observation: the one after the last action.
        """
        if score is not None and not 0 <= score <= 1:
            raise ValueError("a score is a number from 0 to 1")
        self._score = score
        self._end = observation

    def trajectory(self) -> Trajectory | None:
        """Return the recorded trajectory, or None if there is no step.

        Raises LdmError if there is neither a score nor a reward.
        """
        if not self._actions:
            return None
        rewards = [reward or 0.0 for reward in self._rewards]
        if self._score is None and all(reward is None for reward in self._rewards):
            raise LdmError(
                f"The episode {self.goal!r} ended without a score or a reward.",
                "Give a step its reward, or call finish(score=1) for a success and"
                " finish(score=0) for a failure.",
            )
        score = min(1.0, max(0.0, sum(rewards))) if self._score is None else float(self._score)
        answers = [*self._observations[1:], self._end]
        steps = tuple(
            Step(action, answer, reward)
            for action, answer, reward in zip(self._actions, answers, rewards, strict=True)
        )
        name = stable_hash(self.goal, self.kind, self.source, score)
        task = Task(f"recorded/{name}", self.env, SPLIT, self.goal, self.kind, self.source)
        return Trajectory(task, self._observations[0], steps, score, score >= 1, self.origin)
