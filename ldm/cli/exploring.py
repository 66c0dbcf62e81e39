"""A refinement as `ldm refine` carries it out: with what, by how many, and what it adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ldm.cli import output
from ldm.cli.arms import STOPPED, cores, forget, short
from ldm.cli.models import ModelOptions, Models, serving
from ldm.cli.wiring import (
    Knowledge,
    Settings,
    SharedKnowledge,
    build_environment,
    load_knowledge,
    override,
)
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.episode import Environment
    from ldm.explore import ExplorationSetup, ExploredGoal, RefineOptions
    from ldm.memory import Generation
    from ldm.policy import PolicyOptions
    from ldm.reasoner import Reasoner
    from ldm.runs import Run
    from ldm.types import Task


@dataclass(frozen=True, slots=True)
class RefinementPlan:
    """What a refinement is determined by; run.json holds it, so that it can be resumed.

    tasks: ids of the goals to explore. options: (field, value) of RefineOptions; policy_options,
    env_options: (field, value as written) of PolicyOptions and of the environment's Options.
    generation, memory_digest: what is explored with, and built upon.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    env: str
    split: str
    tasks: tuple[str, ...] = field(repr=False)
    memory: str
    generation: int
    embedder: str
    memory_digest: str
    env_options: Settings = ()
    policy_options: Settings = ()
    options: Settings = ()
    seed: int = 0

    def environment(self) -> Environment:
        """The environment, for its tasks and protocol, or to be explored."""
        return build_environment(self.env, self.env_options)

    def refine_options(self) -> RefineOptions:
        """How goals are explored."""
        from ldm.explore import RefineOptions

        found: RefineOptions = override(RefineOptions, dict(self.options), "refinement")
        return found

    def __call__(
        self, models: Models | None = None, knowledge: Knowledge | None = None
    ) -> ExplorationSetup:
        """What the goals are explored with, in any process.

        models: whom the reasoner asks. knowledge: what `self.knowledge` gave, where it is there.
        Raises LdmError where a name, an option, data or the memory does not fit.
        """
        from ldm.explore import ExplorationSetup
        from ldm.policy import Policy, PolicyOptions

        policy_options: PolicyOptions = override(PolicyOptions, dict(self.policy_options), "policy")
        env = self.environment()
        known = knowledge or self.knowledge(env.card.name)
        reasoner: Reasoner = known.reasoner
        if models is not None:
            reasoner = known.ask(
                models.get("reasoner"), env.card, policy_options.prompted(models.options.at_once)
            )
        assert known.memory is not None  # noqa: S101 - a refinement has one
        policy = Policy(known.memory, reasoner, policy_options, self.seed)
        return ExplorationSetup(
            env, known.memory, reasoner, policy, self.refine_options(), self.seed
        )

    def knowledge(self, env: str) -> Knowledge:
        """The memory of environment `env` (its card's name), and who reasons about it."""
        return load_knowledge(self.embedder, self.memory, env, self.generation)


class Served:
    """A plan with the models of this process, for explorers in its threads.

    replies: what became of those of all its reasoners, added up.
    """

    def __init__(self, plan: RefinementPlan, models: Models) -> None:
        self._plan = plan
        self._models = models
        self._knowledge = SharedKnowledge(plan)
        self._made: list[Reasoner] = []

    def __call__(self) -> ExplorationSetup:
        made = self._plan(self._models, self._knowledge())
        self._made.append(made.reasoner)
        return made

    def replies(self) -> Counter[str]:
        found = Counter[str]()
        for reasoner in self._made:
            found.update(reasoner.counts())
        return found


def carry_out(
    plan: RefinementPlan,
    run: Run,
    chosen: Sequence[Task],
    models: ModelOptions,
    workers: int | None,
    *,
    fresh: bool,
) -> list[ExploredGoal]:
    """Explore the goals that are not explored yet; what became of all. fresh: of a new run."""
    from ldm.explore import refine as explore

    improved: list[bool] = []

    def shown(explored: ExploredGoal) -> None:
        improved.append(any(tree.improved for tree in explored.trees))
        advance(f"improved {sum(improved)}")

    usual = models.at_once if models.configured else cores()
    hands = usual if workers is None else max(1, workers)
    try:
        with (
            output.progress(f"refine {short(plan.env)}", len(chosen)) as advance,
            _wired(plan, run, models) as (wiring, threads),
        ):
            return explore(run, wiring, chosen, workers=hands, threads=threads, on_result=shown)
    except STOPPED:
        raise
    except LdmError:
        forget(run, fresh=fresh)
        raise


@contextmanager
def _wired(
    plan: RefinementPlan, run: Run, models: ModelOptions
) -> Iterator[tuple[RefinementPlan | Served, bool]]:
    """What builds explorers, and whether they work in threads of this process: with models."""
    if not models.configured:
        yield plan, False
        return
    from ldm.eval.report import told_replies

    with serving(models, run.directory, " in this run") as made:
        served = Served(plan, made)
        try:
            yield served, True
        finally:
            if replies := told_replies(served.replies()):
                output.say(replies)


def enlarge(
    plan: RefinementPlan, explored: Sequence[ExploredGoal], models: ModelOptions
) -> Generation:
    """The next generation of the memory, with what was found."""
    from ldm.embed import load_embedder
    from ldm.explore.report import totals
    from ldm.memory import extend, generations

    base = next(
        g for g in generations(plan.memory, explored[0].task.env) if g.number == plan.generation
    )
    found = totals(explored)
    options = plan.refine_options()
    made_with = {name: str(value) for name, value in asdict(options).items()}
    made_with |= dict(plan.policy_options)
    counts = {"goals": str(found.goals), "improved": str(found.improved)}
    with output.stages() as on_progress:
        return extend(
            plan.memory,
            base,
            [row for one in explored for row in one.added],
            load_embedder(plan.embedder),
            tasks=[one.task.id for one in explored if not one.error],
            settings={
                **counts,
                **made_with,
                "seed": str(plan.seed),
                "reasoner": models.roles()["reasoner"] if models.configured else "offline",
            },
            on_progress=on_progress,
        )
