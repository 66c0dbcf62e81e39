"""TRL: environments for `GRPOTrainer(environment_factory=…)`, and the rows of their tasks.

    GRPOTrainer(model, train_dataset=Dataset.from_list(rows("alfworld", "train")),
                environment_factory=factory("alfworld", "train"), …)

TRL itself is not imported: it takes any class with `reset`, tools as methods, and `get_reward`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ldm.integrations.panel import STEPS, Session


class TextTask:
    """One rollout: the model calls `act` until the task is over."""

    def __init__(
        self, env: str, split: str | None = None, max_steps: int = STEPS, **options: Any
    ) -> None:
        """Open an environment; see `Session`."""
        self._session = Session(env, split, max_steps, **options)

    def reset(self, task: str | int = 0, **row: Any) -> str:
        """Start the task of a row; return the opening."""
        return _text(self._session, self._session.reset(task).observation)

    def act(self, action: str) -> str:
        """Do something in the world, and see what happens.

        Args:
            action: The action in words, one of those that are possible.

        Returns:
            What is seen then.
        """
        if self._session.over:
            return "The task is over."
        return _text(self._session, self._session.step(action).observation)

    def get_reward(self) -> float:
        """Return the score, as `ldm eval` counts it."""
        return self._session.score


def factory(
    env: str, split: str | None = None, max_steps: int = STEPS, **options: Any
) -> Callable[[], TextTask]:
    """Return what makes an environment for each rollout."""
    return functools.partial(TextTask, env, split, max_steps, **options)


def rows(env: str, split: str | None = None, **options: Any) -> list[dict[str, Any]]:
    """Return a row for each task of a split: the prompt with the rules, and the task's id."""
    session = Session(env, split, **options)
    prompt = [{"role": "user", "content": f"{session.describe()}\n\n"}]
    ids = [task.id for task in session.tasks]
    session.close()
    return [{"prompt": prompt, "task": name} for name in ids]


def _text(session: Session, observation: str) -> str:
    if session.now.done:
        return f"{observation}\nThe task is over."
    if not session.now.admissible:
        return observation
    return f"{observation}\nPossible: {', '.join(session.now.admissible)}"
