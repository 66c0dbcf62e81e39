"""Evaluations: one agent or several on the same tasks, recorded, resumable and comparable."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.errors import LdmError
from ldm.llm.estimate import SAMPLE, cost_lines
from ldm.llm.models import ModelOptions, listed
from ldm.options import sorted_settings
from ldm.run.builders import (
    PlayerBuilder,
    agent_needs,
    agent_of,
    agent_options,
    build_environment,
    no_model,
    remembered_class,
)
from ldm.run.data import evaluation_split, with_data
from ldm.run.fairness import REMEMBERED, alike, memory_facts
from ldm.run.grid import Grid, label, labelled, labels, repeated, say_limits, subject
from ldm.run.lifecycle import (
    Checked,
    Group,
    Recorded,
    check_backend,
    discard,
    discarding,
    recorded_spec,
    reopen,
    reopen_all,
    shared,
    short,
    start_all,
)
from ldm.run.reports import report_of
from ldm.run.runtime import Playing, Runtime
from ldm.run.sharding import in_shard
from ldm.run.specs import EvaluationSpec, full_location, own_models

if TYPE_CHECKING:
    from ldm.memory import Contents
    from ldm.run.published import PresetRecord
    from ldm.run.results import Report
    from ldm.runs import Run
    from ldm.types import EpisodeResult, Usage


def evaluate(
    spec: EvaluationSpec, *, models: ModelOptions | None = None, runtime: Runtime | None = None
) -> Report:
    """Evaluate an agent on the tasks of a split; the run is recorded below `runtime.runs`.

    models: which language models are called, for agents that need one.
    Raises LdmError where a name, an option, data or the memory does not fit, where a task is also a
    source of the memory (LeakageError), and Interrupted, WorkerDied or RunStopped, after which
    `ldm eval --resume RUN` goes on.
    """
    runtime = runtime or Runtime()
    return prepare([resolve(spec, runtime)], models or ModelOptions(), runtime).play()[0]


def evaluate_all(
    spec: EvaluationSpec,
    grid: Grid,
    *,
    models: ModelOptions | None = None,
    runtime: Runtime | None = None,
) -> tuple[Report, ...]:
    """Evaluate several agents, generations or settings on the same tasks; see `Grid`.

    Raises what `evaluate` raises.
    """
    runtime = runtime or Runtime()
    specs = grid.specs(resolve(spec, runtime), runtime)
    return prepare(specs, models or ModelOptions(), runtime).play()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Finished evaluations side by side. lines: the paired difference of each two."""

    reports: tuple[Report, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        """Return a line for each evaluation and for each difference."""
        return "\n".join([*map(str, self.reports), *self.lines])


def compare(
    runs: Sequence[str | Path], *, folder: Path = Path("runs"), trust: bool = False
) -> Comparison:
    """Compare finished evaluations, by directory or id below `folder`, on the same tasks.

    trust: import the modules that the runs name, whether or not they are registered.
    Raises LdmError where there are fewer than two, or where their protocols differ.
    """
    from ldm.run.results import gains
    from ldm.run.runner import results
    from ldm.runs import differences

    if len(runs) < 2:
        raise LdmError("A comparison needs two runs or more.", "Name the others, too.")
    recorded = [recorded_spec(str(run), EvaluationSpec, folder, trust=trust) for run in runs]
    outcomes = [results(run) for run, _ in recorded]
    first = recorded[0][0]
    for other, _ in recorded[1:]:
        differing = differences(first.manifest.protocol, other.manifest.protocol)
        if differing:
            raise LdmError(
                f"{first.directory} and {other.directory} cannot be compared. Their protocols "
                f"differ: {'; '.join(differing)}.",
                "Evaluate both in the same way.",
            )
    groups = repeated([spec for _, spec in recorded])
    reports = [
        report_of([recorded[place] for place in group], [outcomes[place] for place in group])
        for group in groups
    ]
    firsts = [recorded[group[0]] for group in groups]
    labels = labelled([spec for _, spec in firsts], reports)
    return Comparison(tuple(labels), tuple(gains(labels)))


class Evaluation(Group[EvaluationSpec]):
    """Recorded evaluations on the same tasks, to be played one after the other."""

    @property
    def presets(self) -> tuple[PresetRecord, ...]:
        """What the run of each report remembers of its preset; () where they are from none.

        Raises RecordError where run.json holds something else.
        """
        return tuple(
            preset_record(member.run)
            for member in (self.members[group[0]] for group in self._groups)
            if "preset" in member.run.manifest.arguments
        )

    @property
    def _groups(self) -> list[list[int]]:
        """The places of members that are repeats of the same: a report each."""
        return repeated([member.spec for member in self.members])

    def play(self, *, retry_errors: bool = False) -> tuple[Report, ...]:
        """Play all tasks that are not recorded yet; the reports, under labels of their own.

        Repeats of the same are one report.

        retry_errors: of finished runs, play what ended in an error again.
        An error that stops one says how to go on with all of them. Where nothing has happened in
        any, those that are new are removed.
        """
        outcomes = []
        for member in self.members:
            with self.carrying_out(member):
                outcomes.append(self._played(member, retry_errors=retry_errors))
        reports, specs = [], []
        for group in self._groups:
            members = [self.members[place] for place in group]
            specs.append(members[0].spec)
            runs = [(member.run, member.spec) for member in members]
            reports.append(report_of(runs, [outcomes[place] for place in group]))
        return labelled(specs, reports)

    def estimate(self) -> Iterator[str]:
        """Play a few tasks of each run that calls a model; yield lines on what all will cost.

        All runs can go on. Raises LdmError where none calls a model.
        """
        if not any(member.calls_models for member in self.members):
            discard(self.members)
            agent = self.members[0].spec.agent
            raise LdmError(f"The agent {agent} calls no model, so it costs nothing.", "")
        groups = self._groups
        firsts = [self.members[group[0]] for group in groups]
        names = labels([member.spec for member in firsts])
        for member, name, group in zip(firsts, names, groups, strict=True):
            if not member.calls_models:
                yield f"{name} calls no model, so it costs nothing."
                continue
            with discarding(self.members):
                usages = self._sampled(member)
            if len(groups) > 1:
                yield f"{name}:"
            episodes = len(member.tasks) * len(group)
            yield from cost_lines(usages, episodes, member.models, "tasks")
        yield f"Resume with `{self.resume_command}`; nothing is paid twice."

    def refined_lines(self) -> list[str]:
        """Return what was recalled of the newest generation's own tuples, where others stand by."""
        from ldm.run.results import refined_lines

        newest = max(self.members, key=lambda member: member.spec.generation or 0)
        oldest = min(member.spec.generation or 0 for member in self.members)
        spec = newest.spec
        if not spec.memory_digest or (spec.generation or 0) == oldest:
            return []
        return refined_lines(newest.run, spec.memory, newest.tasks[0].env, spec.generation, oldest)

    def _played(
        self, member: Recorded[EvaluationSpec], *, retry_errors: bool
    ) -> list[EpisodeResult]:
        from ldm.run.runner import evaluate as play
        from ldm.run.runner import recorded

        spec, runtime = member.spec, self.runtime
        workers = member.workers(runtime)
        repeat = f", repeat {spec.repeat}" if len(self._groups) < len(self.members) else ""
        name = f"{short(label(spec))} on {short(spec.env)}{repeat}"
        before = 0 if retry_errors else recorded(member.run)
        with (
            shared(member, PlayerBuilder, runtime) as builder,
            runtime.play(
                Playing(name, len(member.tasks), workers, before, builder.paid)
            ) as on_result,
        ):
            return play(
                member.run,
                builder,
                member.tasks,
                workers=workers,
                backend=member.backend(runtime),
                retry_errors=retry_errors,
                on_result=on_result,
            )

    def _sampled(self, member: Recorded[EvaluationSpec]) -> list[Usage]:
        """Play a few tasks; return what they cost."""
        from ldm.run.runner import sample
        from ldm.run.selection import select

        tasks = select(member.tasks, limit=min(SAMPLE, len(member.tasks)))
        runtime = self.runtime
        with shared(member, PlayerBuilder, runtime) as build:
            results = sample(
                member.run,
                build,
                member.tasks,
                tasks,
                workers=member.workers(runtime),
                backend="threads",
            )
        return [result.usage for result in results]


@dataclass(frozen=True, slots=True)
class Named:
    """What a user names beside a preset, or beside a recorded evaluation.

    env: None where it is not named. changes: environment → fields of `EvaluationSpec`.
    """

    env: str | None
    changes: Callable[[str], Mapping[str, Any]]
    grid: Grid

    def load(self) -> None:
        """Import the modules that are named: a recorded run may then name them, too."""
        from ldm.agents import load_agent
        from ldm.envs import load_env

        if self.env and ":" in self.env:
            load_env(self.env)
        for agent in self.grid.agents:
            if ":" in agent:
                load_agent(agent)


def prepare_each(
    values: Mapping[str, Any], grid: Grid, models: ModelOptions, runtime: Runtime
) -> list[Evaluation]:
    """Start an evaluation in the environment asked for, or in every one that has a memory.

    values: fields of `EvaluationSpec`. Raises LdmError as `evaluate`.
    """
    from ldm.envs import load_env

    names = [values["env"]] if "env" in values else None
    evaluations = []
    for env in names or _playable(values["memory"], runtime):
        load_env(env)
        spec = resolve(EvaluationSpec(**{**values, "env": env}), runtime)
        evaluations.append(prepare(grid.specs(spec, runtime), models, runtime))
    return evaluations


def _playable(memory: str, runtime: Runtime) -> list[str]:
    """Return the names or classes of a memory's environments that can be loaded; say which cannot.

    Raises LdmError where none can.
    """
    from ldm.envs import load_env

    names, playable = remembered(memory), []
    for name in names:
        loaded_by = remembered_class(memory, name)
        try:
            load_env(loaded_by, recorded=not runtime.trust)
        except LdmError as error:
            if len(names) == 1:
                raise
            known = ":" in loaded_by
            remedy = f"--env {loaded_by}" if known else "--env module:Class"
            runtime.message(
                f"Skipping {name}. {error.message} Evaluate it with `{remedy}`"
                + (", or add --trust." if known else ".")
            )
        else:
            playable.append(loaded_by)
    if not playable:
        raise LdmError(
            f"None of the memory's environments can be loaded: {', '.join(names)}.",
            "Name the class of one with --env module:Class.",
        )
    return playable


def remembered(memory: str) -> tuple[str, ...]:
    """Return the environments with a memory at this place. Raises LdmError where there is none."""
    from ldm.memory import environments

    names = environments(memory)
    if not names:
        raise LdmError(
            f"There is no memory at {memory}, so there is nothing to evaluate.",
            "Build one with `ldm build-memory`, or name an environment with --env.",
        )
    return names


def resolve(spec: EvaluationSpec, runtime: Runtime) -> EvaluationSpec:
    """Return the spec with its split, its data and the memory's full place filled in."""
    options = with_data(spec.env, spec.env_options, runtime)
    split = evaluation_split(spec.env, spec.split, options, runtime)
    memory = full_location(spec.memory)
    return replace(spec, split=split, env_options=options, memory=memory)


def prepare(specs: Sequence[EvaluationSpec], models: ModelOptions, runtime: Runtime) -> Evaluation:
    """Write the runs of resolved specs: the first agent's, and those that it is compared with.

    Each names the next one as its companion, so that resuming the first resumes all. Nothing is
    written where something does not fit. Raises LdmError as `evaluate`.
    """
    specs = [with_model_options(with_digests(spec), models) for spec in specs]
    for spec in {(spec.agent, spec.models): spec for spec in specs}.values():
        check_models(spec, models, runtime)
    checked = alike(_distinct(check(spec, runtime) for spec in specs), runtime)
    return started(checked, models, runtime)


def _distinct(checked: Iterable[Checked[EvaluationSpec]]) -> list[Checked[EvaluationSpec]]:
    """Return each evaluation once: the newest generation may be one that is named, too."""
    distinct: dict[EvaluationSpec, Checked[EvaluationSpec]] = {}
    for one in checked:
        distinct.setdefault(one.spec, one)
    return list(distinct.values())


def started(
    checked: Sequence[Checked[EvaluationSpec]],
    models: ModelOptions,
    runtime: Runtime,
    presets: Sequence[PresetRecord] = (),
) -> Evaluation:
    """Write the runs of what was checked. presets: what each remembers of the preset it is from."""
    from ldm import records

    say_limits([one.spec for one in checked], models, runtime)
    more = [
        {
            "companion": "",
            **({"preset": records.plain(presets[place])} if presets else {}),
        }
        for place in range(len(checked))
    ]
    return Evaluation(start_all(checked, subject, models, runtime, more), runtime)


def resume(run: Run, spec: EvaluationSpec, models: ModelOptions, runtime: Runtime) -> Evaluation:
    """Return a recorded evaluation, and those that it is compared with, to be played on.

    models: changes to the recorded model options. Raises LdmError as `lifecycle.reopen`.
    """

    def reopened(run: Run, spec: EvaluationSpec) -> Recorded[EvaluationSpec]:
        return reopen(run, spec, lambda spec: check(spec, runtime), models)

    members = reopen_all(run, spec, reopened, runtime)
    for agent in {member.spec.agent: member for member in members}.values():
        check_models(agent.spec, agent.models, runtime)
    return Evaluation(members, runtime)


def check(spec: EvaluationSpec, runtime: Runtime) -> Checked[EvaluationSpec]:
    """Return the spec with its generation settled, its tasks and its protocol; writes nothing.

    Raises LdmError where something does not fit, LeakageError where a task is also a source of the
    memory or of what the agent's prompts show.
    """
    from ldm.memory import inspect
    from ldm.run.runner import protocol
    from ldm.run.selection import check_examples, check_leakage, select

    agent_options(spec)
    facts: dict[str, Any] = {}
    with closing(build_environment(spec.env, spec.env_options, runtime.cache)) as env:
        agent_of(spec).check(env.card, agent_options(spec))
        tasks = select(env.tasks(spec.split), kinds=spec.kinds, limit=spec.limit, ids=spec.tasks)
        tasks = in_shard(tasks, spec.shard)
        check_examples(agent_of(spec), agent_options(spec), env.card.name, tasks)
        if "memory" in agent_needs(spec):
            contents = inspect(spec.memory, env.card.name, spec.generation)
            check_leakage(contents.sources(), tasks)
            _check_hidden(spec, contents)
            generation = contents.generation
            generation.check_embedder(spec.embedder or generation.embedder)
            spec = replace(
                spec,
                generation=generation.number,
                embedder=generation.embedder,
                memory_digest=generation.digest,
            )
            facts = {REMEMBERED: asdict(memory_facts(contents))}
        elif spec.without_tuples or spec.without_trajectories:
            raise LdmError(
                f"The agent {spec.agent} recalls no tuples, so none can be left out.",
                "Leave out --without-tuple and --without-trajectory.",
            )
        return Checked(spec, tasks, protocol(env, spec.split, tasks), facts)


def _check_hidden(spec: EvaluationSpec, contents: Contents) -> None:
    """Raise LdmError where the memory lacks a tuple or a trajectory that is to be left out."""
    columns = contents.rows.columns
    for noun, named, known in (
        ("tuple", spec.without_tuples, columns.ids),
        ("trajectory", spec.without_trajectories, columns.distinct("trajectory_id").values()),
    ):
        if unknown := [one for one in named if one not in known]:
            raise LdmError(
                f"Generation {contents.generation.number} of the memory at {spec.memory} holds no "
                f"{noun} {unknown[0]!r}, so it cannot be left out.",
                "Take ids from `ldm memory credit RUN` or `ldm memory search --json`.",
            )


def with_digests(spec: EvaluationSpec) -> EvaluationSpec:
    """Return the spec with full paths of the files that agent options name, and their digests."""
    options = dict(spec.agent_options)
    for name, (digest_name, digest) in agent_of(spec).digests.items():
        if name in options:
            path = Path(options[name]).expanduser().absolute()
            options |= {name: str(path), digest_name: digest(path)}
    return replace(spec, agent_options=sorted_settings(options))


def with_model_options(spec: EvaluationSpec, models: ModelOptions) -> EvaluationSpec:
    """Return the spec with the options that its agent takes where a model is configured."""
    if not own_models(spec, models).configured:
        return spec
    options = dict(spec.agent_options)
    more = agent_of(spec).with_model(options)
    return replace(spec, agent_options=sorted_settings({**options, **more}))


def preset_record(run: Run) -> PresetRecord:
    """Return what a run remembers of its preset. Raises RecordError where it is something else."""
    from ldm import records
    from ldm.run.published import PresetRecord
    from ldm.runs import MANIFEST

    text = json.dumps(run.manifest.arguments["preset"])
    return records.loads(text, PresetRecord, file=str(run.directory / MANIFEST))


def check_models(spec: EvaluationSpec, models: ModelOptions, runtime: Runtime) -> None:
    """Raise LdmError where the agent needs a model that cannot be had; say which are used."""
    models = own_models(spec, models)
    agent = agent_of(spec)
    needs = agent.needs
    called = spec.roles(models)
    if notice := agent.notice(agent_options(spec)):
        runtime.message(notice)
    if not called:
        if "reasoner" in needs:
            runtime.once("No LLM configured; using the offline reasoner.")
        elif models.configured:
            runtime.message(f"The agent {spec.agent} uses no LLM; ignoring the model options.")
        return
    if not models.configured:
        raise no_model(spec)
    check_backend(runtime)
    if not models.replay:
        names = listed(models.of(called))
        places = "".join(f"; the {role} is at {url}" for role, url in models.elsewhere().items())
        runtime.message(f"Models at {runtime.connection().display_url}: {names}{places}.")
