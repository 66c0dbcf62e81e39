"""Refinements explore training goals, and add better decisions to the memory.

`worth_of` measures what rules are worth: states of training tasks in which they hold, played on
both ways.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import fmean, mean
from typing import Any

from ldm.config import DEFAULT_GOALS, Refine, Section, full_location, written
from ldm.envs import load_env
from ldm.envs.metadata import batch_size
from ldm.episode import Environment
from ldm.errors import Interrupted, LdmError
from ldm.explore.gate import Verdict, judge
from ldm.explore.refine import ExplorationSetup, ExploredGoal, Explorer
from ldm.explore.report import gate_settings, totals
from ldm.explore.tree import Position, Positions
from ldm.memory import FormationOptions, extend, generations, inspect
from ldm.memory.index import Generation
from ldm.memory.lessons import Contents
from ldm.reason.rules import FactReader, Rule, descriptions, holds
from ldm.reason.vocabulary import Lesson
from ldm.run import builders, engine
from ldm.run.builders import ExplorerBuilder
from ldm.run.engine import Experiment, Member, Session, checked_again, protocol
from ldm.run.grid import cost_lines
from ldm.run.results import describe_replies
from ldm.run.runtime import Runtime, counting
from ldm.run.selection import check_leakage, select, training_split, with_data
from ldm.run.statistics import bootstrap
from ldm.runs import Run, evaluated_leak_keys, list_runs
from ldm.text import counted, short
from ldm.types import Task

#: The argument of a run with the id of the round before.
AFTER = "after"


@dataclass(frozen=True, slots=True)
class Refined:
    """Hold the outcome of a refinement.

    generation: None if nothing was added: not yet, or because there is nothing to add (`idle`).
    """

    spec: Refine
    run: Run
    explored: tuple[ExploredGoal, ...]
    verdict: Verdict
    generation: Generation | None

    def __str__(self) -> str:
        """Return a line on the improved goals and the new generation."""
        total, added = totals(self.explored), self.generation
        outcome = (
            ("the memory stays as it is" if self.idle else "nothing was added yet")
            if added is None
            else f"generation {added.number} with {added.tuples} tuples → {self.spec.memory}"
        )
        goals = f"{total['improved']} of {total['goals']} goals improved"
        return f"{self.spec.env.name}: {goals}; {outcome}"

    @property
    def idle(self) -> bool:
        """Return whether nothing is worth adding to the memory."""
        return not self.verdict.rows

    def gain(self) -> tuple[float, float, float] | None:
        """Return the mean difference that the gate measured, with its 95 % interval.

        None if it played none.
        """
        gains = self.verdict.gains
        return _interval(gains, self.spec.seed) if gains else None

    def intervals(self) -> list[tuple[float, float, float]]:
        """Return the mean difference of each of the gate's comparisons, with its 95 % interval."""
        return [_interval(one.gains, self.spec.seed) for one in self.verdict.comparisons]


def _interval(values: Sequence[float], seed: int) -> tuple[float, float, float]:
    """Return a mean and its 95 % interval."""
    return (fmean(values), *bootstrap(values, seed=seed))


def refine(spec: Refine, *, runtime: Runtime | None = None, dry_run: bool = False) -> Refined:
    """Explore training goals; better decisions become the memory's next generation.

    Without any, the memory stays as it is.

    spec.env: "" takes the memory's only environment. dry_run: explore, and add nothing yet.
    Raises LdmError if a name, an option, data or the memory does not fit, and Interrupted,
    WorkerDied or RunStopped, after which `ldm refine --resume RUN` continues.
    """
    *_, last = rounds(prepare(spec, runtime or Runtime(), dry_run=dry_run))
    return last


def rounds(refinement: Refinement) -> Iterator[Refined]:
    """Explore the goals `spec.rounds` times, each time with the memory of the round before.

    Each round is a run of its own, which names the next one when it is resumed.
    """
    following: Refinement | None = refinement
    while following is not None:
        result = following.play()
        yield result
        following = None if following.dry_run else _next_round(result, following.runtime)


def _next_round(result: Refined, runtime: Runtime) -> Refinement | None:
    """Start the round after `result`, unless it was the last or a later one has begun.

    Its run lies beside the one before, wherever that is resumed from.
    """
    spec, added = result.spec, result.generation
    if spec.round == spec.rounds or added is None:
        return None
    newest = generations(spec.memory, added.env)[-1].number
    beside, before = result.run.directory.parent, result.run.manifest.id
    begun = (other.manifest.arguments.get(AFTER) == before for other in list_runs(beside))
    if newest != added.number or any(begun):
        runtime.message("A later round has begun: resume that run.")
        return None
    spec = replace(
        spec,
        tasks=tuple(one.task.id for one in result.explored),
        reuse_goals=True,
        generation=None,
        memory_digest="",
        round=spec.round + 1,
    )
    return prepare(spec, replace(runtime, runs=beside), dry_run=False, facts={AFTER: before})


def prepare(
    spec: Refine, runtime: Runtime, *, dry_run: bool, facts: Mapping[str, Any] | None = None
) -> Refinement:
    """Choose the goals and write a new run, or nothing if something does not fit.

    facts: arguments of the run.
    """
    spec = resolved(spec, runtime)
    with closing(builders.build_environment(spec.env, runtime.cache)) as env:
        contents = inspect(spec.memory, env.card.name, spec.generation)
        base = contents.generation
        if not dry_run:
            _check_newest(spec.memory, base)
        spec = builders.recalling(spec, base)
        tasks = choose(spec, env, contents, runtime)
        spec = _with_method(replace(spec, tasks=tuple(task.id for task in tasks)))
        checked = Member(spec, tasks, protocol(env, spec.split, tasks), facts or {})
    if not spec.typed("models").configured:
        runtime.once("No LLM configured; using the offline reasoner.")
    return Refinement(engine.start([checked], _subject, runtime), runtime, dry_run=dry_run)


def _subject(spec: Refine) -> tuple[str, ...]:
    """Return the beginning of a run's id."""
    return "refine", short(spec.env.name), spec.split


@dataclass(frozen=True)
class Refinement(Experiment[Refine, Refined, Refined]):
    """Explore goals with one generation of a memory, judge the result and extend the memory.

    dry_run: judge, and add nothing yet.
    """

    dry_run: bool = False

    spec = Refine
    builder = builders.ExplorerBuilder
    worker = Explorer
    record = ExploredGoal

    @classmethod
    def check(cls, spec: Refine, runtime: Runtime) -> Member[Refine]:
        checked = checked_again(spec, spec.tasks, runtime)
        known = {g.number: g.digest for g in generations(spec.memory, checked.tasks[0].env)}
        digest = known.get(spec.generation or 0, "")
        return replace(checked, spec=replace(spec, memory_digest=digest))

    def items(self, member: Member[Refine], session: Session) -> Sequence[tuple[int, Task]]:
        """Return the goals to explore."""
        return list(enumerate(member.tasks))

    @contextmanager
    def showing(
        self, member: Member[Refine], session: Session, total: int
    ) -> Iterator[Callable[[ExploredGoal], None]]:
        spec, improved = member.spec, list[bool]()
        number = f" {spec.round}/{spec.rounds}" if spec.rounds > 1 else ""
        label = f"refine {short(spec.env.name)}{number}"
        with counting(self.runtime.stages, label, total) as advance:

            def on_result(explored: ExploredGoal) -> None:
                improved.append(any(tree.improved for tree in explored.trees))
                advance(f"improved {sum(improved)}")

            yield on_result

    def finish(
        self, member: Member[Refine], session: Session, known: Sequence[ExploredGoal]
    ) -> Refined:
        formation, generation = FormationOptions(batch_size(member.spec.env.name)), None
        with self.runtime.stages() as on_progress:
            gate = member.spec.typed("gate")
            verdict = judge(session.stage, session.setup, known, gate, formation, on_progress)
        if verdict.rows and not self.dry_run:
            try:
                generation = _extended(member, known, verdict, self.runtime)
            except KeyboardInterrupt as stop:
                raise self._interrupted(member, known) from stop
        return Refined(member.spec, member.run, tuple(known), verdict, generation)

    def result(self, outcomes: Sequence[Refined]) -> Refined:
        return outcomes[0]

    def costs(self) -> Iterator[str]:
        """Explore a few goals; yield lines on the cost of all."""
        (member,) = self.members
        usages = [one.usage for one in self.sample(member)]
        yield from cost_lines(usages, len(member.tasks), member.models, "goals")
        if member.spec.typed("gate").gate == "on":
            yield "The gate comes on top: it plays each goal without and with what is added."

    @contextmanager
    def at_work(self, member: Member[Refine]) -> Iterator[Session]:
        """Yield a session; at the end, report how usable a model's replies were."""
        with super().at_work(member) as session:
            try:
                yield session
            finally:
                counts = Counter[str]()
                for setup in session.setups:
                    counts.update(setup.reasoner.counts())
                if line := describe_replies(counts):
                    self.runtime.message(line)

    def _interrupted(self, member: Member[Refine], explored: Sequence[ExploredGoal]) -> Interrupted:
        """Return the error for an interruption while the memory is written."""
        memory = member.spec.memory
        newest = generations(memory, member.tasks[0].env)[-1].number
        return Interrupted(
            f"Stopped while the memory was being written: {memory} is at generation {newest}. "
            f"{counted(len(explored), 'explored goal')} and the verdict are in "
            f"{member.run.directory}.",
            f"Resume with `{self.resume_command}`.",
        )


def _extended(
    member: Member[Refine], explored: Sequence[ExploredGoal], verdict: Verdict, runtime: Runtime
) -> Generation:
    """Add the verdict's tuples to the memory, as its next generation."""
    spec, models, gains = member.spec, member.models, verdict.gains
    known = generations(spec.memory, explored[0].task.env)
    base = next(generation for generation in known if generation.number == spec.generation)
    if ":" in spec.env.name:
        base = replace(base, env_class=spec.env.name)
    total = totals(explored)
    options = {name: str(value) for name, value in asdict(spec.typed("search")).items()}
    settings = {
        "goals": str(total["goals"]),
        "improved": str(total["improved"]),
        **options,
        "split": spec.split,
        **{f"env.{name}": written(value) for name, value in spec.env.given},
        **{name: written(value) for name, value in spec.policy.given},
        "gate": spec.typed("gate").gate,
        **({"round": f"{spec.round}/{spec.rounds}"} if spec.rounds > 1 else {}),
        **gate_settings(verdict, _interval(gains, spec.seed) if gains else None),
        "seed": str(spec.seed),
        "reasoner": models.roles()["reasoner"] if models.configured else "offline",
    }
    with runtime.stages() as on_progress:
        return extend(
            spec.memory,
            base,
            verdict.rows,
            builders.open_embedder(spec.embedder, runtime.embeddings),
            tasks=[one.task.id for one in explored if not one.error],
            settings=settings,
            batches=verdict.batches,
            on_progress=on_progress,
        )


def resolved(spec: Refine, runtime: Runtime) -> Refine:
    """Return the spec with environment, data, training split and the memory's full place."""
    memory = full_location(spec.memory)
    name = spec.env.name or builders.remembered_class(memory, builders.only_environment(memory))
    load_env(name, recorded=not (spec.env.name or runtime.trust))
    env = with_data(Section(name, spec.env.given), runtime)
    split = training_split(env, spec.split, runtime)
    return replace(spec, env=env, split=split, memory=memory).settled("policy", "search", "gate")


def _with_method(spec: Refine) -> Refine:
    """Return the spec with the defaults of consulting a model and of the explorer.

    The explorer is the paper's tree in the paper's way, or if each decision costs a model call; a
    best-first search takes many more decisions, and finds more.
    """
    calls_models = spec.typed("models").configured
    if calls_models:
        given = spec.typed("policy").with_model(spec.policy.options)
        spec = replace(spec, policy=spec.policy.with_options(**given))
    always = calls_models and spec.typed("policy").consult == "always"
    explorer = "tree" if always or spec.typed("gate").gate == "off" else "best-first"
    return replace(spec, search=Section.read({"explorer": explorer, **spec.search.options}))


def _check_newest(memory: str, base: Generation) -> None:
    """Raise LdmError if `base` is not the newest generation, which alone can be extended."""
    newest = generations(memory, base.env)[-1]
    if newest.number != base.number:
        raise LdmError(
            f"Generation {base.number} is not the newest of {base.env}, so nothing can be added to "
            f"it: the newest is {newest.number}.",
            f"Use --dry-run, or go back with `ldm memory rollback {base.number}`.",
        )


def choose(
    spec: Refine, env: Environment, contents: Contents, runtime: Runtime
) -> tuple[Task, ...]:
    """Return the goals to explore: those named, or new ones, kinds evenly.

    Raises LdmError if a named goal may not be explored, or if none is left.
    """
    tasks = env.tasks(spec.split)
    evaluated = evaluated_leak_keys(runtime.runs, spec.env.name)
    generation, remembered = contents.generation.number, contents.sources()
    before = (g for g in generations(spec.memory, env.card.name) if g.number <= generation)
    explored = {task for one in before for task in one.tasks}
    new = [
        task
        for task in tasks
        if task.leak_key not in evaluated
        and (spec.reuse_goals or not (task.leak_key in remembered or task.id in explored))
    ]
    if spec.tasks:
        chosen = select(tasks, ids=spec.tasks, kinds=spec.kinds)
        for task in chosen:
            check_leakage(evaluated, [task], remedy="Explore other goals; this one was evaluated.")
            if task not in new:
                raise LdmError(
                    f"The goal {task.id} is known already.", "Explore others, or use --reuse-goals."
                )
        return chosen
    if left_out := sum(task.leak_key in evaluated for task in tasks):
        goals_of = f"{counted(left_out, 'goal')} of {spec.split}"
        runtime.message(f"Skipping {goals_of}, evaluated before.")
    if not new:
        raise LdmError(
            f"All {len(tasks)} goals of {spec.split} are known to the memory already.",
            "Explore another split, or use --reuse-goals.",
        )
    return select(new, kinds=spec.kinds, limit=spec.limit or DEFAULT_GOALS, seed=spec.seed)


#: Tasks that are played, and proposals among which are a rule's action and another one.
TASKS, OTHERS = 20, 8


@dataclass(frozen=True, slots=True)
class Worth:
    """How a rule did in so many states.

    obeyed, broken: the mean score with an action as it says, and with another one. saved: the mean
    number of steps by which the task ended earlier with it.
    """

    rule: str
    states: int = 0
    obeyed: float = 0.0
    broken: float = 0.0
    saved: float = 0.0


def worth_of(
    rules: Sequence[Rule], reader: FactReader, spec: Refine, runtime: Runtime
) -> list[Worth]:
    """Return what rules of a memory are worth, in their order, on tasks of a training split.

    A task is played as memory decides. Where a rule's condition holds for the first time, it is
    played to its end from there twice: with an action as the rule says, and with the likeliest
    other one. States are reached by copies of the environment, or by replay. reader: of facts.
    """
    spec = resolved(spec, runtime)
    setup = ExplorerBuilder(spec, runtime.cache, runtime.embeddings)()
    ends: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    with closing(setup.env):
        tasks = setup.env.tasks(spec.split)
        sources = setup.memory.contents.sources()
        new = [task for task in tasks if task.leak_key not in sources]
        for task in select(new or tasks, kinds=spec.kinds, limit=spec.limit or TASKS):
            for rule, obeyed, broken in _tried(rules, reader, setup, task):
                saved = len(broken.past) - len(obeyed.past)
                ends[rule].append((obeyed.earned, broken.earned, saved))
    return [
        Worth(one.text, len(tried), *(round(mean(x), 3) for x in zip(*tried, strict=True)))
        for one in rules
        for tried in [ends[one.text]]
    ]


def _tried(
    rules: Sequence[Rule], reader: FactReader, setup: ExplorationSetup, task: Task
) -> Iterator[tuple[str, Position, Position]]:
    """Yield (rule, end with it, end against it) of the first state in which each one holds."""
    left, policy, batches = list(rules), setup.policy, setup.policy.batches(task.goal)
    with closing(Positions(setup.env, task)) as positions:

        def end(position: Position, action: str) -> Position:
            first = positions.after(position, action)
            rest = [after for _, after in setup.greedy(positions, first, task, policy, batches)]
            return [first, *rest][-1]

        position = positions.start()
        while not position.now.done and len(position.past) < setup.options.depth:
            observed = setup.observed(task, position)
            proposals = [x.action for x in policy.rank(observed, batches, OTHERS).proposals]
            step = Lesson("", task.goal, task.kind, position.past, observed.observation, "")
            facts, now = reader.read(step)
            for rule in [one for one in left if all(holds(x, facts) for x in one.facts)]:
                obeying = [x for x in proposals if rule.action in descriptions(x, now)]
                others = [x for x in proposals if x not in obeying]
                if obeying and others:
                    left.remove(rule)
                    yield rule.text, end(position, obeying[0]), end(position, others[0])
            position = positions.moved(position, proposals[0])
