"""Evaluate the rows of a preset, with the published rows beside the results.

Options given in place of a preset's settings win, and are named wherever the published rows are
shown: these belong to another protocol then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ldm.config import Build, Evaluate, Refine, Section, Value, load, merge, written
from ldm.errors import LdmError
from ldm.memory import generations, inspect
from ldm.records import plain
from ldm.run.builders import agent_needs, agent_of, option_names
from ldm.run.engine import Member
from ldm.run.evaluate import Evaluations, check_models, resolve, settled, started
from ldm.run.grid import Grid, settings_of, with_options
from ldm.run.presets import PRESET, Preset, PresetRecord, Row, beside, list_presets, preset, remarks
from ldm.run.results import Report
from ldm.run.runtime import Runtime

#: Fields and options that only locate something: giving one overrides nothing.
PLACES = ("memory", "env.data", "env.cache")


class ResolvedPreset(NamedTuple):
    """The evaluations of a preset.

    counterparts: for each, the names of the published rows with its settings.
    overridden: the options given in place of the preset's settings, in words.
    """

    preset: Preset
    specs: tuple[Evaluate, ...]
    counterparts: tuple[tuple[str, ...], ...]
    overridden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Our reports of a preset, and each run's record of the published table."""

    reports: tuple[Report, ...]
    presets: tuple[PresetRecord, ...]

    def __str__(self) -> str:
        """Return one line for each of our rows and each published one, and remarks on them."""
        columns, rows = beside(self.reports, self.presets)
        named = (zip(columns, row, strict=True) for row in rows)
        lines = [", ".join(f"{name} {cell}" for name, cell in cells) for cells in named]
        return "\n".join([*lines, *remarks(self.presets[0])])


def evaluate_preset(
    which: Preset | str | Path,
    changes: Mapping[str, Any] | None = None,
    grid: Grid | None = None,
    *,
    runtime: Runtime | None = None,
) -> Reproduction:
    """Evaluate the rows of a preset, to compare them with the published ones.

    which: a preset, its name, or its file. changes: nested values of `Evaluate` that win over the
    preset's, such as {"split": "demo_test", "limit": 6, "agent": {"k": 7}}. grid: of its agents,
    those of the preset select their rows, and others are evaluated in addition.
    Raises what `evaluate` raises, and LdmError if the preset does not fit.
    """
    runtime = runtime or Runtime()
    chosen = which if isinstance(which, Preset) else preset(which)
    resolved = resolve_preset(chosen, changes or {}, grid or Grid(), runtime)
    evaluation = started(checked_preset(resolved, runtime), runtime)
    return Reproduction(evaluation.play(), evaluation.presets)


def resolve_preset(
    chosen: Preset, changes: Mapping[str, Any], grid: Grid, runtime: Runtime
) -> ResolvedPreset:
    """Return the evaluations of a preset; write nothing. changes, grid: see `evaluate_preset`.

    Raises LdmError if something does not fit.
    """
    chosen.check(trust=runtime.trust)
    if grid.repeats == 1:
        grid = replace(grid, repeats=chosen.content.repeats)
    request = _Request(chosen, dict(changes), grid)
    own = _Request(chosen, {k: v for k, v in changes.items() if k == "models"}, grid)
    if request.env.name not in ("", chosen.env):
        raise LdmError(
            f"The preset {chosen.name} is of {chosen.env}, not of {request.env.name}.",
            "Leave out --env, or choose another preset: `ldm presets`.",
        )
    common = resolve(request.common(), runtime)
    quietly = replace(runtime, message=lambda line: None)
    rows, unchanged = request.rows(), resolve(own.common(), quietly)
    specs = [request.of_row(common, row) for row in rows]
    specs = with_options(specs, request.agent, runtime)
    named = [(row, spec) for row, spec in zip(rows, specs, strict=True) if row.name]
    pairs = [(own.of_row(unchanged, row), spec) for row, spec in named] or [(unchanged, common)]
    overridden = [*_overridden(chosen, pairs), *([f"sweep {grid.sweep}"] if grid.sweep else [])]
    names: dict[Evaluate, list[str]] = {}
    for spec, row in zip(specs, rows, strict=True):
        names.setdefault(spec, []).extend(request.counterpart(row))
    distinct = tuple(dict.fromkeys(grid.multiplied(list(names))))
    counterparts = tuple(tuple(names.get(spec, ())) for spec in distinct)
    return ResolvedPreset(chosen, distinct, counterparts, tuple(overridden))


def prepare_presets(
    name: str, changes: Mapping[str, Any], grid: Grid, runtime: Runtime
) -> list[Evaluations]:
    """Start the evaluations of the presets that a name matches, in the given environment.

    Raises LdmError as `evaluate_preset`; nothing is written then.
    """
    presets = list_presets(name)
    env = Section.read(changes.get("env", "")).name
    fitting = [one for one in presets if env in ("", one.env)]
    chosen = fitting if len(presets) > 1 and fitting else presets
    resolved = [resolve_preset(one, changes, grid, runtime) for one in chosen]
    checked = [checked_preset(one, runtime) for one in resolved]
    return [started(members, runtime) for members in checked]


def checked_preset(resolved: ResolvedPreset, runtime: Runtime) -> list[Member[Evaluate]]:
    """Return the runs of a preset; write nothing.

    Raises LdmError that names all that is missing, each with its remedy.
    """
    chosen, overridden = resolved.preset, resolved.overridden
    runtime.message(f"{chosen}.")
    if overridden:
        runtime.message(f"Overridden settings: {'; '.join(overridden)}.")
    checked = _checked(resolved, replace(runtime, message=runtime.once))
    departures = _departures(chosen, checked)
    content = replace(chosen.content, notes=(*chosen.content.notes, *departures))
    record = PresetRecord(chosen.name, chosen.digest, content, overridden=overridden)
    return [
        replace(one, facts={PRESET: plain(replace(record, counterparts=names)), **one.facts})
        for one, names in zip(checked, resolved.counterparts, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Request:
    """A preset, and the nested values of `Evaluate` given in place of its settings."""

    preset: Preset
    changes: dict[str, Any]
    grid: Grid

    @property
    def env(self) -> Section:
        return Section.read(self.changes.get("env", ""))

    @property
    def agent(self) -> Section:
        """Return the options given for all agents."""
        return Section.read(self.changes.get("agent", ""))

    @property
    def agents(self) -> tuple[str, ...]:
        named = (self.agent.name,) if self.agent.name else ()
        return self.grid.agents or named or self.preset.agents

    def common(self) -> Evaluate:
        """Return the fields that all rows share: the preset's settings with the changes."""
        own, changes = dict(self.preset.content.evaluation), dict(self.changes)
        if "split" in changes:  # the tasks that a preset names are of its own split
            own.pop("tasks", None)
        for values in (own, changes):
            values.pop("agent", None)
        return load(Evaluate, merge(Evaluate, own, changes))

    def rows(self) -> list[Row]:
        """Return the rows to evaluate: all that have an agent, or those of the agents named.

        Agents that the preset does not have follow as rows of their own.
        """
        known, agents = self.preset.agents, self.agents
        rows = [row for row in self.preset.content.rows if row.player.name in agents]
        return [*rows, *(Row("", agent) for agent in agents if agent not in known)]

    def of_row(self, common: Evaluate, row: Row) -> Evaluate:
        """Return the evaluation of a row, before agent options are changed."""
        models = common.models.with_options(**dict(_replaced(common.models, row)))
        env = common.env.with_options(**row.env).with_options(**self.env.options)
        spec = replace(common, agent=Section(row.player.name), models=models, env=env)
        shared = self.preset.evaluation.agent.only(option_names(spec))
        agent = spec.agent.with_options(**shared.options).with_options(**row.player.options)
        spec = replace(spec, agent=agent)
        if "memory" not in agent_needs(spec):
            return replace(spec, generation=None)
        if "generation" in self.changes:
            return spec
        return replace(spec, generation=row.generation if row.generation != "newest" else None)

    def counterpart(self, row: Row) -> Iterator[str]:
        """Yield the name of the published row that a row reproduces, unless settings differ."""
        generation = None if row.generation == "newest" else row.generation
        changed = "generation" in self.changes and self.changes["generation"] != generation
        if row.name and not (changed and row.generation is not None):
            yield row.name


def _replaced(models: Section, row: Row) -> Iterator[tuple[str, Value]]:
    """Yield (option, model) for the models of a row that others replace.

    Raises LdmError if a model is named by none of the options.
    """
    for option, other in sorted(row.models.items()):
        if models.options.get(other) is None:
            flag = f"--{other.replace('_', '-')}"
            raise LdmError(f"{flag} names no model, and {row.name} needs one.", f"Give {flag}.")
        yield option, models.options[other]


def _overridden(chosen: Preset, pairs: Iterable[tuple[Evaluate, Evaluate]]) -> Iterator[str]:
    """Yield each setting of a preset that was overridden, with its new and old values.

    pairs: of each row, the evaluation as the preset has it, and as it is now. Models override
    nothing, as the published rows' own lines name theirs.
    """
    before: defaultdict[str, set[str]] = defaultdict(set)
    after: defaultdict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        old, new = (dict(settings_of(spec)) for spec in pair)
        for path in old.keys() | new.keys():
            if old.get(path) != new.get(path):
                before[path].add(old.get(path, "default"))
                after[path].add(new.get(path, "default"))
    known = {written(row.generation) for row in chosen.content.rows if row.generation is not None}
    if after["generation"] <= known:  # one of its own
        del after["generation"]
    places = {*PLACES, *chosen.content.needs}
    for path in sorted(one for one in after if one not in places and one[:7] != "models."):
        now, then = (", ".join(sorted(values)) for values in (after[path], before[path]))
        yield f"{path} {now} (preset: {then})"


def _checked(resolved: ResolvedPreset, runtime: Runtime) -> list[Member[Evaluate]]:
    """Return the evaluations to run. Raises LdmError that names everything missing."""
    missing: list[LdmError] = []
    checked: list[Member[Evaluate]] = []
    try:
        check_models(resolved.specs, runtime)
    except LdmError as error:
        missing.append(error)
    for spec in resolved.specs:
        try:
            checked.append(Evaluations.check(settled(spec), runtime))
        except LdmError as error:
            missing.append(error)
    specs = [one.spec for one in checked]
    if not missing and (twice := [spec for spec in specs if specs.count(spec) > 1]):
        raise LdmError(
            f"The memory at {twice[0].memory} has no generation after {twice[0].generation}, so "
            f"that rows of {resolved.preset.name} would be the same.",
            "Make one with `ldm refine`, or evaluate the first alone: --generation "
            f"{twice[0].generation}.",
        )
    _raise_all(missing, resolved.preset.name)
    return checked


def _raise_all(missing: Sequence[LdmError], name: str) -> None:
    """Raise one LdmError with the messages and remedies of all errors, without repeats."""
    distinct = list({str(error): error for error in missing}.values())
    if len(distinct) == 1:
        raise distinct[0]
    if distinct:
        lines = "\n".join(f"- {error}" for error in distinct)
        raise LdmError(
            f"The preset {name} cannot be evaluated yet:\n{lines}",
            f"What it needs: `ldm presets {name}`.",
        )


def _departures(chosen: Preset, checked: Sequence[Member[Evaluate]]) -> Iterator[str]:
    """Yield our own differences from the paper: the memory, a missing model."""
    if any("reasoner" in agent_of(one.spec).needs for one in checked) and not any(
        one.spec.typed("models").configured for one in checked
    ):
        yield "no model is called: the offline reasoner knows listed and recorded actions alone"
    if remembering := [one.spec for one in checked if one.spec.memory_digest]:
        latest = max(remembering, key=lambda spec: spec.generation or 0)
        yield from _memory_departures(chosen, latest)


def _memory_departures(chosen: Preset, spec: Evaluate) -> Iterator[str]:
    """Yield how a memory was formed, indexed and refined otherwise than the preset says."""
    own, contents = chosen.content, inspect(spec.memory, chosen.env, 0)
    trajectories = len(contents.rows.distinct("trajectory_id"))
    made, formed = (trajectories, len(contents.batches)), own.memory
    if formed is not None and made != (formed.trajectories, formed.batches):
        yield (
            f"the memory was formed from {made[0]} trajectories in {made[1]} batches, "
            f"the paper's from {formed.trajectories} in {formed.batches}"
        )
    if expected := _settings(Build, own.build):
        sizes = Counter[str]()
        for batch in contents.batches:
            sizes[batch.kind] += len(batch.trajectories)
        wordings = {batch.reasoner.rpartition(", ")[2] for batch in contents.batches}
        per_kind = "not one number" if len({*sizes.values()}) > 1 else str(max(sizes.values()))
        named = {"wording": " and ".join(sorted(wordings)), "per_kind": per_kind}
        actual = {**contents.generation.settings, **named}
        yield from _differing("the memory was formed", expected, actual)
    if expected := _settings(Refine, own.refine):
        for one in generations(spec.memory, chosen.env):
            if 0 < one.number <= (spec.generation or 0):
                actual = one.settings if one.origin == "refined" else {}
                yield from _differing(f"generation {one.number} was {one.origin}", expected, actual)


def _settings(owner: type[Build | Refine], stage: Mapping[str, Any]) -> dict[str, str]:
    """Return what a preset says of making a memory, by the names of `Generation.settings`."""
    settings = {}
    for name, value in stage.items():
        if name not in owner.sections():
            settings["goals" if name == "limit" else name] = written(value)
            continue
        prefix = "env." if name == "env" else ""
        options = Section.read(value).options.items()
        settings.update({f"{prefix}{option}": written(one) for option, one in options})
    return settings


def _differing(made: str, expected: dict[str, str], actual: Mapping[str, str]) -> Iterator[str]:
    """Yield what differs in how a generation was made. made: the generation and its origin."""
    given = {name: actual.get(name, "default") for name in expected}
    differing = [name for name in expected if given[name].casefold() != expected[name].casefold()]
    parts = [f"{name} {given[name]} (preset: {expected[name]})" for name in differing]
    if parts:
        yield f"{made} with {', '.join(parts)}"
