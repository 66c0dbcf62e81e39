"""OpenEnv: an environment as a server of many sessions.

    app = server("alfworld", "demo_train")        # serve it with uvicorn

A reset takes `task` (a number or an id) or `state`: the state that the protocol's own /state call
returns as `saved`, so that one session is continued, or forked, in others.
"""

from __future__ import annotations

import base64
import binascii
import functools
from typing import Any

from openenv.core.env_server import Environment, create_app
from openenv.core.env_server.types import Action, Observation, State

from ldm.errors import LdmError
from ldm.integrations.panel import STEPS, Session

#: Sessions of one server at a time.
SESSIONS = 256


class TextAction(Action):
    """What to do, in words."""

    command: str


class TextObservation(Observation):
    """What is seen. score: of the episode so far, in [0, 1]."""

    text: str
    goal: str = ""
    admissible: tuple[str, ...] = ()
    valid: bool = True
    score: float = 0.0


class TextState(State):
    """Where a session stands. saved: its state, which `reset(state=…)` goes to."""

    task: str = ""
    saved: str = ""


class TextWorld(Environment[TextAction, TextObservation, TextState]):
    """A session as an environment of OpenEnv."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self, env: str, split: str | None = None, max_steps: int = STEPS, **options: Any
    ) -> None:
        """Open an environment; see `Session`."""
        super().__init__()
        self._session = Session(env, split, max_steps, **options)
        self._id: str | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task: str | int | None = None,
        state: str | None = None,
        **more: Any,
    ) -> TextObservation:
        """Start a task, that of the seed by default, or go to a saved state."""
        self._id = episode_id
        if state is None:
            self._session.reset(task if task is not None else seed or 0)
            return self._observation(None)
        try:
            saved = base64.b64decode(state, validate=True)
        except binascii.Error:
            raise LdmError("This is no saved state.", "Pass `saved` of a state.") from None
        self._session.restore(saved)
        return self._observation(None)

    def step(
        self, action: TextAction, timeout_s: float | None = None, **more: Any
    ) -> TextObservation:
        """Execute an action."""
        return self._observation(self._session.step(action.command).reward)

    @property
    def state(self) -> TextState:
        """Where the session stands."""
        one = self._session
        if one.task is None:
            return TextState(episode_id=self._id)
        saved = base64.b64encode(one.state()).decode()
        return TextState(episode_id=self._id, step_count=one.steps, task=one.task.id, saved=saved)

    def close(self) -> None:
        """Release the environment."""
        self._session.close()

    def _observation(self, reward: float | None) -> TextObservation:
        one, now = self._session, self._session.now
        return TextObservation(
            text=now.observation,
            goal=one.task.goal if one.task else "",
            admissible=now.admissible or (),
            valid=now.valid,
            score=one.score,
            reward=reward,
            done=one.over,
        )


def server(env: str, split: str | None = None, max_steps: int = STEPS, **options: Any) -> Any:
    """Return an application that gives each client a session of its own."""
    made = functools.partial(TextWorld, env, split, max_steps, **options)
    return create_app(made, TextAction, TextObservation, env, max_concurrent_envs=SESSIONS)
