"""Evaluations: one agent or several on the same tasks, recorded, resumable and comparable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.agents import NO_MODEL
from ldm.config import Evaluate, Section, full_location, load
from ldm.envs import load_env
from ldm.errors import LdmError
from ldm.memory import environments, inspect
from ldm.memory.lessons import Contents
from ldm.run import builders, engine, runner, selection
from ldm.run.conditions import REMEMBERED, alike, conditions_of, memory_facts
from ldm.run.engine import Experiment, Member, Session, protocol, recorded_spec
from ldm.run.grid import Grid, cost_lines, label, labels, repeated, say_limits, subject
from ldm.run.results import Report, gains
from ldm.run.runner import reopen, results
from ldm.run.runtime import Runtime
from ldm.run.statistics import summarize
from ldm.runs import SOURCES, Run, differences
from ldm.text import short
from ldm.types import EpisodeResult, Task

if TYPE_CHECKING:
    from ldm.run.presets import PresetRecord


def evaluate(spec: Evaluate, *, runtime: Runtime | None = None) -> Report:
    """Evaluate an agent on the tasks of a split; the run is recorded below `runtime.runs`.

    Raises LdmError if a name, an option, data or the memory does not fit, LeakageError if a task is
    also a source of the memory, and Interrupted, WorkerDied or RunStopped, after which
    `ldm eval --resume RUN` continues.
    """
    runtime = runtime or Runtime()
    return prepare([resolve(spec, runtime)], runtime).play()[0]


def evaluate_all(
    spec: Evaluate, grid: Grid, *, runtime: Runtime | None = None
) -> tuple[Report, ...]:
    """Evaluate several agents, generations or settings on the same tasks; see `Grid`.

    Raises the errors of `evaluate`.
    """
    runtime = runtime or Runtime()
    specs = grid.specs(resolve(spec, runtime), runtime)
    return prepare(specs, runtime).play()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hold finished evaluations side by side. lines: the paired difference of each two."""

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
    Raises LdmError if there are fewer than two, or if their protocols differ.
    """
    if len(runs) < 2:
        raise LdmError("A comparison needs two runs or more.", "Pass at least two runs.")
    recorded = [recorded_spec(str(run), Evaluate, folder, trust=trust) for run in runs]
    outcomes = [results(run) for run, _ in recorded]
    first = recorded[0][0]
    for other, _ in recorded[1:]:
        if differing := differences(first.manifest.protocol, other.manifest.protocol):
            raise LdmError(
                f"{first.directory} and {other.directory} cannot be compared. Their protocols "
                f"differ: {'; '.join(differing)}.",
                "Evaluate both in the same way.",
            )
    reports = _reports(recorded, outcomes)
    return Comparison(reports, tuple(gains(reports)))


def _reports(
    recorded: Sequence[tuple[Run, Evaluate]], outcomes: Sequence[Sequence[EpisodeResult]]
) -> tuple[Report, ...]:
    """Return the reports of finished runs under labels of their own; repeats share one."""
    groups = repeated([spec for _, spec in recorded])
    names = labels([recorded[group[0]][1] for group in groups])
    reports = []
    for name, group in zip(names, groups, strict=True):
        run, spec = recorded[group[0]]
        agent = builders.agent_of(spec)
        played = [result for place in group for result in outcomes[place]]
        report = Report(
            env=spec.env.name,
            split=spec.split,
            label=name,
            sees_reward=agent.sees_reward,
            directory=run.directory,
            summary=summarize(played, seed=spec.seed, reporting=agent.reporting),
            results=tuple(played),
            reporting=agent.reporting,
            conditions=conditions_of(spec, run),
            directories=tuple(recorded[place][0].directory for place in group),
            seed=spec.seed,
        )
        reports.append(report)
    return tuple(reports)


@dataclass(frozen=True)
class Evaluations(Experiment[Evaluate, "list[EpisodeResult]", "tuple[Report, ...]"]):
    """Evaluate on the same tasks; repeats of the same become one report."""

    spec = Evaluate
    builder = builders.PlayerBuilder
    worker = runner.Player
    record = runner.Played

    @classmethod
    def check(cls, spec: Evaluate, runtime: Runtime) -> Member[Evaluate]:
        """Return the evaluation of a spec with its generation, tasks and protocol; write nothing.

        Raises LdmError if something does not fit, LeakageError if a task is also a source of the
        memory or of the agent's demonstrations.
        """
        agent, options = builders.agent_of(spec), spec.typed("agent")
        with closing(builders.build_environment(spec.env, runtime.cache)) as env:
            agent.check(env.card, options)
            tasks = selection.select(
                env.tasks(spec.split), kinds=spec.kinds, limit=spec.limit, ids=spec.tasks
            )
            selection.check_examples(agent, options, env.card.name, tasks)
            sources = {task.id: task.source for task in tasks if task.source}
            facts: dict[str, Any] = {SOURCES: sources} if sources else {}
            if "memory" in builders.agent_needs(spec):
                contents = inspect(spec.memory, env.card.name, spec.generation)
                selection.check_leakage(contents.sources(), tasks)
                _check_hidden(spec, contents)
                spec = builders.recalling(spec, contents.generation)
                facts[REMEMBERED] = asdict(memory_facts(contents))
            elif spec.without_tuples or spec.without_trajectories:
                raise LdmError(
                    f"The agent {spec.agent.name} recalls no tuples, so none can be left out.",
                    "Leave out --without-tuples and --without-trajectories.",
                )
            return Member(spec, tasks, protocol(env, spec.split, tasks), facts)

    @classmethod
    def resume(cls, name: str, models: Section, runtime: Runtime) -> Evaluations:
        resumed = super().resume(name, models, runtime)
        check_models([member.spec for member in resumed.members], runtime)
        return resumed

    @property
    def presets(self) -> tuple[PresetRecord, ...]:
        """Return the preset of each report's run, () if they are from none.

        Raises RecordError if run.json holds something else.
        """
        from ldm.run.presets import PRESET, PresetRecord

        firsts = (self.members[group[0]].run for group in self._groups)
        recorded = (run.argument(PRESET, PresetRecord) for run in firsts)
        return tuple(record for record in recorded if record is not None)

    @property
    def _groups(self) -> list[list[int]]:
        """Return the places of members that are repeats of the same."""
        return repeated([member.spec for member in self.members])

    def turns(
        self, items: Sequence[Task], done: Mapping[int, runner.Played]
    ) -> Iterator[Mapping[int, tuple[int, Task, int]]]:
        """Yield all tasks, then those whose episodes ended in an error."""
        yield {index: (index, task, 1) for index, task in enumerate(items)}
        broken = [index for index in sorted(done) if done[index].result.end == "error"]
        again = [index for index in broken if done[index].attempt < runner.ATTEMPTS]
        yield {index: (index, items[index], runner.ATTEMPTS) for index in again}

    def label(self, member: Member[Evaluate]) -> str:
        spec = member.spec
        repeat = f", repeat {spec.repeat}" if len(self._groups) < len(self.members) else ""
        return f"{short(label(spec))} on {short(spec.env.name)}{repeat}"

    def finished(self, run: Run) -> list[runner.Played]:
        return [runner.Played(index, result, ()) for index, result in enumerate(results(run))]

    def keep(
        self, member: Member[Evaluate], items: Sequence[Task], known: Sequence[runner.Played]
    ) -> None:
        runner.merge(member.run, known)

    def reopen(self, run: Run) -> None:
        reopen(run)

    def finish(
        self, member: Member[Evaluate], session: Session, known: Sequence[runner.Played]
    ) -> list[EpisodeResult]:
        outcome = [played.result for played in known]
        runner.write_summary(member.run, outcome)
        return outcome

    def result(self, outcomes: Sequence[Sequence[EpisodeResult]]) -> tuple[Report, ...]:
        return _reports([(member.run, member.spec) for member in self.members], outcomes)

    def costs(self) -> Iterator[str]:
        """Play a few tasks of each run that calls a model; yield lines on the cost of all."""
        groups = self._groups
        firsts = [self.members[group[0]] for group in groups]
        names = labels([member.spec for member in firsts])
        for member, name, group in zip(firsts, names, groups, strict=True):
            if not builders.roles(member.spec):
                yield f"{name} calls no model, so it costs nothing."
                continue
            usages = [one.result.usage for one in self.sample(member)]
            if len(groups) > 1:
                yield f"{name}:"
            total = len(member.tasks) * len(group)
            yield from cost_lines(usages, total, member.models, "tasks")


def prepare_each(values: Mapping[str, Any], grid: Grid, runtime: Runtime) -> list[Evaluations]:
    """Start an evaluation in the named environment, or in every one that has a memory.

    values: nested values of `Evaluate`. Raises LdmError as `evaluate`.
    """
    spec = load(Evaluate, values)
    names = [spec.env.name] if spec.env.name else _playable(spec.memory, runtime)
    specs = (replace(spec, env=Section(name, spec.env.given)) for name in names)
    return [prepare(grid.specs(resolve(one, runtime), runtime), runtime) for one in specs]


def _playable(memory: str, runtime: Runtime) -> list[str]:
    """Return the names or classes of a memory's loadable environments; report the others.

    Raises LdmError if none can be loaded.
    """
    names, playable = environments(memory), []
    if not names:
        raise LdmError(
            f"There is no memory at {memory}, so there is nothing to evaluate.",
            "Build one with `ldm build-memory`, or name an environment with --env.",
        )
    for name in names:
        loaded_by = builders.remembered_class(memory, name)
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


def resolve(spec: Evaluate, runtime: Runtime) -> Evaluate:
    """Return the spec with its split, its data and the memory's full place filled in.

    Raises LdmError for an unknown environment and for an option that does not fit.
    """
    env = selection.with_data(spec.env, runtime)
    split = selection.evaluation_split(env, spec.split, runtime)
    return replace(spec, env=env, split=split, memory=full_location(spec.memory))


def prepare(
    specs: Sequence[Evaluate], runtime: Runtime, facts: Mapping[str, Any] | None = None
) -> Evaluations:
    """Write the runs of resolved specs; the first can resume all. facts: arguments of the first.

    Nothing is written if something does not fit. Raises LdmError as `evaluate`.
    """
    specs = [settled(spec) for spec in specs]
    check_models(specs, runtime)
    # A named generation may be the newest, which is evaluated once.
    distinct = {one.spec: one for one in (Evaluations.check(spec, runtime) for spec in specs)}
    first, *others = alike(list(distinct.values()), runtime)
    first = replace(first, facts={**(facts or {}), **first.facts})
    return started([first, *others], runtime)


def started(checked: Sequence[Member[Evaluate]], runtime: Runtime) -> Evaluations:
    """Write the runs of checked evaluations."""
    say_limits([one.spec for one in checked], runtime)
    return Evaluations(engine.start(checked, subject, runtime), runtime)


def _check_hidden(spec: Evaluate, contents: Contents) -> None:
    """Raise LdmError if the memory lacks a tuple or a trajectory that is to be left out."""
    rows = contents.rows
    for noun, named, known in (
        ("tuple", spec.without_tuples, rows.ids),
        ("trajectory", spec.without_trajectories, rows.distinct("trajectory_id").values()),
    ):
        if unknown := [one for one in named if one not in known]:
            raise LdmError(
                f"Generation {contents.generation.number} of the memory at {spec.memory} holds no "
                f"{noun} {unknown[0]!r}, so it cannot be left out.",
                "Take ids from `ldm memory search --json`.",
            )


def settled(spec: Evaluate) -> Evaluate:
    """Return the spec with typed agent options, and with those that models and files determine.

    Files that options name are given by their full paths, with their digests.
    """
    agent, options = builders.agent_of(spec), dict(spec.agent.options)
    for name, (digest_name, digest) in agent.digests.items():
        if name in options:
            path = Path(str(options[name])).expanduser().absolute()
            options |= {name: str(path), digest_name: digest(path)}
    if spec.typed("models").configured:
        options |= agent.with_model(options)
    return replace(spec, agent=spec.agent.with_options(**options)).settled("agent")


def check_models(specs: Iterable[Evaluate], runtime: Runtime) -> None:
    """Raise LdmError if an agent needs a model and none is named; tell of one that is not used."""
    for spec in {(spec.agent.name, spec.models): spec for spec in specs}.values():
        models, agent, name = spec.typed("models"), builders.agent_of(spec), spec.agent.name
        if notice := agent.notice(spec.typed("agent")):
            runtime.message(notice)
        if builders.roles(spec):
            if not models.configured:
                raise LdmError(f"The agent {name} needs an LLM, and none is configured.", NO_MODEL)
            if not models.replay:
                runtime.connection()
        elif "reasoner" in agent.needs:
            runtime.once("No LLM configured; using the offline reasoner.")
        elif models.configured:
            runtime.message(f"The agent {name} uses no LLM; ignoring the model options.")
