"""The engine: it starts, carries out, interrupts and resumes every recorded experiment.

Evaluations, refinements and optimisations of plans are subclasses of `Experiment`. They define the
items, the worker and the result.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from ldm import parallel, prompts, records, registry, text
from ldm.agents import load_agent
from ldm.config import S, Section, dump
from ldm.embed import GROUP, is_class
from ldm.envs import load_env
from ldm.episode import Environment
from ldm.errors import Interrupted, LdmError, RunStopped, WorkerDied
from ldm.files import open_own
from ldm.llm.models import ModelOptions, Models, listed
from ldm.records import writing
from ldm.run.builders import Builder, build_environment, roles
from ldm.run.grid import SAMPLE
from ldm.run.runtime import Playing, Runtime
from ldm.run.selection import even, select
from ldm.runs import Manifest, Run, create, differences, open_run
from ldm.types import Task

#: Errors after which an experiment can be resumed: its runs are kept.
STOPPED = (Interrupted, WorkerDied, RunStopped)

T = TypeVar("T")
R = TypeVar("R", bound=parallel.Record)
Outcome = TypeVar("Outcome")
Result = TypeVar("Result")

MakeWorker = Callable[[Any], parallel.Worker[T, R]]
#: Yields the items to work on, each under the index of its record, turn by turn; it is given all
#: records of the turns before.
Turns = Callable[[Mapping[int, R]], Iterator[Mapping[int, T]]]


@dataclass
class Session:
    """Work on a run, with its lock held while `working`.

    build: returns the value from which workers are made; picklable unless `backend` is "threads".
    workers: items at a time; with a cluster, 0 for as many as it has room for.
    resume: the command that resumes the run, if it is not its own. paid: returns the US dollars
    paid for models so far, or None if no model is called or a price is unknown.
    setups: the values that the builder returned in this process.
    """

    run: Run
    build: Callable[[], Any]
    workers: int = 1
    backend: parallel.Backend = "processes"
    resume: str = ""
    paid: Callable[[], float | None] = lambda: None
    setups: list[Any] = field(default_factory=list)
    _counting: tuple[type[parallel.Record], int] | None = None

    def setup(self) -> Any:
        """Call the builder in this process and return its value."""
        built = self.build()
        self.setups.append(built)
        return built

    def map(
        self,
        worker: MakeWorker[T, R],
        turns: Turns[R, T],
        record_type: type[R],
        on_result: Callable[[R], None] = lambda record: None,
    ) -> list[R]:
        """Return the records of all items, sorted by index, made now or before.

        A record is in a part file before it counts. An item of an earlier turn is processed
        again. on_result: takes the first record of each item, those recorded before first.
        """
        with writing(self.run.parts):
            self.run.parts.mkdir(exist_ok=True)
        known, done = self.run.recorded(record_type), dict[int, R]()

        def take(record: R) -> None:
            first = record.index not in done
            done[record.index] = record
            if first:
                on_result(record)
            parallel.raise_if_interrupted()

        for turn in turns(done):
            old = [index for index in turn if index in known and index not in done]
            items = [turn[index] for index in turn if index not in old]
            for index in old:
                take(known[index])
            self._counting = record_type, len({*done, *turn})
            if isinstance(self.backend, str) and min(self.workers, len(items)) == 1:
                work, part = worker(self.setup()), _Part(self.run.parts)
                with closing(work), parallel.interruptible(), parallel.one_thread():
                    for item in items:
                        record = work(item)
                        part.append(record)
                        take(record)
            elif items:
                self._spread(worker, items, take)
        self._counting = None
        return [done[index] for index in sorted(done)]

    def stage(
        self,
        name: str,
        worker: MakeWorker[T, R],
        items: Sequence[T],
        record_type: type[R],
        on_result: Callable[[R], None] = lambda record: None,
    ) -> list[R]:
        """Return the records of all `items` in order, from the run's file `name` if it exists.

        worker: makes a worker from the value that the builder returns. The index of a record is its
        item's place. on_result: takes every record as it arrives, recorded ones first.
        """
        path = self.run.directory / name
        if path.is_file():
            result = records.read(path, record_type)
            for record in result:
                on_result(record)
        else:
            turn = dict(enumerate(items))
            result = self.map(worker, lambda done: iter([turn]), record_type, on_result)
            with writing(path):
                records.write(path, result)
        self.run.discard_parts()
        return result

    def _spread(
        self, worker: MakeWorker[T, R], items: Sequence[T], take: Callable[[R], None]
    ) -> None:
        """Process items with several workers."""
        if not isinstance(self.backend, str):
            part = _Part(self.run.parts)

            def keep_and_take(record: R) -> None:
                part.append(record)
                take(record)

            build = partial(_built, self.build, worker)
            self.backend(build, items, workers=self.workers, on_result=keep_and_take)
            return
        spread, setup = parallel.map_in_processes, self.build
        if self.backend == "threads":
            spread, setup = parallel.map_in_threads, self.setup
        with parallel.interruptible():
            recording = partial(_Recording, setup, worker, self.run.parts)
            spread(recording, items, workers=min(self.workers, len(items)), on_result=take)

    @contextmanager
    def working(self) -> Iterator[Session]:
        """Lock the run; tell in errors how many items are recorded and how to resume.

        Raises LdmError if another process works on the run, Interrupted (Ctrl-C, SIGTERM),
        WorkerDied and RunStopped.
        """
        resume = f"Resume with `{self.resume or self.run.resume_command}`"
        try:
            with self.run.lock():
                yield self
        except KeyboardInterrupt as stop:
            raise Interrupted(f"Stopped: {self._recorded()[1]}.", f"{resume}.") from stop
        except Interrupted:
            raise
        except WorkerDied as error:
            raise WorkerDied(
                f"{error.message} So far, {self._recorded()[1]}.",
                f"{resume}, with fewer --workers if memory was short.",
            ) from error
        except RunStopped as error:
            raise type(error)(
                f"{error.message} So far, {self._recorded()[1]}, and so are all calls.",
                f"{error.remedy} {resume}.",
            ) from error
        except LdmError as error:  # a full disk, for example
            count, so_far = self._recorded()
            if not count:
                raise
            raise LdmError(error.message, f"{error.remedy} {resume}: {so_far}.") from error

    def _recorded(self) -> tuple[int, str]:
        """Return the number of recorded items of the present map, and a sentence about it."""
        if self._counting is None:
            return 0, f"what was done is recorded in {self.run.directory}"
        record_type, total = self._counting
        count = len(self.run.recorded(record_type))
        return count, f"{count} of {total} are recorded in {self.run.directory}"


def _built(build: Callable[[], Any], worker: MakeWorker[T, R]) -> parallel.Worker[T, R]:
    return worker(build())


class _Recording(Generic[T, R]):
    """Record the results of a worker."""

    def __init__(self, build: Callable[[], Any], worker: MakeWorker[T, R], parts: Path) -> None:
        self.work = worker(build())
        self._part = _Part(parts)

    def __call__(self, item: T) -> R:
        record = self.work(item)
        self._part.append(record)
        return record

    def close(self) -> None:
        self.work.close()


class _Part:
    """Append to the part file of one worker, and after a failed write to a new one."""

    def __init__(self, parts: Path) -> None:
        self._parts = parts
        self._path = self._new_path()

    def append(self, record: parallel.Record) -> None:
        path, self._path = self._path, self._new_path()
        with writing(path), open_own(path, "a", encoding="utf-8") as file:
            records.append(file, record)
        self._path = path  # append only to a file whose last line is whole

    def _new_path(self) -> Path:
        return self._parts / f"{time.time_ns()}-{os.getpid()}-{secrets.token_hex(2)}.jsonl"


@dataclass(frozen=True, slots=True)
class Member(Generic[S]):
    """Describe one run of an experiment, from its check on.

    spec: completely resolved. protocol: equal for comparable scores. facts: further arguments of
    run.json. started: the run; None until `start`. new: whether this process started it.
    """

    spec: S
    tasks: tuple[Task, ...]
    protocol: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    started: Run | None = None
    new: bool = False

    @property
    def run(self) -> Run:
        """Return the run on disk."""
        assert self.started is not None  # noqa: S101 - the engine starts all before it plays any
        return self.started

    @property
    def models(self) -> ModelOptions:
        """The models that may be called, and their limits."""
        options: ModelOptions = self.spec.typed("models")
        return options


@dataclass(frozen=True)
class Experiment(Generic[S, Outcome, Result]):
    """Carry out runs one after the other, each of which names the next one.

    resume_with: the command that resumes all, if it is not that of the first run.
    spec: the type of experiment. builder: returns the value from which `worker` is made. record:
    the type of the worker's records.
    """

    members: tuple[Member[S], ...]
    runtime: Runtime
    resume_with: str = ""

    spec: ClassVar[type[Any]]
    builder: ClassVar[type[Builder[Any]]]
    worker: ClassVar[type[Any]]
    record: ClassVar[type[Any]]

    @classmethod
    def check(cls, spec: S, runtime: Runtime) -> Member[S]:
        """Return a spec as it can be played now; write nothing. Raises LdmError if it cannot."""
        raise NotImplementedError

    @classmethod
    def resume(cls, name: str, models: Section, runtime: Runtime) -> Self:
        """Return a recorded experiment with those that were started with it, to be resumed.

        name: directory or id of the first run. models: changes to the recorded model options, such
        as limits. Raises LdmError if data, environment, memory or models have changed.
        """
        first = recorded_spec(name, cls.spec, runtime.runs, trust=runtime.trust)
        recorded = together(*first, runtime.runs, trust=runtime.trust)
        members = (_resumed(run, spec, cls.check(spec, runtime), models) for run, spec in recorded)
        return cls(tuple(members), runtime)

    @property
    def resume_command(self) -> str:
        """Return the command that resumes all members."""
        return self.resume_with or self.members[0].run.resume_command

    def play(self, *, retry_errors: bool = False) -> Result:
        """Process all items without a record, and return the result.

        retry_errors: repeat the items of finished runs that ended in an error.
        If an error ends this before anything is recorded, new runs are removed. If the user or a
        limit stops it, `resume_command` resumes it.
        """
        outcomes: list[Outcome] = []
        for member in self.members:
            with self.at_work(member) as session:
                if retry_errors:
                    self.reopen(member.run)
                known = self.finished(member.run) if member.run.is_finished else None
                items = self.items(member, session) if known is None else known
                with self.showing(member, session, len(items)) as on_result:
                    if known is None:
                        turns = partial(self.turns, items)
                        known = session.map(self.worker, turns, self.record, on_result)
                        self.keep(member, items, known)
                    else:
                        for record in known:
                            on_result(record)
                member.run.discard_parts()
                outcomes.append(self.finish(member, session, known))
        return self.result(outcomes)

    def items(self, member: Member[S], session: Session) -> Any:
        """Return the items to work on."""
        return member.tasks

    def turns(self, items: Any, done: Mapping[int, Any]) -> Iterator[Mapping[int, Any]]:
        """Yield the items turn by turn, each under the index of its record."""
        yield dict(enumerate(items))

    def label(self, member: Member[S]) -> str:
        """Return the name of a member in displays of progress."""
        raise NotImplementedError

    @contextmanager
    def showing(
        self, member: Member[S], session: Session, total: int
    ) -> Iterator[Callable[[Any], None]]:
        """Show the progress, by the result in each record; yield a function for records."""
        run = member.run
        before = total if run.is_finished else len(run.recorded(self.record))
        playing = Playing(self.label(member), total, before, session.paid)
        with self.runtime.episodes(playing) as on_episode:
            yield lambda record: on_episode(record.result)

    def finished(self, run: Run) -> list[Any]:
        """Return the records of a finished run."""
        return records.read(run.result, self.record)

    def keep(self, member: Member[S], items: Any, known: Sequence[Any]) -> None:
        """Write the records of all items, which finishes the run."""
        with writing(member.run.result):
            records.write(member.run.result, known)

    def reopen(self, run: Run) -> None:
        """Reopen a finished run, so that items that ended in an error are repeated."""

    def finish(self, member: Member[S], session: Session, known: Sequence[Any]) -> Outcome:
        """Return the outcome of a member's records."""
        raise NotImplementedError

    def result(self, outcomes: Sequence[Outcome]) -> Result:
        """Return the result of all members' outcomes."""
        raise NotImplementedError

    def sample(self, member: Member[S]) -> list[Any]:
        """Process a few of the items, and return all records of the run."""
        with self.at_work(member) as session:
            first_turn = next(self.turns(self.items(member, session), {}))
            few: list[int] = even([(task.id, task.kind) for task in member.tasks], SAMPLE)
            chosen = sorted({*few, *member.run.recorded(self.record)})
            some = {place: first_turn[place] for place in chosen}
            return session.map(self.worker, lambda done: iter([some]), self.record)

    def estimate(self) -> Iterator[str]:
        """Process a few items; yield lines on the cost of all. The runs can be resumed.

        Raises LdmError if no model is called.
        """
        if not any(roles(member.spec) for member in self.members):
            discard(self.members)
            noun = self.members[0].spec.noun
            raise LdmError(f"No model is called, so {noun} costs nothing.", "")
        yield from self.costs()
        yield f"Resume with `{self.resume_command}`; nothing is paid twice."

    def costs(self) -> Iterator[str]:
        """Process a few items; yield lines on the cost of all."""
        raise NotImplementedError

    @contextmanager
    def at_work(self, member: Member[S]) -> Iterator[Session]:
        """Yield a session for a member, with its models, workers and lock."""
        runtime, options, called = self.runtime, member.models, roles(member.spec)
        workers = runtime.workers_for(options.in_flight if called else None)
        backend: parallel.Backend = "threads" if called else runtime.backend_for_workers()
        build = self.builder(member.spec, runtime.cache, runtime.embeddings)
        session = Session(member.run, build, workers, backend, self.resume_command)
        try:
            with ExitStack() as stack:
                if called:
                    check_backend(runtime)
                    if member.new and not options.replay:
                        server, names = runtime.connection().display_url, options.of(called)
                        runtime.once(f"Models at {server}: {listed(names)}.")
                    place, message = member.run.directory, runtime.message
                    models = Models(options, runtime.connection, place, message, " in this run")
                    session.build = partial(build, stack.enter_context(models))
                    session.paid = models.paid
                elif not isinstance(backend, str):
                    session.build = build.carrying()
                yield stack.enter_context(session.working())
        except STOPPED:
            raise
        except LdmError:
            discard(self.members)
            raise


def protocol(env: Environment, split: str, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the environment's protocol with split and task ids: equal for comparable scores."""
    return {**env.protocol(), "split": split, "tasks": [task.id for task in tasks]}


def checked_again(spec: S, ids: tuple[str, ...], runtime: Runtime) -> Member[S]:
    """Return a recorded spec with its tasks, named by their ids, and its current protocol."""
    with closing(build_environment(spec.env, runtime.cache)) as env:
        tasks = select(env.tasks(spec.split), ids=ids)
        return Member(spec, tasks, protocol(env, spec.split, tasks))


def start(
    checked: Sequence[Member[S]], subject: Callable[[S], Sequence[str]], runtime: Runtime
) -> tuple[Member[S], ...]:
    """Write new runs, each with the id of the next one as its companion.

    subject: returns the beginning of the run's id.
    Raises LdmError if they cannot be written, or if a model that is called is not named.
    """
    members: list[Member[S]] = []
    companion = ""
    for one in reversed(checked):
        run = create(runtime.runs, subject(one.spec), _manifest(one, runtime, companion))
        members.insert(0, replace(one, started=run, new=True))
        companion = run.manifest.id
    return tuple(members)


def _manifest(member: Member[S], runtime: Runtime, companion: str) -> Manifest:
    """Return the content of a new run's run.json."""
    spec, models = member.spec, member.models
    called = roles(spec)
    names = {"embedder": spec.embedder} if spec.embedder else {}
    digests = dict[str, str]()
    if called:
        check_backend(runtime)
        names |= models.of(called)
        if not models.replay:
            names["server"] = runtime.connection().display_url
        digests = {k: v for k, v in prompts.digests().items() if k.startswith(spec.prompts)}
    return Manifest(
        command=spec.command,
        spec=dump(spec),
        protocol=dict(member.protocol),
        arguments={"companion": companion, **member.facts},
        models=names,
        seeds={"seed": spec.seed},
        prompts=digests,
    )


def recorded_spec(
    name: str, spec_type: type[S], runs: Path, *, trust: bool = False
) -> tuple[Run, S]:
    """Return a recorded run, by its directory or id, and its spec.

    trust: import the modules that it names, whether or not they are registered.
    Raises LdmError if there is no such run, if it is another kind of experiment, or if it names a
    module that is not trusted.
    """
    run = open_run(name, runs)
    if run.manifest.command != spec_type.command:
        raise LdmError(
            f"{run.directory} is not {spec_type.noun}.", f"Resume with `{run.resume_command}`."
        )
    spec = run.spec(spec_type)
    if trust:
        text.trust(str(getattr(spec, "memory", "")))
    for load, section in ((load_env, "env"), (load_agent, "agent")):
        if ":" in (named := run.named(section)):
            load(named, recorded=not trust)
    if (embedder := getattr(spec, "embedder", None)) and is_class(embedder):
        registry.load(embedder, {}, GROUP, "embedder", recorded=not trust)
    return run, spec


def together(run: Run, spec: S, runs: Path, *, trust: bool) -> list[tuple[Run, S]]:
    """Return a recorded experiment and those that were started with it, in order."""
    members = [(run, spec)]
    while companion := members[-1][0].companion:
        if any(companion.name == one.directory.name for one, _ in members):
            raise LdmError(
                f"{run.directory} leads back to {companion} by its companions.",
                "Its run.json was changed: start the evaluation anew.",
            )
        members.append(recorded_spec(str(companion), type(spec), runs, trust=trust))
    return members


def _resumed(run: Run, spec: S, now: Member[S], models: Section) -> Member[S]:
    changes = differences(run.manifest.protocol, now.protocol)
    if now.spec.memory_digest != spec.memory_digest:
        changes.append(f"the memory at {spec.memory} holds other tuples")
    if changes:
        raise LdmError(
            f"{run.directory} cannot be resumed because something has changed: {changes[0]}.",
            "Start a new run.",
        )
    for name, value in models.given:
        if name.endswith("llm") and value != spec.models.options.get(name):
            raise LdmError(
                f"{run.directory} was started with {name.replace('_', '-')} "
                f"{spec.models.text(name, 'none')}, not {value}.",
                "Omit the option, or start a new run.",
            )
    spec = replace(spec, models=spec.models.with_options(**models.options))
    return replace(now, spec=spec, started=run)


def discard(members: Sequence[Member[Any]]) -> None:
    """Remove new runs, if none holds a result, a part of one or a paid call."""
    if all(one.new and not any(one.run.directory.rglob("*.jsonl")) for one in members):
        for member in members:
            member.run.remove()


def check_backend(runtime: Runtime) -> None:
    """Raise LdmError if an experiment that calls a model is to run in other processes.

    One client in this process counts and limits the calls.
    """
    if runtime.backend in (None, "threads"):
        return
    raise LdmError(
        f"--backend {runtime.backend} is for what calls no model: all calls, and their limits, go "
        "through one client in this process.",
        "Leave --backend out: tasks are then worked on in threads, --workers of them.",
    )
