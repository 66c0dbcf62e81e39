"""Several evaluations at once: agents × generations × control × sweep, and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ldm.errors import LdmError
from ldm.options import ENV_PREFIX, Settings, normalise, sorted_settings
from ldm.run.builders import agent_needs, option_names
from ldm.run.specs import EvaluationSpec, PlanSpec

if TYPE_CHECKING:
    from ldm.llm.models import ModelOptions
    from ldm.run.results import Report
    from ldm.run.runtime import Runtime


#: Options of models that can be swept.
MODELS = ("llm", "planner_llm", "reasoner_llm")


@dataclass(frozen=True, slots=True)
class Grid:
    """What an evaluation is multiplied by.

    agents: () for the spec's own. generations: further ones of the memory, None for the newest.
    control: "random" or "none", tuples of which each agent with such an option is evaluated, too.
    sweep: "NAME=A,B,C", an agent option and its values; "env.NAME=…" of the environment, "llm=…" or
    "planner_llm=…" of the models. repeats: how often every task is played,
    each time with the next seed.
    """

    agents: tuple[str, ...] = ()
    generations: tuple[int | None, ...] = ()
    control: Literal["random", "none"] | None = None
    sweep: str | None = None
    repeats: int = 1

    def __post_init__(self) -> None:
        normalise(self)
        if self.repeats < 1:
            raise LdmError(f"{self.repeats} repeats leave nothing to run.", "Use at least 1.")

    def specs(self, spec: EvaluationSpec, runtime: Runtime) -> list[EvaluationSpec]:
        """Return all evaluations: each agent's, followed by those it is compared with.

        Raises LdmError where an option belongs to no agent, or a control to none.
        """
        return self.multiplied(_per_agent(spec, self.agents, runtime))

    def multiplied(self, specs: Sequence[EvaluationSpec]) -> list[EvaluationSpec]:
        """Return the specs with their generations and controls, for each value of the sweep.

        Repeats of one follow each other. Raises LdmError as `specs`.
        """
        return [
            replace(spec, seed=spec.seed + number, repeat=number + 1)
            for spec in _swept(self._compared(specs), self.sweep)
            for number in range(self.repeats)
        ]

    def _compared(self, specs: Sequence[EvaluationSpec]) -> list[EvaluationSpec]:
        """Return each spec followed by its other generations and its control.

        Of several agents only those that recall tuples are evaluated with other generations.
        """
        result: list[EvaluationSpec] = []
        alone = len(specs) == 1
        controllable = [spec for spec in specs if "control" in option_names(spec)]
        for spec in specs:
            result.append(spec)
            if alone or "memory" in agent_needs(spec):
                result += (replace(spec, generation=g, memory_digest="") for g in self.generations)
            if self.control is not None and spec in controllable:
                result.append(with_option(spec, "control", self.control))
        if self.control is not None and not controllable:
            name = f"The agent {specs[0].agent} recalls" if alone else "These agents recall"
            raise LdmError(
                f"{name} no tuples, so there is nothing to control for.", "Leave out --control."
            )
        return result


def with_option(spec: EvaluationSpec, name: str, value: str) -> EvaluationSpec:
    """Return the spec with one more agent option."""
    return replace(spec, agent_options=sorted_settings({**dict(spec.agent_options), name: value}))


def with_env_option(spec: EvaluationSpec, name: str, value: str) -> EvaluationSpec:
    """Return the spec with one more option of the environment, "env.NAME"."""
    options = {**dict(spec.env_options), name.removeprefix(ENV_PREFIX): value}
    return replace(spec, env_options=sorted_settings(options))


def fitting(options: Settings, spec: EvaluationSpec) -> Settings:
    """Return those of the options that the spec's agent has."""
    known = option_names(spec)
    return tuple(option for option in options if option[0] in known)


def say_limits(
    specs: Sequence[EvaluationSpec | PlanSpec], models: ModelOptions, runtime: Runtime
) -> None:
    """Say that limits on cost hold for each run, where several runs call models."""
    calling = [spec for spec in specs if spec.roles(models)]
    limits = {
        "--max-usd": models.max_usd,
        "--max-tokens": models.max_tokens,
        "--max-calls": models.max_calls,
    }
    names = [option for option, value in limits.items() if value is not None]
    if names and len(calling) > 1:
        runtime.message(f"{', '.join(names)}: the limit applies to each of {len(calling)} runs.")


def repeated(specs: Sequence[EvaluationSpec]) -> list[list[int]]:
    """Return the places of specs that are repeats of the same, in order of the first of each."""
    groups: dict[EvaluationSpec, list[list[int]]] = {}
    for place, spec in enumerate(specs):
        first = replace(spec, seed=spec.seed - spec.repeat + 1, repeat=1)
        known = groups.setdefault(first, [])
        for group in known:
            if all(specs[other].repeat != spec.repeat for other in group):
                group.append(place)
                break
        else:
            known.append([place])
    return sorted((group for known in groups.values() for group in known), key=min)


def label(spec: EvaluationSpec) -> str:
    """Return the agent, and whether it is a control, for tables and run ids."""
    control = dict(spec.agent_options).get("control")
    return f"{spec.agent} control={control}" if control else spec.agent


def subject(spec: EvaluationSpec) -> tuple[str, ...]:
    """Return what the id of a run begins with."""
    name = label(spec).rpartition(":")[2]
    repeat = f"repeat_{spec.repeat}" if spec.repeat > 1 else ""
    return spec.env.rpartition(":")[2], spec.split, name, repeat, spec.shard.replace("/", "of")


def hidden_words(spec: EvaluationSpec) -> str:
    """Return what of the memory the evaluation leaves out, in words; "" for nothing.

    A single id is named, several are counted.
    """
    words = [
        f"{noun} {ids[0]}" if len(ids) == 1 else f"{len(ids)} {plural}"
        for noun, plural, ids in (
            ("tuple", "tuples", spec.without_tuples),
            ("trajectory", "trajectories", spec.without_trajectories),
        )
        if ids
    ]
    return f"without {' and '.join(words)}" if words else ""


def labelled(specs: Sequence[EvaluationSpec], reports: Sequence[Report]) -> tuple[Report, ...]:
    """Return the reports under labels that tell them apart, see `labels`."""
    return tuple(
        replace(report, label=name) for report, name in zip(reports, labels(specs), strict=True)
    )


def labels(specs: Sequence[EvaluationSpec]) -> list[str]:
    """Return labels that tell evaluations apart: agent, memory generation, agent options."""
    numbers = {spec.generation for spec in specs if spec.memory_digest}
    names = [
        f"{label(spec)} generation {spec.generation}"
        if len(numbers) > 1 and spec.memory_digest
        else label(spec)
        for spec in specs
    ]
    hidden = [hidden_words(spec) for spec in specs]
    if len(set(hidden)) > 1:
        names = [" ".join(filter(None, pair)) for pair in zip(names, hidden, strict=True)]
    result = []
    for spec, name in zip(specs, names, strict=True):
        alike = [options_of(s) for s, n in zip(specs, names, strict=True) if n == name]
        options = options_of(spec)
        differing = [
            f"{option}={options.get(option, 'default')}"
            for option in sorted({option for others in alike for option in others})
            if len({others.get(option) for others in alike}) > 1
        ]
        result.append(" ".join([name, *differing]))
    return result


def options_of(spec: EvaluationSpec) -> dict[str, str]:
    """Return what may differ between evaluations of an agent, by the names that sweeps have."""
    named = {ENV_PREFIX + name: value for name, value in spec.env_options}
    return {**dict(spec.agent_options), **named, **dict(spec.models)}


def _per_agent(
    spec: EvaluationSpec, agents: Sequence[str], runtime: Runtime
) -> list[EvaluationSpec]:
    """Return a spec for each agent, each with those of the options that the agent has."""
    if len(agents) < 2:
        return [replace(spec, agent=agents[0])] if agents else [spec]
    specs = [replace(spec, agent=agent, agent_options=()) for agent in agents]
    return with_options(specs, spec.agent_options, runtime)


def with_options(
    specs: Sequence[EvaluationSpec], options: Settings, runtime: Runtime
) -> list[EvaluationSpec]:
    """Return the specs, each with those of the options that its agent has, and says which has not.

    What else has no effect on an agent is left out. Raises LdmError where no agent has an option.
    """
    known = {one.agent: option_names(one) for one in specs}
    for name, value in options:
        lacking = [agent for agent in known if name not in known[agent]]
        if len(lacking) == len(known):
            raise LdmError(
                f"None of the agents {', '.join(known)} has an option {name!r}.",
                "See what each has: ldm agents.",
            )
        if lacking:
            runtime.message(f"--set {name}={value} has no effect on {', '.join(lacking)}.")
    return [_fitted(one, options) for one in specs]


def _fitted(spec: EvaluationSpec, options: Settings) -> EvaluationSpec:
    """Return the spec of one of several agents with further options, those that it has."""
    own = {**dict(spec.agent_options), **dict(fitting(options, spec))}
    spec = replace(spec, agent_options=sorted_settings(own))
    if "memory" in agent_needs(spec):
        return spec
    return replace(spec, without_tuples=(), without_trajectories=())


def _swept(specs: Sequence[EvaluationSpec], sweep: str | None) -> list[EvaluationSpec]:
    """Return each spec once for every value of the sweep, where its agent has that option."""
    if sweep is None:
        return list(specs)
    name, values = sweep_values(sweep)
    if name.startswith(ENV_PREFIX):
        return [with_env_option(spec, name, value) for spec in specs for value in values]
    if (option := name.replace("-", "_")) in MODELS:
        return [replace(spec, models=((option, value),)) for spec in specs for value in values]
    if not any(name in option_names(spec) for spec in specs):
        agents = ", ".join(dict.fromkeys(spec.agent for spec in specs))
        raise LdmError(f"{agents} has no option {name!r} to sweep.", "See: ldm agents.")
    result: list[EvaluationSpec] = []
    for spec in specs:
        if name in option_names(spec):
            result += (with_option(spec, name, value) for value in values)
        else:
            result.append(spec)
    return result


def sweep_values(sweep: str) -> tuple[str, list[str]]:
    """Return name and values of a sweep, "NAME=A,B,C". Raises LdmError where it is none."""
    name, _, text = (part.strip() for part in sweep.partition("="))
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not name or not values:
        raise LdmError(f"--sweep {sweep} is not NAME=A,B,C.", "For example --sweep d_max=1,2,3.")
    return name, values
