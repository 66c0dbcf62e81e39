"""The life of a recorded experiment: start, resume, verify that nothing has changed, discard.

Evaluations, refinements and plan optimisations all go through here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ldm.errors import Interrupted, LdmError, RunStopped, WorkerDied
from ldm.llm.models import ModelOptions, serving
from ldm.run.builders import Builder, Carried, Shared, build_environment
from ldm.run.specs import S, own_models

if TYPE_CHECKING:
    from ldm.parallel import Backend
    from ldm.run.runtime import Runtime
    from ldm.runs import Run
    from ldm.types import Task

#: What stops a run that can go on: the run is kept.
STOPPED = (Interrupted, WorkerDied, RunStopped)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Checked(Generic[S]):
    """A spec with nothing left open, and what follows from it: its tasks and its protocol.

    facts: what run.json holds further, for reports.
    """

    spec: S
    tasks: tuple[Task, ...]
    protocol: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recorded(Generic[S]):
    """An experiment on disk, ready to be carried out.

    new: whether it was started just now, and is to be removed if nothing comes of it.
    """

    spec: S
    run: Run
    tasks: tuple[Task, ...]
    models: ModelOptions
    new: bool

    @property
    def calls_models(self) -> bool:
        """Whether a model is called."""
        return bool(self.spec.roles(self.models))

    @property
    def untouched(self) -> bool:
        """Whether it is new, and holds neither results nor paid calls."""
        return self.new and not self.run.begun and not any(self.run.directory.glob("*.jsonl"))

    def backend(self, runtime: Runtime) -> Backend:
        """Return where tasks are worked on: with a model in threads, which share its client."""
        return "threads" if self.calls_models else runtime.backend_for_workers()

    def workers(self, runtime: Runtime) -> int:
        """Return how many tasks to work on at a time."""
        return runtime.workers_for(self.models.in_flight if self.calls_models else None)


def checked_again(spec: S, ids: tuple[str, ...], runtime: Runtime) -> Checked[S]:
    """Return a recorded spec with its tasks, named by their ids, and its protocol as it is now."""
    from ldm.run.runner import protocol
    from ldm.run.selection import select

    with closing(build_environment(spec.env, spec.env_options, runtime.cache)) as env:
        tasks = select(env.tasks(spec.split), ids=ids)
        return Checked(spec, tasks, protocol(env, spec.split, tasks))


def start(
    checked: Checked[S],
    subject: Sequence[str],
    models: ModelOptions,
    runtime: Runtime,
    **arguments: Any,
) -> Recorded[S]:
    """Write a new run. subject: what its id begins with; arguments: more for run.json.

    Raises LdmError where it cannot be written, or where a model that is called is not named.
    """
    from ldm import prompts, records
    from ldm.runs import Manifest, create

    spec = checked.spec
    models = own_models(spec, models)
    called = spec.roles(models)
    names = {"embedder": spec.embedder} if spec.embedder else {}
    values: dict[str, Any] = {"plan": records.plain(spec), **arguments, **checked.facts}
    digests: dict[str, str] = {}
    if called:
        names |= models.of(called)
        if not models.replay:
            names["server"] = runtime.connection().display_url
        values["models"] = asdict(models)
        digests = {k: v for k, v in prompts.digests().items() if k.startswith(spec.prompts)}
    manifest = Manifest(
        command=spec.command,
        arguments=values,
        protocol=dict(checked.protocol),
        models=names,
        seeds={"seed": spec.seed},
        prompts=digests,
    )
    return Recorded(spec, create(runtime.runs, subject, manifest), checked.tasks, models, new=True)


def recorded_spec(
    name: str, spec_type: type[S], runs: Path, *, trust: bool = False
) -> tuple[Run, S]:
    """Return a recorded run, by its directory or id, and its spec.

    trust: import the modules that it names, whether or not they are registered.
    Raises LdmError where there is none, where it is another kind of experiment, or where it names
    a module that is not trusted.
    """
    from ldm import records
    from ldm.agents import load_agent
    from ldm.envs import load_env
    from ldm.runs import MANIFEST, open_run

    run = open_run(name, runs)
    if run.manifest.command != spec_type.command:
        raise LdmError(
            f"{run.directory} is not {spec_type.noun}.", f"Resume with `{run.resume_command}`."
        )
    text = json.dumps(run.manifest.arguments.get("plan", {}))
    spec = records.loads(text, spec_type, file=str(run.directory / MANIFEST))
    for load, recorded in ((load_env, spec.env), (load_agent, getattr(spec, "agent", ""))):
        if ":" in recorded:
            load(recorded, recorded=not trust)
    return run, spec


def reopen(
    run: Run, spec: S, check: Callable[[S], Checked[S]], models: ModelOptions
) -> Recorded[S]:
    """Return a recorded experiment, after making sure that it would be the same as before.

    models: changes to the recorded model options, such as limits.
    Raises LdmError where data, environment, memory or models are not what they were.
    """
    from ldm.runs import MANIFEST, differences

    if "models" in run.manifest.arguments:
        values = run.manifest.arguments["models"]
        recorded = ModelOptions.recorded(values, run.directory / MANIFEST)
        own = dict.fromkeys(dict(getattr(spec, "models", ())))  # are not what is asked for of all
        models = recorded.resumed(replace(models, **own), str(run.directory))
    checked = check(spec)
    changes = differences(run.manifest.protocol, checked.protocol)
    if checked.spec.memory_digest != spec.memory_digest:
        changes.append(f"the memory at {spec.memory} holds other tuples")
    if changes:
        raise LdmError(
            f"{run.directory} cannot be resumed because something has changed: {changes[0]}.",
            "Start a new run.",
        )
    return Recorded(spec, run, checked.tasks, models, new=False)


@contextmanager
def discarding(experiments: Sequence[Recorded[Any]]) -> Iterator[None]:
    """Remove experiments whose runs name each other if an error ends this and nothing happened.

    What was stopped, by the user or by a limit, is kept: it can go on.
    """
    try:
        yield
    except STOPPED:
        raise
    except LdmError:
        discard(experiments)
        raise


@dataclass(frozen=True, slots=True)
class Group(Generic[S]):
    """Recorded experiments, to be carried out one after the other: each names the next one."""

    members: tuple[Recorded[S], ...]
    runtime: Runtime

    @property
    def resume_command(self) -> str:
        """The command that goes on with all of them: the first run names the others."""
        return self.members[0].run.resume_command

    @contextmanager
    def carrying_out(self, member: Recorded[S]) -> Iterator[None]:
        """Let an error of one of them say how to go on with all, see also `discarding`."""
        try:
            with discarding(self.members):
                yield
        except LdmError as error:
            own = member.run.resume_command
            error.remedy = error.remedy.replace(own, self.resume_command)
            raise


def start_all(
    checked: Sequence[Checked[S]],
    subject: Callable[[S], Sequence[str]],
    models: ModelOptions,
    runtime: Runtime,
    more: Sequence[Mapping[str, Any]],
) -> tuple[Recorded[S], ...]:
    """Write new runs, each with the id of the next one as its companion.

    subject, more: as the arguments of `start`, for each of them.
    """
    members: list[Recorded[S]] = []
    for one, arguments in zip(reversed(checked), reversed(more), strict=True):
        companion = {"companion": members[0].run.manifest.id} if members else {}
        values = {**companion, **arguments, **companion}
        members.insert(0, start(one, subject(one.spec), models, runtime, **values))
    return tuple(members)


def reopen_all(
    run: Run,
    spec: S,
    reopened: Callable[[Run, S], Recorded[S]],
    runtime: Runtime,
) -> tuple[Recorded[S], ...]:
    """Return a recorded experiment and those that it names, as `reopened` returns each."""
    members = []
    while True:
        members.append(reopened(run, spec))
        companion = run.manifest.arguments.get("companion", "")
        if not companion:
            return tuple(members)
        name = str(run.directory.parent / str(companion))
        run, spec = recorded_spec(name, type(spec), runtime.runs, trust=runtime.trust)


def discard(experiments: Sequence[Recorded[Any]]) -> None:
    """Remove experiments that were started just now and are untouched: all of them or none."""
    if all(experiment.untouched for experiment in experiments):
        for experiment in experiments:
            experiment.run.remove()


@contextmanager
def shared(
    experiment: Recorded[S], kind: type[Builder[S, T]], runtime: Runtime
) -> Iterator[Builder[S, T] | Shared[T] | Carried[T]]:
    """Yield what builds workers: for threads, one that shares models and knowledge between them.

    For a cluster it takes the memory along.
    """
    builder = kind(experiment.spec, runtime.cache, runtime.embeddings)
    if not experiment.calls_models:
        backend = experiment.backend(runtime)
        if backend == "processes":
            yield builder
        elif backend == "threads":
            yield Shared(builder, None)
        else:
            yield Carried(builder, builder.contents())
        return
    check_backend(runtime)
    directory, where = experiment.run.directory, " in this run"
    with serving(
        experiment.models, runtime.connection, directory, runtime.message, where
    ) as models:
        yield Shared(builder, models)


def check_backend(runtime: Runtime) -> None:
    """Raise LdmError where what calls a model is to be worked on in other processes.

    The client that counts and limits its calls is one, in this process.
    """
    if runtime.backend in (None, "threads"):
        return
    raise LdmError(
        f"--backend {runtime.backend} is for what calls no model: all calls, and their limits, go "
        "through one client in this process.",
        "Leave --backend out: tasks are then worked on in threads, --workers of them.",
    )


def short(name: str) -> str:
    """Return a name without its module, for ids and progress bars."""
    return name.rpartition(":")[2]
