"""Contract of every environment: subclass `EnvironmentContract` and name the environment."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from typing import Any, ClassVar

import pytest

from ldm.envs import load_env
from ldm.episode import Environment, Episode
from ldm.errors import ForkUnsupported, LdmError
from ldm.types import Task, TimeStep, stable_seed

_IN_ANOTHER_PROCESS = """
import json, pickle, sys
from ldm.envs import load_env
name, options, split, tasks, states, pickled = json.loads(sys.argv[1])
kind = load_env(name)
env = kind(kind.Options(**options))
listed = env.tasks(split)
openings = [env.reset(task).observation for task in listed[:tasks]]
restored = [env.restore(bytes.fromhex(state)).observation for state in states]
again = [pickle.loads(bytes.fromhex(one)).state().hex() for one in pickled]
print(json.dumps([[task.id for task in listed], openings, restored, again, env.protocol()]))
"""


class Contract:
    """What all contracts share: an environment, and its first tasks."""

    split: str
    tasks: int

    def make_env(self) -> Environment:
        raise NotImplementedError

    @pytest.fixture
    def env(self) -> Iterator[Environment]:
        env = self.make_env()
        yield env
        env.close()

    def some_tasks(self, env: Environment) -> list[Task]:
        return list(env.tasks(self.split)[: self.tasks])


class EnvironmentContract(Contract):
    """Define the environment's registered name (or module:Class), and how to test it.

    options: settings, as JSON values. split: the split whose first `tasks` tasks are played.
    actions: the actions to use if none are listed; they must not end a task. invalid: an action
    that is never possible.
    """

    name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    tasks = 3
    steps: ClassVar[int] = 6
    actions: ClassVar[tuple[str, ...]] = ()
    invalid: ClassVar[str] = "juggle the moon"

    def make_env(self) -> Environment:
        kind = load_env(self.name)
        return kind(kind.Options(**self.options))

    @pytest.fixture
    def other(self) -> Iterator[Environment]:
        other = self.make_env()
        yield other
        other.close()

    def walk(self, env: Environment, task: Task) -> list[tuple[str, TimeStep]]:
        """Return the (action, answer) pairs of a seeded random walk; ("", opening) first."""
        rng = random.Random(stable_seed("contract", task.id))
        now = env.reset(task)
        transitions = [("", now)]
        for _ in range(self.steps):
            action = rng.choice(now.admissible or self.actions)
            now = env.step(action)
            transitions.append((action, now))
            if now.done:
                break
        return transitions

    def test_its_class_declares_its_default_split_and_options(self, env: Environment) -> None:
        kind = load_env(self.name)
        assert isinstance(kind.default_split, str)
        assert kind.Options() == kind.Options()
        assert {field.name for field in fields(kind.Options)} >= set(self.options)
        assert pickle.loads(pickle.dumps(kind.Options(**self.options))) == kind.Options(
            **self.options
        )
        assert isinstance(env, Environment)
        assert env.card.name
        assert env.card.rules
        assert env.card.actions

    def test_tasks_are_listed_in_a_fixed_order(self, env: Environment, other: Environment) -> None:
        tasks = env.tasks(self.split)
        assert tasks
        assert list(tasks) == list(env.tasks(self.split)) == list(other.tasks(self.split))
        assert len({task.id for task in tasks}) == len(tasks)
        for task in tasks:
            assert task.split == self.split
            assert task.env
            assert task.goal
            assert not env.card.kinds or task.kind in env.card.kinds

    def test_an_unknown_split_is_named_with_a_remedy(self, env: Environment) -> None:
        with pytest.raises(LdmError, match="no such split here") as caught:
            env.tasks("no such split here")
        assert caught.value.remedy

    def test_the_protocol_is_json_and_does_not_depend_on_playing(
        self, env: Environment, other: Environment
    ) -> None:
        tasks = self.some_tasks(env)
        other.tasks(self.split)
        self.walk(env, tasks[0])
        assert json.loads(json.dumps(env.protocol())) == other.protocol()

    def test_another_process_with_another_hash_seed_sees_the_same(self, env: Any) -> None:
        states, pickled, answers = list[str](), list[str](), list[str]()
        with suppress(ForkUnsupported):
            for task in self.some_tasks(env):
                answers.append(self.walk(env, task)[-1][1].observation)
                states.append(env.state().hex())
                pickled.append(pickle.dumps(env).hex())
        arguments = json.dumps([self.name, self.options, self.split, self.tasks, states, pickled])
        answer = subprocess.run(
            [sys.executable, "-c", _IN_ANOTHER_PROCESS, arguments],
            env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        ids, openings, restored, again, protocol = json.loads(answer.stdout)
        assert restored == answers[: len(states)]
        assert again == states
        assert ids == [task.id for task in env.tasks(self.split)]
        assert openings == [env.reset(task).observation for task in self.some_tasks(env)]
        assert protocol == json.loads(json.dumps(env.protocol()))

    def test_replaying_reproduces_every_answer(self, env: Environment, other: Environment) -> None:
        for task in self.some_tasks(env):
            opening, *rest = self.walk(env, task)
            assert other.reset(task) == opening[1]
            for action, answer in rest:
                assert other.step(action) == answer

    def test_a_reset_starts_afresh(self, env: Environment) -> None:
        task = self.some_tasks(env)[0]
        assert self.walk(env, task) == self.walk(env, task)

    def test_listed_actions_are_valid(self, env: Environment) -> None:
        for task in self.some_tasks(env):
            for _, answer in self.walk(env, task):
                assert answer.valid
                assert answer.admissible is None or self.invalid not in answer.admissible

    def test_an_invalid_action_changes_nothing_and_is_flagged(
        self, env: Environment, other: Environment
    ) -> None:
        for task in self.some_tasks(env):
            before, *rest = (answer for _, answer in self.walk(env, task))
            actions = [action for action, _ in self.walk(env, task)][1:]
            other.reset(task)
            for action, answer in zip(actions, rest, strict=True):
                for junk in (self.invalid, ""):
                    refused = other.step(junk)
                    assert not refused.valid
                    assert not refused.done
                    assert refused.reward == 0.0
                    assert refused.admissible == before.admissible
                assert other.step(action) == answer
                before = answer

    def test_an_invalid_action_is_counted(self, env: Environment) -> None:
        task = self.some_tasks(env)[0]
        episode = Episode(env, task, budget=3, sees_reward=False)
        with episode.trial():
            for _ in range(4):
                episode.act(self.invalid)
        (step, *_) = episode.trajectory(0).steps
        assert not step.valid
        assert len(episode.trajectory(0).steps) == 3

    @pytest.mark.parametrize("way", ["fork", "restore"])
    def test_a_copy_goes_on_by_itself_in_the_same_way(self, env: Any, other: Any, way: str) -> None:
        for task in self.some_tasks(env):
            transitions = self.walk(env, task)
            half = (len(transitions) + 1) // 2
            now = env.reset(task)
            for action, _ in transitions[1:half]:
                now = env.step(action)
            env.step(self.invalid)
            try:
                if way == "restore":
                    assert other.restore(env.state()) == now
                twin = other if way == "restore" else env.fork()
            except ForkUnsupported as error:
                pytest.skip(str(error))
            for one in (twin, env):
                for action, answer in transitions[half:]:
                    assert one.step(action) == answer
            twin.close()

    def test_localizing_twice_changes_no_more(self, env: Environment) -> None:
        for action, answer in self.walk(env, self.some_tasks(env)[0]):
            for text in (action, answer.observation):
                assert env.localize(env.localize(text)) == env.localize(text)

    def test_closing_twice_is_harmless(self) -> None:
        env = self.make_env()
        env.reset(self.some_tasks(env)[0])
        env.close()
        env.close()
        self.make_env().close()
