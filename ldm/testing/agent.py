"""Contract of every agent: subclass `AgentContract` and define an agent and an environment.

`ScriptedModel` is a language model that follows a script, for tests of agents and reasoners.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import pytest

from ldm.episode import Agent, Environment, run_episode
from ldm.errors import ContextTooLong
from ldm.llm import GREEDY, CallOptions, Completion, Message, Sampling
from ldm.llm.answers import form_of
from ldm.testing.environment import Contract
from ldm.types import EpisodeResult, Task, TimeStep, Trajectory, Usage

#: A reply: its text, or an object that is written as JSON.
Reply = str | Mapping[str, Any]


class ScriptedModel:
    """Replies as the script says, and keeps the requests.

        model = ScriptedModel(["Act: look", "Act: take mug"], then="Act: stop")

    As with a real model, a reply ends at a stop sequence, and is malformed if it does not fit the
    schema. requests: (messages, sampling) of each request; schemas: its schema or None.
    """

    name = "scripted"

    def __init__(
        self,
        script: Iterable[Reply] | Callable[[Sequence[Message], Sampling], Reply],
        *,
        then: Reply | None = None,
        room: int | None = None,
    ) -> None:
        """Take the replies in order, or a function of messages and sampling.

        then: the reply to all further requests; None makes them fail. room: maximum characters of a
        request; a longer one raises ContextTooLong.
        """
        replies = iter(() if callable(script) else script)
        self._reply: Callable[[Sequence[Message], Sampling], Reply | None]
        self._reply = script if callable(script) else lambda *_: next(replies, then)
        self._room = room
        self.requests: list[tuple[Sequence[Message], Sampling]] = []
        self.schemas: list[type[Any] | None] = []

    def complete(self, messages: Sequence[Message], **options: Unpack[CallOptions]) -> Completion:
        """Return the scripted reply; a token is four characters."""
        size = sum(len(message.content) for message in messages)
        if self._room is not None and size > self._room:
            raise ContextTooLong("There is no room for the request.", "Shorten it.")
        schema, sampling = options.get("schema"), options.get("sampling", GREEDY)
        self.requests.append((messages, sampling))
        self.schemas.append(schema)
        reply = self._reply(messages, sampling)
        assert reply is not None, "the script has no further reply"
        text = reply if isinstance(reply, str) else json.dumps(reply)
        for mark in options.get("stop", ()):
            text = text.partition(mark)[0]
        usage = Usage(1, size // 4, 0, len(text) // 4)
        if schema is None:
            return Completion(text, usage)
        value, _ = form_of(schema).read(text)
        return Completion(text, usage, value, malformed=value is None)


class Onlooker:
    """A wrapper of an environment that records all resets and actions, and can alter rewards."""

    def __init__(self, env: Environment, bonus: float = 0.0) -> None:
        self._env = env
        self._bonus = bonus
        self.card = env.card
        self.resets: list[str] = []
        self.actions: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._env, name)

    def reset(self, task: Task) -> TimeStep:
        self.resets.append(task.id)
        return self._env.reset(task)

    def step(self, action: str) -> TimeStep:
        self.actions.append(action)
        answer = self._env.step(action)
        return replace(answer, reward=answer.reward + self._bonus)


class AgentContract(Contract):
    """Override `make_agent` (a new agent with this seed and budget) and `make_env`.

    tasks: how many tasks of `split` are played.
    """

    split = "test"
    tasks = 4

    def make_agent(self, seed: int = 0, budget: int | None = None) -> Agent:
        raise NotImplementedError

    def test_it_is_an_agent(self, env: Environment) -> None:
        agent = self.make_agent()
        assert isinstance(agent, Agent)
        assert agent.name
        assert isinstance(agent.sees_reward, bool)
        assert agent.budget(env.card) >= 1

    def test_every_episode_comes_to_an_end_without_an_error(self, env: Environment) -> None:
        agent = self.make_agent()
        for task in self.some_tasks(env):
            result, trajectories = run_episode(env, agent, task)
            assert result.error == ""
            assert result.end in ("done", "budget", "gave_up")
            assert 1 <= result.trials == len(trajectories)
            assert 0 <= result.submitted < result.trials

    def test_the_budget_ends_every_trial(self, env: Environment) -> None:
        agent = self.make_agent(budget=2)
        for task in self.some_tasks(env):
            result, trajectories = run_episode(env, agent, task)
            assert result.error == ""
            assert all(len(trajectory.steps) <= 2 for trajectory in trajectories)

    def test_everything_it_does_is_recorded(self, env: Environment) -> None:
        for task in self.some_tasks(env):
            onlooker = Onlooker(env)
            result, trajectories = run_episode(onlooker, self.make_agent(), task)  # type: ignore[arg-type]
            acted = [s.action for t in trajectories for s in t.steps if s.action]
            assert acted == onlooker.actions
            assert result.env_steps == len(acted)
            assert onlooker.resets == [task.id] * result.trials

    def test_a_recorded_trial_replays(self, env: Environment) -> None:
        for task in self.some_tasks(env):
            for trajectory in run_episode(env, self.make_agent(), task)[1]:
                assert env.reset(task).observation == trajectory.opening
                for step in trajectory.steps:
                    if step.action:
                        answer = env.step(step.action)
                        assert (answer.observation, answer.valid) == (step.observation, step.valid)

    def test_each_trial_starts_the_task_afresh(self, env: Environment) -> None:
        for task in self.some_tasks(env):
            trajectories = run_episode(env, self.make_agent(), task)[1]
            assert len({trajectory.opening for trajectory in trajectories}) == 1

    def test_the_same_seed_gives_the_same_actions(self, env: Environment) -> None:
        for task in self.some_tasks(env):
            first = run_episode(env, self.make_agent(seed=3), task)
            second = run_episode(env, self.make_agent(seed=3), task)
            assert _without_time(first) == _without_time(second)

    def test_a_task_does_not_depend_on_those_before_it(self, env: Environment) -> None:
        agent = self.make_agent()
        tasks = self.some_tasks(env)
        forward = [run_episode(env, agent, task) for task in tasks]
        backward = [run_episode(env, agent, task) for task in reversed(tasks)]
        assert [_without_time(x) for x in forward] == [_without_time(x) for x in reversed(backward)]

    def test_it_sees_no_reward_unless_it_declares_so(self, env: Environment) -> None:
        """Altered rewards do not change what such an agent does."""
        agent = self.make_agent()
        if agent.sees_reward:
            pytest.skip(f"{agent.name} declares that it sees rewards")
        for task in self.some_tasks(env):
            plain = run_episode(env, agent, task)[1]
            altered = run_episode(Onlooker(env, bonus=-0.25), agent, task)[1]  # type: ignore[arg-type]
            assert [_actions(t) for t in plain] == [_actions(t) for t in altered]


def _without_time(
    result: tuple[EpisodeResult, tuple[Trajectory, ...]],
) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    return replace(result[0], seconds=0.0), result[1]


def _actions(trajectory: Trajectory) -> list[tuple[str, str]]:
    return [(step.action, step.thought) for step in trajectory.steps]
