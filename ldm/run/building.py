"""Build memories from trajectory files, offline or with a model.

A recording holds the actions that were taken. To learn from it, they must be told apart from the
other possible actions, which only the environment knows: `with_possible` plays it again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ldm import records
from ldm.config import DEFAULT_MEMORY, Build, Section, written
from ldm.embed import Embedder
from ldm.envs import load_env
from ldm.envs.formats import NOTHING, Assumed, read_all, write
from ldm.envs.metadata import batch_size
from ldm.episode import EnvironmentBase
from ldm.errors import Interrupted, LdmError, MemoryStoreError
from ldm.llm import LLM, ScopedLLM
from ldm.llm.models import Models
from ldm.memory import FormationOptions, build, environments, inspect
from ldm.memory.formation import BuildResult, form_batch
from ldm.memory.record import CALLS, is_server
from ldm.reason import Reasoner
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.prompting import PromptedOptions
from ldm.run.builders import Knowledge, build_environment, card_of, environment_card, open_embedder
from ldm.run.grid import SAMPLE, cost_lines
from ldm.run.results import describe_replies
from ldm.run.runner import TRAJECTORIES
from ldm.run.runtime import Runtime, counting
from ldm.run.selection import even
from ldm.runs import MANIFEST, open_run
from ldm.types import Step, Task, Trajectory, Usage, by_key, stable_seed

#: A score differs from the recorded one from this on.
TOLERANCE = 1e-6


def with_possible(
    trajectories: Sequence[Trajectory],
    env: Section,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Trajectory]:
    """Return the trajectories with the possible actions of their steps, where they can be known.

    env: the environment's class and options, which also choose the form of observations. An episode
    gets no possible actions if the environment has no such task or lists no actions, or if it does
    not take the same course again.
    """
    lacking = any(step.possible is None for one in trajectories for step in one.steps)
    if not (lacking or env.options):
        return list(trajectories)
    try:
        load_env(env.name, recorded=True)  # no code that only a file names is run
        world = build_environment(env)
    except Exception:  # of any kind: a recording is of use without its environment
        return list(trajectories)
    tasks: dict[str, Mapping[str, Task]] = {}
    known = []
    with closing(world):
        for done, one in enumerate(trajectories):
            known.append(_replayed(world, world.as_shown(one), tasks))
            on_progress("replay", done + 1, len(trajectories))
    return known


def _replayed(
    world: EnvironmentBase, one: Trajectory, tasks: dict[str, Mapping[str, Task]]
) -> Trajectory:
    """Return a trajectory with its possible actions, or as it is."""
    try:
        if (task := _task_of(one, world, tasks)) is None:
            return one
        now, steps, score = world.reset(task), list[Step](), 0.0
        for step in one.steps:
            if not step.action:
                steps.append(step)
                continue
            if now.done or step.action not in (now.admissible or ()):
                return one
            steps.append(replace(step, possible=tuple(dict.fromkeys(now.admissible or ()))))
            now = world.step(step.action)
            score += now.reward
        same = abs(score - one.score) < TOLERANCE
        return replace(one, steps=tuple(steps)) if same else one
    except (LdmError, OSError, ImportError, ValueError, KeyError):
        tasks.setdefault(one.task.split, {})
        return one


def listed_in(trajectories: Iterable[Trajectory], env: Section) -> dict[str, Any]:
    """Play recorded episodes again; return how many actions were possible as listed, of how many.

    unknown: trajectories of tasks that the environment does not have. first: the first action that
    was not listed, with its place.
    """
    tasks: dict[str, Mapping[str, Task]] = {}
    possible, steps, unknown, first = 0, 0, 0, ""
    with closing(build_environment(env)) as world:
        for one in trajectories:
            if (task := _task_of(one, world, tasks)) is None:
                unknown += 1
                continue
            now = world.reset(task)
            for number, step in enumerate(one.steps, 1):
                if step.action and not now.done:
                    is_listed = step.action in (now.admissible or ())
                    steps, possible = steps + 1, possible + is_listed
                    if not is_listed:
                        first = first or f"{task.id}, step {number}: {step.action}"
                    now = world.step(step.action)
    return {"possible": possible, "steps": steps, "unknown": unknown, "first": first}


def _task_of(
    one: Trajectory, world: EnvironmentBase, tasks: dict[str, Mapping[str, Task]]
) -> Task | None:
    """Return the environment's task of a trajectory, if it has it. tasks: those read before."""
    split = one.task.split
    if split not in tasks:
        tasks[split] = {task.id: task for task in world.tasks(split)}
    return tasks[split].get(one.task.id)


def build_memory(
    data: str | Path | Iterable[str | Path | Trajectory] | None = None,
    memory: str = DEFAULT_MEMORY,
    options: Build | None = None,
    *,
    runtime: Runtime | None = None,
) -> list[BuildResult]:
    """Form a memory from trajectories, each environment by itself.

    data: folders or files, or trajectories themselves; None for the shipped expert episodes.
    memory: a directory, or http://host:port of a Chroma server.
    Trajectories that the memory holds are skipped; others become a further generation.
    Raises LdmError if there is no trajectory, or if a record is bad and `options.strict`.
    """
    options, runtime = options or Build(), runtime or Runtime()
    sources = [data] if isinstance(data, str | Path) else data
    return list(build_each(sources, memory, options, runtime))


def read_trajectories(
    data: str | Path | Iterable[str | Path] | None = None,
    *,
    strict: bool = True,
    assumed: Assumed | None = None,
) -> list[Trajectory]:
    """Return the trajectories in files or below folders, in any format that `ldm import` reads.

    data: None for the shipped expert episodes. strict: raise RecordError at the first bad record;
    otherwise bad records are skipped. assumed: values that recordings of others
    do not state, above all their environment.
    """
    sources = [data] if isinstance(data, str | Path) else data
    runtime = Runtime()
    paths = _existing(sources, runtime)
    return read_all(paths, runtime.message, strict=strict, assumed=assumed or NOTHING)


def write_trajectories(
    path: str | Path, trajectories: Iterable[Trajectory], *, to: str = ""
) -> None:
    """Write trajectories to a JSONL file, .gz to compress it; reading returns equal ones.

    to: "ldm" or "chat"; "" for our own format.
    """
    write(Path(path), list(trajectories), to)


def build_each(
    data: Iterable[str | Path | Trajectory] | None, memory: str, options: Build, runtime: Runtime
) -> Iterator[BuildResult]:
    """Build memories as `build_memory` does, yielding each environment's once it is complete."""
    chosen, classes = selected(data, options, runtime)
    embedder = open_embedder(options.embedder, runtime.embeddings)
    with _reasoners(memory, options, runtime) as reasoner_for:
        for env in sorted({t.task.env for t in chosen}):
            with runtime.stages() as on_progress, _resumable(memory, env):
                world = Section.read({**options.env.options, "name": classes.get(env, env)})
                of_env = [t for t in chosen if t.task.env == env]
                built = build(
                    memory,
                    with_possible(of_env, world, on_progress),
                    embedder,
                    reasoner_for(classes.get(env, env)),
                    options=formation_options(classes.get(env, env), options),
                    rebuild=options.rebuild,
                    env_class=classes.get(env, ""),
                    on_progress=on_progress,
                )
            yield built


def selected(
    data: Iterable[str | Path | Trajectory] | None, options: Build, runtime: Runtime
) -> tuple[list[Trajectory], dict[str, str]]:
    """Return the trajectories that a memory is formed from, and environment → its class if known.

    Raises LdmError if there is none.
    """
    sources = None if data is None else list(data)
    ready = [source for source in sources or () if not isinstance(source, str | Path)]
    named = None if sources is None else [s for s in sources if isinstance(s, str | Path)]
    paths = _existing(named, runtime)
    read = read_all(paths, runtime.message, name=options.format, strict=options.strict)
    only, classes = _environment_classes(options.env, paths)
    chosen = [t for t in [*read, *ready] if not only or t.task.env == only]
    if not chosen:
        of = f" of {only}" if only else ""
        where = f" in {', '.join(map(str, paths))}" if paths else ""
        raise LdmError(
            f"No trajectories{of} found{where}.",
            "`ldm import` converts other formats; `ldm validate --schema trajectory` shows ours.",
        )
    if options.per_kind:
        chosen = drawn_per_kind(chosen, options.per_kind, options.seed)
    return chosen, classes


@contextmanager
def _resumable(memory: str, env: str) -> Iterator[None]:
    """Tell a user who interrupts a build how to resume it. Raises Interrupted."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Interrupted(
            f"Stopped before the memory of {env} at {memory} was complete; it is unchanged, and "
            "answers of a model and vectors are kept.",
            "Run the same command again: it does not compute these again.",
        ) from stop


def _environment_classes(env: Section, paths: Iterable[Path]) -> tuple[str, dict[str, str]]:
    """Return the chosen environment, "" for all, and environment → its class if known.

    A class is named by the user, or by the run that recorded the trajectories in `paths`.
    """
    if ":" in env.name:
        name = environment_card(env).name
        return name, {name: env.name}
    return env.name, {env: recorded for path in paths for env, recorded in _recorded_class(path)}


def _recorded_class(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the environment of a run's trajectories and its class, if run.json names one."""
    directory = path if path.is_dir() else path.parent
    file = directory / TRAJECTORIES
    if not (directory / MANIFEST).is_file() or not file.is_file():
        return
    recorded = open_run(str(directory), directory.parent).named("env")
    if ":" in recorded:
        first = next(records.scan(file, Trajectory), None)
        if isinstance(first, Trajectory):
            yield first.task.env, recorded


def drawn_per_kind(
    trajectories: Iterable[Trajectory], count: int, seed: int = 0
) -> list[Trajectory]:
    """Draw up to `count` trajectories of each task kind of each environment, by `seed`."""
    kinds = by_key(((one.task.env, one.task.kind), one) for one in trajectories)
    drawn = []
    for kind in sorted(kinds):
        members = sorted(kinds[kind], key=lambda t: t.id)
        generator = random.Random(stable_seed(seed, "per kind", *kind))
        drawn += generator.sample(members, min(count, len(members)))
    return drawn


def shipped_trajectories() -> Path | None:
    """Return the folder of the expert episodes that ship with the package, or None.

    A wheel has them beside its modules, a checkout among its data.
    """
    package = Path(__file__).parents[1]
    places = (package / "trajectories", package.parent / "data" / "trajectories")
    return next((place for place in places if place.is_dir()), None)


def _existing(named: Iterable[str | Path] | None, runtime: Runtime) -> list[Path]:
    """Return the named paths, or the shipped one for None. Raises LdmError if one is missing."""
    if named is None:
        if (folder := shipped_trajectories()) is None:
            raise LdmError(
                "This copy of ldm ships no expert episodes.",
                "Reinstall ldm-memory, or name files of your own.",
            )
        runtime.message(f"No input named; using the bundled expert episodes in {folder}.")
        return [folder]
    paths = [Path(path) for path in named]
    for path in paths:
        if not path.exists():
            raise LdmError(
                f"{path} does not exist.",
                "Check the path, or name none to build from the expert episodes that ldm ships;"
                " `ldm demo` shows the whole way.",
            )
    return paths


def formation_options(env: str, options: Build) -> FormationOptions:
    """Return the formation options for an environment."""
    return FormationOptions(
        options.batch_size or batch_size(env),
        seed=options.seed,
        min_reward=options.min_reward,
        failures=options.failures,
        rendering=tuple((name, written(value)) for name, value in options.env.given),
    )


@contextmanager
def _reasoners(
    memory: str, options: Build, runtime: Runtime
) -> Iterator[Callable[[str], Callable[[Embedder], Reasoner]]]:
    """Yield environment → a factory of the reasoner that forms its memory, with a model or offline.

    At the end, the cost of a model and the usability of its replies are reported.
    """
    models = options.typed("models")
    if not models.configured:
        runtime.message("No LLM configured; the offline reasoner forms the memory.")
        yield lambda env: OfflineReasoner
        return
    if not models.replay:
        where = runtime.connection().display_url
        runtime.message(f"Using {models.roles()['reasoner']} at {where} to form the memory.")
    record = calls_folder(memory, runtime)
    reasoners: list[PromptedReasoner] = []
    prompted = PromptedOptions(options.wording, concurrency=models.in_flight)
    so_far = " of this memory so far"  # of all builds into one folder
    with Models(models, runtime.connection, record, runtime.message, so_far) as served:

        def reasoner_for(env: str) -> Callable[[Embedder], Reasoner]:
            def make(embedder: Embedder) -> Reasoner:
                known = Knowledge(embedder, OfflineReasoner(embedder), None)
                reasoners.append(known.ask(served.get("reasoner"), card_of(env), prompted))
                return reasoners[-1]

            return make

        try:
            yield reasoner_for
        finally:
            for reasoner in reasoners:
                if line := describe_replies(reasoner.counts()):
                    runtime.message(line)


def calls_folder(memory: str, runtime: Runtime) -> Path | None:
    """Return the default folder for the calls of a memory, or None for a server's."""
    if is_server(memory):
        runtime.message("The calls of a memory on a server are recorded only with --cache FOLDER.")
        return None
    return Path(memory) / CALLS


def estimate(
    data: Iterable[str | Path | Trajectory] | None, memory: str, options: Build, runtime: Runtime
) -> Iterator[str]:
    """Form a few trajectories separately, and yield lines on the estimated cost of all.

    Only the calls are stored; those for histories are not paid again. Types are made from whole
    batches, which takes fewer calls than single trajectories, so that part is overestimated.
    Raises LdmError if no model is named, or there is no new trajectory.
    """
    models = options.typed("models")
    if not models.configured:
        raise LdmError("Without a model, forming a memory costs nothing.", "Name one: --llm MODEL.")
    chosen, classes = selected(data, options, runtime)
    held = set() if options.rebuild else _held(memory)
    new = [
        one
        for one in {one.id: one for one in chosen}.values()
        if one.id not in held
        and any(step.action for step in one.steps)
        and formation_options(one.task.env, options).takes(one)
    ]
    if not new:
        raise LdmError(f"There is nothing new for {memory}: building it costs nothing.", "")
    kinds = [(one.id, f"{one.task.env} {one.task.kind}") for one in new]
    sample = [new[i] for i in even(kinds, min(SAMPLE, len(new)))]
    embedder = open_embedder(options.embedder, runtime.embeddings)
    record = calls_folder(memory, runtime)
    prompted = PromptedOptions(options.wording, concurrency=models.in_flight)
    usages = []
    with (
        Models(models, runtime.connection, record, runtime.message) as served,
        counting(runtime.stages, "estimate", len(sample)) as advance,
    ):
        llm = served.get("reasoner")
        for one in sample:
            known_as = classes.get(one.task.env, one.task.env)
            world = Section.read({**options.env.options, "name": known_as})
            (shown_as,) = with_possible([one], world)
            usages.append(_cost(shown_as, llm, known_as, embedder, prompted))
            advance()
    yield from cost_lines(usages, len(new), models, "trajectories")
    yield "Build the memory with the same command without --estimate; no history is paid twice."


def _held(memory: str) -> set[str]:
    """Return the ids of the trajectories that a memory holds; empty if there is no memory."""
    try:
        names = environments(memory)
    except MemoryStoreError:
        return set()
    return {t for env in names for b in inspect(memory, env).batches for t in b.trajectories}


def _cost(
    trajectory: Trajectory, llm: LLM, known_as: str, embedder: Embedder, options: PromptedOptions
) -> Usage:
    """Form a batch of one trajectory; return the cost of its calls. known_as: its environment."""
    spent: list[Usage] = []
    scoped = ScopedLLM(llm, lambda: (), spent.append)
    known = Knowledge(embedder, OfflineReasoner(embedder), None)
    reasoner = known.ask(scoped, card_of(known_as), options)
    form_batch("sample", [trajectory], reasoner, 0)
    return sum(spent, Usage())
