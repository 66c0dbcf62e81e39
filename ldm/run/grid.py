"""Several evaluations at once, agents × generations × control × sweep × repeats, and labels.

The cost of model calls is told before they are paid: extrapolated from a sample, or a bound.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ldm.config import Evaluate, OptimisePlan, Section, dump, written
from ldm.errors import LdmError
from ldm.llm.models import ModelOptions, listed
from ldm.run.builders import agent_needs, option_names, roles
from ldm.run.runtime import Runtime
from ldm.types import Usage

#: The number of items measured.
SAMPLE = 6


def extrapolate(sample: Sequence[float], total: int) -> tuple[float, ...]:
    """Return (expected, low, high) of the total over `total` items, of which some were measured.

    low, high: if all others were like the least, and like the most, of these.
    """
    measured, others = sum(sample), max(0, total - len(sample))
    return tuple(measured + others * of(sample) for of in (statistics.fmean, min, max))


def cost_lines(usages: Sequence[Usage], total: int, options: ModelOptions, items: str) -> list[str]:
    """Return lines on the cost of `total` items, given the `usages` of some of them.

    items: their noun, e.g. "tasks".
    """
    from ldm.llm.meter import load_prices, price_of

    table = load_prices(Path(options.prices) if options.prices else None)
    listing = [price_of(model, table) for model in options.roles().values()]
    prices = [price for price in listing if price is not None]
    measured = {
        "model calls": [float(usage.calls) for usage in usages],
        "tokens": [float(usage.tokens) for usage in usages],
    }
    if len(prices) == len(listing):  # of several models the highest, so that no promise is broken
        measured["USD"] = [max(price.of(usage) for price in prices) for usage in usages]
    lines = [f"Measured on {len(usages)} of {total} {items}; all of them will take about"]
    for unit, values in measured.items():
        digits = 4 if unit == "USD" else 0
        expected, low, high = (f"{one:,.{digits}f}" for one in extrapolate(values, total))
        lines.append(f"  {expected} {unit} ({low} to {high})")
    lines.append("  (in brackets: if all others were like the least, and the most, of those).")
    unknown = f"  The price of {listed(options.roles())} is unknown; --prices FILE gives it."
    return lines if "USD" in measured else [*lines, unknown]


#: Model options that can be swept.
MODELS = ("llm", "planner_llm", "reasoner_llm")


@dataclass(frozen=True, slots=True)
class Grid:
    """The variations of an evaluation.

    agents: () for the spec's own. generations: further ones of the memory, None for the newest.
    control: also evaluate each agent that has the option "control" with it. sweep: "NAME=A,B,C"
    with agent.NAME, env.NAME or models.NAME (llm, planner_llm, reasoner_llm). repeats: evaluations
    of every task, each with the next seed. Raises LdmError for fewer than one repeat.
    """

    agents: tuple[str, ...] = ()
    generations: tuple[int | None, ...] = ()
    control: Literal["random", "none"] | None = None
    sweep: str | None = None
    repeats: int = 1

    def __post_init__(self) -> None:
        check_repeats(self.repeats)

    def specs(self, spec: Evaluate, runtime: Runtime) -> list[Evaluate]:
        """Return all evaluations: each agent's, followed by those it is compared with.

        Raises LdmError for an option of no agent, and for a control of none.
        """
        if len(self.agents) < 2:
            name = self.agents[0] if self.agents else spec.agent.name
            return self.multiplied([replace(spec, agent=Section(name, spec.agent.given))])
        specs = [replace(spec, agent=Section(agent)) for agent in self.agents]
        return self.multiplied(with_options(specs, spec.agent, runtime))

    def multiplied(self, specs: Sequence[Evaluate]) -> list[Evaluate]:
        """Expand the specs by generation, control, sweep value and repeat, in this order.

        Raises LdmError as `specs`.
        """
        return [
            replace(spec, seed=spec.seed + number, repeat=number + 1)
            for spec in _swept(self._compared(specs), self.sweep)
            for number in range(self.repeats)
        ]

    def _compared(self, specs: Sequence[Evaluate]) -> list[Evaluate]:
        """Return each spec followed by its other generations and its control.

        Of several agents only those that recall tuples are evaluated with other generations.
        """
        result: list[Evaluate] = []
        alone = len(specs) == 1
        controllable = [spec for spec in specs if "control" in option_names(spec)]
        for spec in specs:
            result.append(spec)
            if alone or "memory" in agent_needs(spec):
                result += (replace(spec, generation=g, memory_digest="") for g in self.generations)
            if self.control is not None and spec in controllable:
                result.append(_varied(spec, "agent", "control", self.control))
        if self.control is not None and not controllable:
            name = f"The agent {specs[0].agent.name} recalls" if alone else "These agents recall"
            raise LdmError(
                f"{name} no tuples, so there is nothing to control for.", "Leave out --control."
            )
        return result


def check_repeats(repeats: int) -> None:
    """Raise LdmError for fewer than one repeat."""
    if repeats < 1:
        raise LdmError(f"--repeat must be at least 1, not {repeats}.", "Leave it out for 1.")


def _varied(spec: Evaluate, section: str, name: str, value: object) -> Evaluate:
    """Return the spec with one more option of a section."""
    return replace(spec, **{section: getattr(spec, section).with_options(**{name: value})})


def say_limits(specs: Sequence[Evaluate | OptimisePlan], runtime: Runtime) -> None:
    """Warn that cost limits apply per run if several runs call models."""
    calling, models = [spec for spec in specs if roles(spec)], specs[0].typed("models")
    limits = ("max_usd", "max_tokens", "max_calls")
    names = [f"--models.{name}" for name in limits if getattr(models, name) is not None]
    if names and len(calling) > 1:
        options = ", ".join(names).replace("_", "-")
        runtime.message(f"{options}: the limit applies to each of {len(calling)} runs.")


def repeated(specs: Sequence[Evaluate]) -> list[list[int]]:
    """Return the places of specs that repeat each other, in order of the first of each group."""
    groups: dict[Evaluate, list[list[int]]] = {}
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


def label(spec: Evaluate) -> str:
    """Return the agent, and its control if it is one, for tables and run ids."""
    control = spec.agent.options.get("control")
    return f"{spec.agent.name} control={control}" if control else spec.agent.name


def subject(spec: Evaluate) -> tuple[str, ...]:
    """Return the parts that a run's id begins with."""
    name = label(spec).rpartition(":")[2]
    repeat = f"repeat_{spec.repeat}" if spec.repeat > 1 else ""
    return spec.env.name.rpartition(":")[2], spec.split, name, repeat


#: Settings that tell evaluations of an agent apart, and longer lists than are named in full.
_TELLING = re.compile(r"(agent|env)\.|models\.(\w+_)?llm$|generation$|without_")
MOST_NAMED = 8


def labels(specs: Sequence[Evaluate]) -> list[str]:
    """Return labels that tell evaluations apart: the agent, and the settings that differ."""
    named = [
        (label(spec), {path: one for path, one in settings_of(spec) if _TELLING.match(path)})
        for spec in specs
    ]
    result = []
    for name, own in named:
        alike = [other for one, other in named if one == name]
        paths = sorted({path for other in alike for path in other})
        differing = [one for one in paths if len({other.get(one) for other in alike}) > 1]
        short = (one.removeprefix("agent.").removeprefix("models.") for one in differing)
        values = (own.get(one, "default") for one in differing)
        result.append(" ".join([name, *map("=".join, zip(short, values, strict=True))]))
    return result


def settings_of(spec: Evaluate) -> Iterator[tuple[str, str]]:
    """Yield the settings of an evaluation by dotted path, as one writes them."""
    for name, value in dump(spec).items():
        if isinstance(value, dict):
            yield from ((f"{name}.{option}", written(one)) for option, one in value.items())
        elif name == "generation" and value is None:
            yield name, "newest"
        elif isinstance(value, list):
            yield name, str(len(value)) if len(value) > MOST_NAMED else written(value) or "all"
        else:
            yield name, written(value)


def with_options(specs: Sequence[Evaluate], agent: Section, runtime: Runtime) -> list[Evaluate]:
    """Return the specs, each with the options that its agent has; report agents that lack one.

    Other options without effect on an agent go. Raises LdmError if no agent has an option.
    """
    known = {one.agent.name: option_names(one) for one in specs}
    for name, value in agent.given:
        lacking = [one for one in known if name not in known[one]]
        if len(lacking) == len(known):
            raise LdmError(
                f"None of the agents {', '.join(known)} has an option {name!r}.",
                "See what each has: ldm agents.",
            )
        if lacking:
            runtime.message(
                f"--agent.{name} {written(value)} has no effect on {', '.join(lacking)}."
            )
    return [_fitted(one, agent) for one in specs]


def _fitted(spec: Evaluate, agent: Section) -> Evaluate:
    """Return the spec of one of several agents with further options, those that it has."""
    spec = replace(spec, agent=spec.agent.with_options(**agent.only(option_names(spec)).options))
    if "memory" in agent_needs(spec):
        return spec
    return replace(spec, without_tuples=(), without_trajectories=())


def _swept(specs: Sequence[Evaluate], sweep: str | None) -> list[Evaluate]:
    """Return each spec once for every value of the sweep, if its agent has that option."""
    if sweep is None:
        return list(specs)
    path, values = sweep_values(sweep)
    section, _, name = path.rpartition(".")
    section = section or ("models" if name in MODELS else "agent")
    if section not in ("agent", "env", "models"):
        raise LdmError(
            f"--sweep {sweep} names no option of an evaluation.",
            "Sweep agent.NAME, env.NAME or models.NAME.",
        )
    if section == "agent":
        owner = ", ".join(dict.fromkeys(spec.agent.name for spec in specs))
        varying = [spec for spec in specs if name in option_names(spec)]
    else:
        owner, varying = section, list(specs) if section == "env" or name in MODELS else []
    if not varying:
        raise LdmError(f"{owner} has no option {name!r} to sweep.", "See: ldm agents.")
    result: list[Evaluate] = []
    for spec in specs:
        swept = [_varied(spec, section, name, value) for value in values]
        result += swept if spec in varying else [spec]
    return result


def sweep_values(sweep: str) -> tuple[str, list[str]]:
    """Return path and values of a sweep, "PATH=A,B,C". Raises LdmError for another form."""
    path, _, text = (part.strip() for part in sweep.partition("="))
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not path or not values:
        raise LdmError(
            f"--sweep {sweep} is not PATH=A,B,C.", "For example --sweep agent.d_max=1,2,3."
        )
    return path.replace("-", "_"), values
