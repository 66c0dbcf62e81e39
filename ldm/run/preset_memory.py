"""A preset for formation and refinement: how a paper made the memory that its table evaluates.

What is asked for beside the preset wins, option by option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ldm.errors import LdmError
from ldm.options import Settings, sorted_settings
from ldm.run.presets import Preset, Refine, Value, list_presets, written
from ldm.run.specs import RefinementSpec

Stage = Literal["build", "refine"]


def stage_preset(name: str, env: str, stage: Stage) -> Preset:
    """Return the preset of this name that says how a memory of `env` is built or refined.

    name: as for `list_presets`. env: "" where the name stands for one environment alone.
    Raises LdmError where there is none, or where several would fit.
    """
    known = [one for one in list_presets(name) if getattr(one.content, stage) is not None]
    fitting = [one for one in known if env in ("", one.env)]
    if len(fitting) == 1:
        return fitting[0]
    if not known:
        raise LdmError(
            f"The preset {name!r} does not say how a memory is made.",
            "Leave out --preset, or name one of `ldm presets list` that has a memory.",
        )
    raise LdmError(
        f"The preset {name!r} is of {' and '.join(sorted(one.env for one in known))}"
        + (f", not of {env}." if env else "."),
        "Name one of these environments with --env.",
    )


def build_settings(name: str, env: str) -> dict[str, Any]:
    """Return what a preset says of how a memory is built: fields of `BuildOptions`.

    name, env: as for `stage_preset`, whose errors it raises.
    """
    chosen = stage_preset(name, env, "build")
    assert chosen.content.build is not None  # noqa: S101 - `stage_preset` has looked
    values = {"env": chosen.env, **asdict(chosen.content.build)}
    return {field: value for field, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RefinementPreset:
    """What the preset of an environment says of a refinement."""

    env: str
    settings: Refine

    @classmethod
    def named(cls, name: str, env: str) -> RefinementPreset:
        """Return what the preset says. Raises what `stage_preset` raises."""
        chosen = stage_preset(name, env, "refine")
        assert chosen.content.refine is not None  # noqa: S101 - `stage_preset` has looked
        return cls(chosen.env, chosen.content.refine)

    def spec(self, own: RefinementSpec) -> RefinementSpec:
        """Return the refinement with what the preset says where nothing else is asked for."""
        return replace(
            own,
            env=self.env,
            split=own.split or self.settings.split,
            env_options=_merged(self.settings.env_options, own.env_options),
            policy_options=_merged(self.settings.policy_options, own.policy_options),
            options=_merged(self.settings.options, own.options),
            gate_options=_merged(self.settings.gate_options, own.gate_options),
        )


def _merged(published: Mapping[str, Value], own: Settings) -> Settings:
    return sorted_settings({**dict(written(published)), **dict(own)})
