"""Gymnasium: importing this registers `ldm/ALFWorld-v0` and every other environment.

    import gymnasium, ldm.integrations.gym
    env = gymnasium.make("ldm/ALFWorld-v0", split="demo_train")

Observations and actions are texts; what is possible now is in info["admissible"]. Members of a
vector environment start from one state with `reset(options={"state": env.unwrapped.state()})`.
Further ids are in an environment's metadata, such as those of the package tale-suite for ALFWorld's
games of a kind, unless that is imported: `tales/ALFWorldPickAndPlaceSimpleSeen-v0`.
"""

from __future__ import annotations

import string
from typing import Any

import gymnasium
from gymnasium.spaces import Text

from ldm import registry
from ldm.envs import GROUP
from ldm.envs.metadata import metadata_of, registered
from ldm.integrations.panel import STEPS, Session

#: The longest text of an observation and of an action, in characters.
OBSERVATION, ACTION = 1 << 20, 1 << 12


class AnyText(Text):
    """Texts of any characters; samples are printable ASCII."""

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        """Return whether it is a text that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length


class TextEnvironment(gymnasium.Env[str, str]):
    """A session as a Gymnasium environment."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        env: str,
        split: str | None = None,
        max_steps: int = STEPS,
        render_mode: str | None = None,
        kind: str | None = None,
        **options: Any,
    ) -> None:
        """Open an environment; see `Session`. kind: of its tasks; None for all."""
        self.session = Session(env, split, max_steps, **options)
        if kind is not None:
            self.session.tasks = [task for task in self.session.tasks if task.kind == kind]
        self.observation_space, self.action_space = AnyText(OBSERVATION), AnyText(ACTION)
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start the task options["task"] (number or id), else that with the number `seed`.

        Without a seed one is drawn. options["state"] goes to a state instead.
        """
        super().reset(seed=seed)
        chosen = options or {}
        if "state" in chosen:
            now = self.session.restore(chosen["state"])
        else:
            drawn = int(self.np_random.integers(len(self.session.tasks)))
            now = self.session.reset(chosen.get("task", drawn if seed is None else seed))
        return now.observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Execute an action; an episode is truncated after `max_steps`."""
        now = self.session.step(action)
        ended, over = now.done, self.session.over
        return now.observation, now.reward, ended, over and not ended, self._info()

    def state(self) -> bytes:
        """Return the present state, for reset(options={"state": …})."""
        return self.session.state()

    def render(self) -> str:
        """Return the last observation."""
        return self.session.now.observation

    def close(self) -> None:
        """Release the environment."""
        self.session.close()

    def _info(self) -> dict[str, Any]:
        session = self.session
        return {
            "task": session.task.id if session.task else "",
            "goal": session.task.goal if session.task else "",
            "kind": session.task.kind if session.task else "",
            "admissible": list(session.now.admissible or ()),
            "valid": session.now.valid,
            "score": session.score,
        }


_IDS = {
    f"ldm/{path.rpartition(':')[2]}-v0": {"env": name}
    for name, path in registry.names({}, GROUP).items()
}
for _name, _class in registered()[0].items():
    for _id, _task in metadata_of(_class).gymnasium.items():
        _IDS[_id] = {"env": _name, **_task}
for _id in _IDS.keys() - gymnasium.registry.keys():
    gymnasium.register(_id, "ldm.integrations.gym:TextEnvironment", kwargs=_IDS[_id])
