"""Presets put to use: their rows become evaluations, and published rows stand beside the results.

What is asked for in place of a preset's settings wins, and is named wherever the published rows are
shown: they are of another protocol then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.errors import LdmError
from ldm.llm.models import ModelOptions
from ldm.options import ENV_PREFIX, sorted_settings
from ldm.run.builders import agent_needs, agent_of, agent_options, option_names
from ldm.run.engine import discard
from ldm.run.evaluate import (
    Evaluation,
    Named,
    check,
    check_models,
    resolve,
    started,
    with_digests,
    with_model_options,
)
from ldm.run.grid import Grid, fitting, label, with_options
from ldm.run.presets import Formed, Preset, Row, list_presets, preset, written
from ldm.run.published import PresetRecord, beside, remarks
from ldm.run.runtime import Runtime
from ldm.run.specs import EvaluationSpec

if TYPE_CHECKING:
    from ldm.run.engine import Member as Checked
    from ldm.run.results import Report

#: Fields of a spec, and options, that say where something lies: naming one overrides nothing.
PLACES = ("memory", f"{ENV_PREFIX}data", f"{ENV_PREFIX}cache")

#: Of a longer list only the length is said.
MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Planned:
    """The evaluations that a preset comes to.

    counterparts: for each, the names of the published rows that it has the settings of.
    overridden: what was asked for in place of the preset's settings, in words.
    """

    preset: Preset
    specs: tuple[EvaluationSpec, ...]
    counterparts: tuple[tuple[str, ...], ...]
    overridden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came of a preset: our reports, and what each run remembers of the published table."""

    reports: tuple[Report, ...]
    presets: tuple[PresetRecord, ...]

    def __str__(self) -> str:
        """Return a line for each of our rows and each published one, and what to know of them."""
        columns, rows = beside(self.reports, self.presets)
        lines = [
            ", ".join(f"{name} {cell}" for name, cell in zip(columns, row, strict=True))
            for row in rows
        ]
        return "\n".join([*lines, *remarks(self.presets[0])])


def evaluate_preset(
    which: Preset | str | Path,
    changes: Mapping[str, Any] | None = None,
    grid: Grid | None = None,
    *,
    models: ModelOptions | None = None,
    runtime: Runtime | None = None,
) -> Reproduction:
    """Evaluate the rows of a preset, to be seen beside those that were published.

    which: a preset, its name, or its file. changes: fields of `EvaluationSpec` that win over the
    preset's, such as {"split": "demo_test", "limit": 6}; options win one by one. grid: of its
    agents, those that the preset has stand for their rows, and others are evaluated beside them.
    Raises what `evaluate` raises, and LdmError where the preset does not fit.
    """
    runtime = runtime or Runtime()
    chosen = which if isinstance(which, Preset) else preset(which)
    planned = plan(chosen, changes or {}, grid or Grid(), runtime)
    evaluation = prepare_preset(planned, models or ModelOptions(), runtime)
    return Reproduction(evaluation.play(), evaluation.presets)


def plan(chosen: Preset, changes: Mapping[str, Any], grid: Grid, runtime: Runtime) -> Planned:
    """Return the evaluations of a preset; writes nothing. changes, grid: see `evaluate_preset`.

    Raises LdmError where something does not fit.
    """
    chosen.check(trust=runtime.trust)
    replacement = EvaluationSpec(**{"env": chosen.env, **changes})
    if replacement.env != chosen.env:
        raise LdmError(
            f"The preset {chosen.name} is of {chosen.env}, not of {replacement.env}.",
            "Leave out --env, or choose another preset: `ldm presets list`.",
        )
    if "agent" in changes and not grid.agents:
        grid = replace(grid, agents=(replacement.agent,))
    request = _Request(chosen, replacement, frozenset(changes), grid)
    common = resolve(request.common(), runtime)
    rows = request.rows()
    specs = [request.of_row(common, row) for row in rows]
    specs = with_options(specs, replacement.agent_options, runtime)
    names: dict[EvaluationSpec, list[str]] = {}
    for spec, row in zip(specs, rows, strict=True):
        names.setdefault(spec, []).extend(request.counterpart(row))
    distinct = tuple(dict.fromkeys(grid.multiplied(list(names))))
    counterparts = tuple(tuple(names.get(spec, ())) for spec in distinct)
    return Planned(chosen, distinct, counterparts, tuple(request.overridden()))


def prepare_presets(
    name: str, named: Named, models: ModelOptions, runtime: Runtime
) -> list[Evaluation]:
    """Start the evaluations of the presets that a name stands for, of the environment asked for.

    Raises LdmError as `evaluate_preset`; nothing is written then.
    """
    named.load()
    presets = list_presets(name)
    chosen = [one for one in presets if named.env in (None, one.env)]
    planned = [
        plan(one, named.changes(one.env), named.grid, runtime)
        for one in (chosen if len(presets) > 1 and chosen else presets)
    ]
    evaluations: list[Evaluation] = []
    try:
        for each in planned:
            evaluations.append(prepare_preset(each, models, runtime))  # noqa: PERF401
    except LdmError:
        for evaluation in evaluations:
            discard(evaluation.members)
        raise
    return evaluations


def prepare_preset(planned: Planned, models: ModelOptions, runtime: Runtime) -> Evaluation:
    """Write the runs of a preset.

    Raises LdmError that names all that is missing, each with its remedy; nothing is written then.
    """
    chosen, overridden = planned.preset, planned.overridden
    runtime.message(f"{chosen}.")
    if overridden:
        runtime.message(f"Overridden settings: {'; '.join(overridden)}.")
    checked = _checked(planned, models, replace(runtime, message=_once(runtime.message)))
    departures = _departures(chosen, checked, models)
    table = replace(chosen.published, notes=(*chosen.published.notes, *departures))
    records = [
        PresetRecord(chosen.name, chosen.digest, table, names, overridden)
        for names in planned.counterparts
    ]
    return started(checked, models, runtime, records)


def check_resumed(evaluation: Evaluation, name: str) -> None:
    """Raise LdmError where a recorded evaluation is not of the preset `name`, as it is now."""
    run = evaluation.members[0].run.directory
    if not evaluation.presets:
        raise LdmError(f"{run} was started without a preset.", "Leave out --preset.")
    recorded, chosen = evaluation.presets[0], preset(name)
    if recorded.name != chosen.name:
        which = f"the preset {recorded.name}, not {chosen.name}"
    elif recorded.digest != chosen.digest:
        which = f"the preset {chosen.name}, and {chosen.file} has changed since"
    else:
        return
    raise LdmError(f"{run} was started with {which}.", "Leave out --preset, or start a new run.")


@dataclass(frozen=True, slots=True)
class _Request:
    """A preset, and what is asked for beside it.

    replacement: a spec with the changes. replaced: its fields that win over the preset.
    """

    preset: Preset
    replacement: EvaluationSpec
    replaced: frozenset[str]
    grid: Grid

    def common(self) -> EvaluationSpec:
        """Return what all rows have in common: the preset's settings, and the changes to them."""
        own, replacement = self.preset.content.evaluation, self.replacement
        env_options = {**dict(written(own.env_options)), **dict(replacement.env_options)}
        fixed = {"split", "kinds", "limit", "seed", "tasks"} - self.replaced
        if "split" in self.replaced:  # the tasks that a preset names are of its own split
            fixed -= {"tasks"}
        return replace(
            replacement,
            agent_options=(),
            env_options=sorted_settings(env_options),
            **{name: getattr(own, name) for name in fixed},
        )

    def rows(self) -> list[Row]:
        """Return the rows to evaluate: all that have an agent, or those of the agents named.

        Agents that the preset does not have follow as rows of their own.
        """
        known, agents = self.preset.agents, self.grid.agents or self.preset.agents
        rows = [row for row in self.preset.content.rows if row.agent and row.agent in agents]
        return [*rows, *(Row("", agent) for agent in agents if agent not in known)]

    def of_row(self, common: EvaluationSpec, row: Row) -> EvaluationSpec:
        """Return the evaluation of a row, before agent options are changed."""
        models = tuple((option, f"@{other}") for option, other in sorted(row.models.items()))
        env_options = {**dict(common.env_options), **dict(written(row.env_options))}
        env_options |= dict(self.replacement.env_options)
        spec = replace(
            common, agent=row.agent, models=models, env_options=sorted_settings(env_options)
        )
        shared = fitting(written(self.preset.content.evaluation.agent_options), spec)
        options = sorted_settings({**dict(shared), **dict(written(row.agent_options))})
        if "memory" not in agent_needs(replace(spec, agent_options=options)):
            return replace(spec, agent_options=options, generation=None)
        if "generation" in self.replaced:
            return replace(spec, agent_options=options)
        generation = row.generation if isinstance(row.generation, int) else None
        return replace(spec, agent_options=options, generation=generation)

    def counterpart(self, row: Row) -> Iterator[str]:
        """Yield the name of the published row that a row stands for, if it still does."""
        generation = None if row.generation == "newest" else row.generation
        other = "generation" in self.replaced and self.replacement.generation != generation
        if row.name and not (other and row.generation is not None):
            yield row.name

    def overridden(self) -> Iterator[str]:
        """Yield what is asked for in place of the preset's settings, each with what it replaces.

        Agents choose rows, and further ones stand beside none: they override nothing.
        """
        own, replacement = self.preset.content.evaluation, self.replacement
        places = {*PLACES, *self.preset.content.needs}
        whole = self.replaced - {"env", "agent", "env_options", "agent_options", *places}
        for name in sorted(whole):
            before, after = getattr(own, name, None), getattr(replacement, name)
            if name == "generation":
                before, after = self._generations(), "newest" if after is None else after
            if before != after:
                yield _instead(name.replace("_", " "), after, before)
        if "split" in self.replaced and "tasks" not in self.replaced and own.tasks:
            yield _instead("tasks", "all", f"{len(own.tasks)} of the split {own.split}")
        for name, value in replacement.env_options:
            rows = (row.env_options for row in self.preset.content.rows if row.agent)
            settings = (dict(written({**own.env_options, **one})) for one in rows)
            values = tuple(sorted({one.get(name, "default") for one in settings}))
            differing = {one.casefold() for one in values} != {value.casefold()}
            if differing and f"{ENV_PREFIX}{name}" not in places:
                yield _instead(f"{ENV_PREFIX}{name}", value, values)
        for name, value in replacement.agent_options:
            values = self._values(name)
            if {one.casefold() for one in values} != {value.casefold()} and name not in places:
                yield _instead(name, value, values)
        if self.grid.sweep:
            yield f"sweep {self.grid.sweep}"

    def _generations(self) -> tuple[object, ...]:
        """Return the generations of the memory that the preset's rows ask for."""
        return tuple(
            row.generation for row in self.preset.content.rows if row.generation is not None
        )

    def _values(self, name: str) -> tuple[str, ...]:
        """Return the values that an agent option has in the rows whose agents have it."""
        values = []
        for row in self.preset.content.rows:
            if row.agent and name in option_names(EvaluationSpec(self.preset.env, agent=row.agent)):
                shared = self.preset.content.evaluation.agent_options
                values.append(dict(written({**shared, **row.agent_options})).get(name, "default"))
        return tuple(sorted(set(values)))


def _instead(what: str, now: object, before: object) -> str:
    """Return what is asked for, and what the preset has in its place."""

    def worded(value: object) -> str:
        if value is None or value == ():
            return "none"
        if isinstance(value, tuple):
            return ", ".join(map(str, value)) if len(value) <= MOST_NAMED else str(len(value))
        return str(value)

    return f"{what} {worded(now)} (preset: {worded(before)})"


def _once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that says each line only once, as several agents have the same to say."""
    lines: set[str] = set()

    def say_new(line: str) -> None:
        if line not in lines:
            lines.add(line)
            say(line)

    return say_new


def _checked(
    planned: Planned, models: ModelOptions, runtime: Runtime
) -> list[Checked[EvaluationSpec]]:
    """Return what is to be played. Raises LdmError that names all that is missing."""
    missing: list[LdmError] = []
    checked: list[Checked[EvaluationSpec]] = []
    for spec in {(spec.agent, spec.models): spec for spec in planned.specs}.values():
        try:
            check_models(spec, models, runtime)
        except LdmError as error:
            missing.append(error)
            break  # the others lack the same
    for spec in planned.specs:
        try:
            checked.append(check(with_model_options(with_digests(spec), models), runtime))
        except LdmError as error:
            missing.append(error)
    specs = [one.spec for one in checked]
    if not missing and (twice := [spec for spec in specs if specs.count(spec) > 1]):
        raise LdmError(
            f"The memory at {twice[0].memory} has no generation after {twice[0].generation}, so "
            f"that rows of {planned.preset.name} would be the same.",
            "Make one with `ldm refine`, or evaluate the first alone: --generation "
            f"{twice[0].generation}.",
        )
    _raise_all(missing, planned.preset.name)
    return checked


def _raise_all(missing: Sequence[LdmError], name: str) -> None:
    """Raise an LdmError that says everything that the errors say, each thing once."""
    distinct = list({str(error): error for error in missing}.values())
    if len(distinct) == 1:
        raise distinct[0]
    if distinct:
        lines = "\n".join(f"- {error}" for error in distinct)
        raise LdmError(
            f"The preset {name} cannot be evaluated yet:\n{lines}",
            f"What it needs: `ldm presets show {name}`.",
        )


def _departures(
    chosen: Preset, checked: Sequence[Checked[EvaluationSpec]], models: ModelOptions
) -> Iterator[str]:
    """Yield what differs from the paper only here: the memory, demonstrations, that no model is."""
    from ldm.agents import demonstrations

    if any("reasoner" in agent_of(one.spec).needs for one in checked) and not models.configured:
        yield "no model is called: the offline reasoner decides"
    formed = chosen.content.memory
    remembering = [one for one in checked if one.spec.memory_digest]
    if formed is not None and remembering:
        yield from _memory_departures(formed, remembering[0])
    for one in checked:
        options = agent_options(one.spec)
        if "shots" not in dict(one.spec.agent_options) or not hasattr(options, "demonstrations"):
            continue
        known = len(demonstrations.load(one.tasks[0].env, options.demonstrations))
        if known < options.shots:
            yield (
                f"{label(one.spec)}: prompts show {known} demonstrations, where {options.shots} "
                "are asked for"
            )


def _memory_departures(formed: Formed, one: Checked[EvaluationSpec]) -> Iterator[str]:
    from ldm.memory import inspect

    contents = inspect(one.spec.memory, one.tasks[0].env, 0)
    trajectories = len(contents.rows.columns.distinct("trajectory_id"))
    if (trajectories, len(contents.batches)) != (formed.trajectories, formed.batches):
        yield (
            f"the memory was formed from {trajectories} trajectories in {len(contents.batches)} "
            f"batches, the paper's from {formed.trajectories} in {formed.batches}"
        )
