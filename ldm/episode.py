"""The contract of environments and agents, and the Episode that stands between them.

An agent never holds the environment: it acts through an `Episode`, which records every step,
counts invalid actions, enforces the budget and hides the reward from agents that do not declare
that they see it.
"""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

from ldm.errors import ForkUnsupported, LdmError, ReplayDivergence, RunStopped
from ldm.reporting import Reporting
from ldm.types import Card, End, EpisodeResult, Note, Past, Step, Task, TimeStep, Trajectory, Usage

#: A score this close to 1 is a success in every environment here.
FULL_SCORE = 1.0 - 1e-9
#: Kind of the note that names the recorded model calls of an episode.
CALLS = "calls"
#: Sent and recorded in place of an empty action: "" marks a think step, and is no valid action.
NO_ACTION = "(no action)"
#: Characters of an observation in a message.
EXCERPT = 80

#: Option that names a file → the option with its digest, and the function that computes it.
Digests = Mapping[str, tuple[str, Callable[[Path], str]]]


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of agents and environments that have none."""


#: The card of an environment class whose instances make their own.
NO_CARD = Card(name="", rules="", actions=())


@runtime_checkable
class Environment(Protocol):
    """A world in text. `ldm.testing.EnvironmentContract` states what every one must satisfy."""

    card: Card

    @abstractmethod
    def protocol(self) -> Mapping[str, Any]:
        """Return the conditions of comparable scores, as JSON values: version, data hash, …"""

    @abstractmethod
    def tasks(self, split: str) -> Sequence[Task]:
        """Return a split's tasks in a fixed order. Raise LdmError for a missing split or data."""

    @abstractmethod
    def reset(self, task: Task) -> TimeStep:
        """Start or restart `task`; the observation is the opening."""

    @abstractmethod
    def step(self, action: str) -> TimeStep:
        """Execute `action`. An invalid one changes nothing and returns valid=False."""

    def localize(self, text: str) -> str:
        """Return a recorded action or observation in the words of the current task.

        Environments whose data come in several dialects translate here, so that a memory recorded
        in one works in the other.
        """
        return text

    def fork(self) -> Environment:
        """Return an independent copy in the same state. Raise ForkUnsupported if impossible."""
        raise ForkUnsupported(
            f"{type(self).__name__} cannot be copied.", "Define its method fork, or use another."
        )

    def close(self) -> None:
        """Release what the environment holds; closing twice is harmless."""


class EnvironmentBase(Environment):
    """Base of environment classes: it declares optional members in addition to `Environment`.

    A registered class is built from its options alone, and picklable factories build it.
    """

    #: A frozen dataclass with defaults for all its fields (`--env.field value`).
    Options: ClassVar[type[Any]] = NoOptions
    #: The split that `ldm eval` plays by default; every class defines it.
    default_split: ClassVar[str]
    #: Splits that `ldm refine` may explore; the first is the default.
    train_splits: ClassVar[tuple[str, ...]] = ()
    #: Origin, and packages or data that are needed, for `ldm envs`.
    paper: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    #: Data, splits and packages: `ldm.envs.metadata.Metadata`; None for its defaults.
    metadata: ClassVar[Any] = None
    card: Card = NO_CARD

    def __init__(self, options: Any) -> None:
        self.options = options

    def state(self) -> bytes:
        """Return the state of the running task as few bytes. Raise ForkUnsupported if impossible.

        They hold no code, and `restore` goes there in any process.
        """
        raise ForkUnsupported(
            f"{type(self).__name__} cannot save its state.",
            "Derive it from ldm.envs.ReplayedEnvironment, or define its methods state and restore.",
        )

    def restore(self, state: bytes) -> TimeStep:
        """Go to a state that `state` returned; return the last answer there."""
        raise ForkUnsupported(f"{type(self).__name__} has no states.", "Use another environment.")

    def prepare(self) -> None:
        """Load lazily loaded modules and data now, before threads run concurrently."""

    def as_shown(self, recorded: Trajectory) -> Trajectory:
        """Return a recorded episode with observations of the form that the options choose."""
        return recorded

    def solution(self, task: Task) -> str:
        """Return the solution of a training task in words, or "" if it is not disclosed."""
        return ""


class Agent(ABC):
    """Base of agents: it declares optional members; `name`, `budget` and `solve` are required.

    A registered class is built from its options and `ldm.agents.Resources`. Its published values
    for an environment are on that environment's card.
    """

    name: str
    #: Origin of the method, for `ldm agents` and tables.
    paper: ClassVar[str] = ""
    #: Whether it sees rewards, as every table shows.
    sees_reward: bool = False
    #: Whether it is shown the possible actions if it has no option `admissible`.
    sees_actions: ClassVar[bool] = True
    #: Names of the Resources that it cannot work without, e.g. ("memory", "reasoner").
    needs: ClassVar[Sequence[str]] = ()
    #: A frozen dataclass of hyper-parameters with the paper's defaults (`--agent.field value`).
    Options: ClassVar[type[Any]] = NoOptions
    #: Options that name files, which are recorded with their digests.
    digests: ClassVar[Digests] = {}
    #: What prompts show of `sources`, and how to show something else, for messages.
    source_noun: ClassVar[str] = "demonstrations"
    source_remedy: ClassVar[str] = (
        "show others with --agent.demonstrations FILE, or none with --agent.shots 0"
    )
    #: Measures, findings and trees for reports.
    reporting: ClassVar[Reporting] = Reporting()

    def __init__(self, options: Any, resources: Any) -> None:
        self.options = options
        self._resources = resources

    @classmethod  # noqa: B027 - agents may leave it
    def check(cls, card: Card, options: Any) -> None:
        """Raise LdmError if the agent cannot work in the environment of this card."""

    @classmethod  # noqa: B027 - agents may leave it
    def check_kinds(cls, options: Any, env: str, kinds: Collection[str]) -> None:
        """Raise LdmError if the agent cannot work on tasks of one of these kinds."""

    @classmethod
    def also_needs(cls, options: Any) -> Sequence[str]:
        """Return the names of Resources that these options need in addition to `needs`."""
        return ()

    @classmethod
    def shows_actions(cls, options: Any, card: Card) -> bool:
        """Return whether its model is shown the possible actions, as far as they are listed."""
        return bool(getattr(options, "admissible", cls.sees_actions))

    @classmethod
    def sources(cls, options: Any, env: str) -> Collection[str]:
        """Return the sources of the demonstrations in prompts, which may not be evaluated."""
        return ()

    @classmethod
    def notice(cls, options: Any) -> str:
        """Return a notice for users before the agent runs with these options, or ""."""
        return ""

    @classmethod
    def with_model(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return further options for new runs if a model is configured."""
        return {}

    @abstractmethod
    def budget(self, card: Card) -> int:
        """Return the maximum environment and think steps per trial in the environment of `card`."""

    @abstractmethod
    def solve(self, episode: Episode) -> None:
        """Work on the episode's task, in one or more trials."""


class EpisodeOver(Exception):
    """The end of an agent's trial, raised from within; `Episode.trial` catches it."""

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end = end


class Trial(NamedTuple):
    """A finished trial: its trajectory, and why it ended."""

    trajectory: Trajectory
    end: End


class Episode:
    """One agent at one task: the only way in which agents touch an environment."""

    def __init__(self, env: Environment, task: Task, *, budget: int, sees_reward: bool) -> None:
        """Prepare the episode. budget: steps per trial, at least 1."""
        if budget < 1:
            raise LdmError(f"The budget must be at least 1 step, not {budget}.", "Raise it.")
        self.goal = task.goal
        self.env_name = task.env
        self.kind = task.kind
        self.card = env.card
        self.budget = budget
        self.usage = Usage()
        self._env = env
        self._task = task
        self._sees_reward = sees_reward
        self._trials: list[Trial] = []
        self._submitted: int | None = None
        self._notes: list[Note] = []
        self._calls: list[tuple[int, int, str]] = []
        self._opening = ""
        self._steps: list[Step] | None = None
        self._now = TimeStep("")
        self._score = 0.0

    @property
    def task_id(self) -> str:
        """The task's id, for seeding and records; an agent must not decide by it."""
        return self._task.id

    @property
    def trials(self) -> int:
        """The number of trials started so far."""
        return len(self._trials) + (self._steps is not None)

    @property
    def now(self) -> TimeStep:
        """The current observation, without the reward unless the agent may see it."""
        return self._visible(self._now)

    @property
    def refused(self) -> tuple[str, ...]:
        """The actions that were refused since the last one that was not."""
        acted = [one for one in reversed(self._steps or ()) if one.action]
        return tuple(one.action for one in takewhile(lambda one: not one.valid, acted))

    @property
    def past(self) -> Past:
        """(o_1, a_1) … (o_{τ-1}, a_{τ-1}) of the running trial; think steps are skipped."""
        if self._steps is None:
            return ()
        acted = [s for s in self._steps if s.action]
        observations = [self._opening, *(s.observation for s in acted)]
        return tuple(zip(observations, (s.action for s in acted), strict=False))

    @property
    def effective(self) -> tuple[Past, str]:
        """The past without what was refused, and the last observation that is no refusal."""
        past, sight = list[tuple[str, str]](), self._opening
        for one in self._steps or ():
            if one.action and one.valid:
                past.append((sight, one.action))
                sight = one.observation
        return tuple(past), sight

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the running trial so far."""
        return tuple(self._steps or ())

    @property
    def steps_left(self) -> int:
        return self.budget - len(self._steps or ())

    def trial(self) -> AbstractContextManager[TimeStep, bool]:
        """Start a trial, as a context that yields the opening and catches EpisodeOver.

        Leaving the block before the task has ended counts as giving up.
        """
        return cast("AbstractContextManager[TimeStep, bool]", self._trial())

    @contextmanager
    def _trial(self) -> Iterator[TimeStep]:
        if self._steps is not None:
            raise RuntimeError("a trial is already running")
        self._begin()
        end: End = "gave_up"
        try:
            yield self.now
        except EpisodeOver as over:
            end = over.end
        except BaseException:
            end = "error"
            raise
        finally:
            self._trials.append(Trial(self._trajectory(), end))
            self._steps = None

    def _begin(self) -> None:
        self._now = checked(self._env.reset(self._task), self._task)
        self._opening = self._now.observation
        self._steps = []
        self._score = self._now.reward

    def restart(self, steps: Sequence[Step]) -> TimeStep:
        """End the running trial as given up, and repeat `steps` in another one.

        Raise as `repeat` does.
        """
        self._running()
        opening = self._opening
        self._trials.append(Trial(self._trajectory(), "gave_up"))
        self._begin()
        return self.repeat(opening, steps)

    def repeat(self, opening: str, steps: Sequence[Step]) -> TimeStep:
        """Take recorded steps again at the beginning of a trial; they count like all others.

        opening: the recorded one. Raise ReplayDivergence if an answer differs from the recorded
        one or ends the task, and EpisodeOver if the budget is spent.
        """
        self._compare("the opening", opening, self._now.observation)
        for number, step in enumerate(steps, 1):
            name = f"step {number} ({step.action or 'a thought'})"
            try:
                if step.action:
                    self.act(step.action, thought=step.thought)
                else:
                    self.think(step.thought)
            except EpisodeOver as over:
                if over.end == "done":
                    self._compare(name, "the task goes on", f"it ended ({over.end})")
                raise
            if step.action:
                self._compare(name, step.observation, self._now.observation)
        return self.now

    def _compare(self, name: str, expected: str, actual: str) -> None:
        if actual != expected:
            raise ReplayDivergence(
                f"{self.task_id}: repeating the same steps brought something else at {name}: "
                f"{actual[:EXCERPT]!r} instead of {expected[:EXCERPT]!r}.",
                "The environment is not deterministic, so no agent can return to its states.",
            )

    def act(
        self,
        action: str,
        *,
        thought: str = "",
        recalls: Sequence[tuple[str, float]] = (),
        followed: Sequence[int] | None = None,
    ) -> TimeStep:
        """Execute `action`. Raises EpisodeOver when that ends the task or uses up the budget.

        An empty action is bad model output like any other: an invalid action that is counted.
        recalls, followed: the basis of the action, for the record (`Step`).
        """
        steps = self._running()
        action = action if action.strip() else NO_ACTION
        outcome = checked(self._env.step(action), self._task)
        steps.append(
            Step(
                action=action,
                observation=outcome.observation,
                reward=outcome.reward,
                thought=thought,
                valid=outcome.valid,
                recalls=tuple(recalls),
                followed=None if followed is None else tuple(followed),
            )
        )
        self._score += outcome.reward
        self._now = outcome
        if outcome.done:
            raise EpisodeOver("done")
        self._spend()
        return self.now

    def think(self, thought: str) -> TimeStep:
        """Record a thought; it uses a step of the budget and does not affect the environment."""
        self._running().append(Step(action="", observation="", thought=thought))
        self._spend()
        return self.now

    def note(self, kind: str, **data: Any) -> None:
        """Record a note such as a plan, a reflection or a tree. Values must be JSON values."""
        self._notes.append(Note(kind, self.trials - 1, data))

    def spent(self, usage: Usage) -> None:
        """Add the cost of a model call to the episode's account."""
        self.usage = self.usage + usage

    def called(self, keys: Sequence[str]) -> None:
        """Record which calls of a recording were made for the next step of the running trial."""
        place = (self.trials - 1, len(self._steps or ()))
        self._calls += ((*place, key) for key in keys)

    def localize(self, text: str) -> str:
        """Return `text` in the words of the current task (see `Environment.localize`)."""
        return self._env.localize(text)

    def trajectory(self, trial: int) -> Trajectory:
        """Return a finished trial. Rewards are hidden unless the agent may see them."""
        trajectory = self._trials[trial].trajectory
        if self._sees_reward:
            return trajectory
        steps = tuple(replace(step, reward=0.0) for step in trajectory.steps)
        return replace(trajectory, steps=steps, score=0.0, success=False)

    def submit(self, trial: int) -> None:
        """Choose the trial that counts; without a call it is the last one."""
        if not 0 <= trial < len(self._trials):
            raise IndexError(f"trial {trial} of {len(self._trials)}")
        self._submitted = trial

    def _visible(self, step: TimeStep) -> TimeStep:
        return step if self._sees_reward else replace(step, reward=0.0)

    def _running(self) -> list[Step]:
        if self._steps is None:
            raise RuntimeError("act and think need a running trial: use `with episode.trial():`")
        if len(self._steps) >= self.budget or self._now.done:
            # An agent that caught EpisodeOver and continues gets it again.
            raise EpisodeOver("done" if self._now.done else "budget")
        return self._steps

    def _spend(self) -> None:
        if self.steps_left <= 0:
            raise EpisodeOver("budget")

    def _trajectory(self) -> Trajectory:
        score = min(1.0, max(0.0, self._score))
        return Trajectory(
            task=self._task,
            opening=self._opening,
            steps=tuple(self._steps or ()),
            score=score,
            success=score >= FULL_SCORE,
            origin="agent",
        )

    def _result(self, agent: str, seconds: float, error: str) -> EpisodeResult:
        acted = [s for trial in self._trials for s in trial.trajectory.steps if s.action]
        submitted = len(self._trials) - 1 if self._submitted is None else self._submitted
        final = self._trials[submitted] if self._trials else None
        end: End = "error" if error else final.end if final else "gave_up"
        return EpisodeResult(
            task=self._task,
            agent=agent,
            trials=len(self._trials),
            submitted=submitted,
            end=end,
            score=final.trajectory.score if final else 0.0,
            success=bool(final and final.trajectory.success and not error),
            env_steps=len(acted),
            invalid=sum(not s.valid for s in acted),
            usage=self.usage,
            seconds=round(seconds, 3),
            error=error,
            notes=(*self._notes, *self._call_notes()),
        )

    def _call_notes(self) -> Iterator[Note]:
        """Yield one note per trial: the recorded calls made for each of its steps."""
        for trial in sorted({trial for trial, _, _ in self._calls}):
            mine = [[step, key] for where, step, key in self._calls if where == trial]
            yield Note(CALLS, trial, {"calls": mine})


def checked(now: TimeStep, task: Task) -> TimeStep:
    """Return `now`; raise LdmError for an impossible reward, which would spoil all records."""
    if not -1 <= now.reward <= 1:  # nor is anything that is not a number
        raise LdmError(
            f"The environment of {task.id} gives the reward {now.reward!r}, "
            "which is not in [-1, 1].",
            "Correct the environment: the rewards of an episode add up to its score, in [0, 1].",
        )
    return now


def run_episode(
    env: Environment, agent: Agent, task: Task
) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    """Let `agent` solve `task`; return the result and the trajectories of all trials, in order.

    A failure inside the agent or the environment is data: end="error" with the traceback. Only
    KeyboardInterrupt, SystemExit and RunStopped propagate: the episode does not cause those.
    """
    started = time.perf_counter()
    episode = Episode(env, task, budget=agent.budget(env.card), sees_reward=agent.sees_reward)
    error = ""
    try:
        agent.solve(episode)
    except RunStopped:
        raise
    except Exception:  # one failed episode must not lose the others
        error = traceback.format_exc()
    result = episode._result(agent.name, time.perf_counter() - started, error)
    return result, tuple(trial.trajectory for trial in episode._trials)
