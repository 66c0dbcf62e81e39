"""What experiments are determined by: frozen values that run.json holds, so that runs resume.

Of each class, `command` records and resumes it, `noun` names it in messages, and `prompts` are what
the names of the prompts that it may use begin with. `roles` returns the roles whose models are
called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

from pydantic import Field

from ldm.options import Settings, normalise, override

if TYPE_CHECKING:
    from ldm.agents.autoplan.settings import AutoPlanSettings
    from ldm.explore import GateOptions, RefineOptions
    from ldm.llm.models import ModelOptions

DEFAULT_AGENT = "ldm"
DEFAULT_MEMORY = ".ldm/memory"


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """One agent on tasks of one split.

    env, agent: names in the registries, or package.module:Class. split: "" is the environment's.
    env_options, agent_options: of their Options, see `settings`; a mapping becomes settings.
    kinds, limit, tasks: which tasks, see `ldm.run.selection.select`.
    memory: where the memory lies. generation: None is the newest. embedder: None is the memory's.
    memory_digest: of what the memory held, so that a resumed run does not mix two memories.
    seed: of everything that is drawn, the bootstrap of success rates included.
    without_tuples, without_trajectories: ids of those of the memory that are never recalled.
    shard: "i/n" plays every n-th of the tasks from the i-th on; "" plays all of them.
    repeat: which of several evaluations of the same, with seeds that follow each other, from 1.
    models: changes to the model options of all evaluations, see `ModelOptions.changed`.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    command: ClassVar[str] = "eval"
    noun: ClassVar[str] = "an evaluation"
    prompts: ClassVar[tuple[str, ...]] = ("",)

    env: str
    split: str = ""
    agent: str = DEFAULT_AGENT
    env_options: Settings = ()
    agent_options: Settings = ()
    kinds: tuple[str, ...] = ()
    limit: int | None = None
    tasks: tuple[str, ...] = ()
    memory: str = DEFAULT_MEMORY
    generation: int | None = None
    embedder: str | None = None
    memory_digest: str = ""
    seed: int = 0
    without_tuples: tuple[str, ...] = ()
    without_trajectories: tuple[str, ...] = ()
    shard: Annotated[str, Field(exclude_if=not_)] = ""
    repeat: int = 1
    models: Settings = ()

    def __post_init__(self) -> None:
        normalise(self)

    def roles(self, models: ModelOptions) -> tuple[str, ...]:
        from ldm.agents import load_agent

        models = own_models(self, models)
        needs = load_agent(self.agent).needs
        called = {"llm": ("llm", "planner"), "reasoner": ("reasoner",)}
        if "llm" in needs or ("reasoner" in needs and models.configured):
            return tuple(role for need in needs for role in called.get(need, ()))
        return ()


def own_models(spec: object, models: ModelOptions) -> ModelOptions:
    """Return the model options of one of several experiments, which may have changes of its own.

    Raises LdmError as `ModelOptions.changed`.
    """
    changes = dict(getattr(spec, "models", ()))
    return models.changed(changes) if changes else models


#: How goals are chosen, see `ldm.run.goal_choice.Goals`.
GoalsBy = Literal["even", "failed", "long"]


@dataclass(frozen=True, slots=True)
class RefinementSpec:
    """The exploration of training goals with one generation of a memory.

    split: "" is the environment's first training split. tasks: ids of the goals to explore.
    memory, generation, embedder, memory_digest: what is explored with, and built upon; see
    `EvaluationSpec`.
    env_options, policy_options, options, gate_options: see `settings`; of the environment's
    Options, of PolicyOptions, RefineOptions and GateOptions.
    goals_by, goals: how many of `tasks` are explored, the hardest first; "even" explores all.
    rounds: how often to explore the goals, each time with the memory that the round before made.
    round: which of them this is, from 1.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    command: ClassVar[str] = "refine"
    noun: ClassVar[str] = "a refinement"
    prompts: ClassVar[tuple[str, ...]] = ("",)

    env: str = ""
    split: str = ""
    tasks: tuple[str, ...] = field(default=(), repr=False)
    memory: str = DEFAULT_MEMORY
    generation: int | None = None
    embedder: str | None = None
    memory_digest: str = ""
    env_options: Settings = ()
    policy_options: Settings = ()
    options: Settings = ()
    gate_options: Settings = ()
    goals_by: GoalsBy = "even"
    goals: int = 0
    rounds: int = 1
    round: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        normalise(self)
        if not 1 <= self.round <= self.rounds:
            raise ValueError("rounds is 1 or more, and round is one of them")

    def roles(self, models: ModelOptions) -> tuple[str, ...]:
        return ("reasoner",) if models.configured else ()

    def gate(self) -> GateOptions:
        """Return how the gate judges. Raises LdmError where an option does not fit."""
        from ldm.explore import GateOptions

        options: GateOptions = override(GateOptions, dict(self.gate_options), "gate")
        return options

    def refine_options(self) -> RefineOptions:
        """Return how goals are explored. Raises LdmError where an option does not fit."""
        from ldm.explore import RefineOptions

        options: RefineOptions = override(RefineOptions, dict(self.options), "refinement")
        return options


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """The optimisation of a plan for one kind of task (AutoPlan).

    split: "" is the environment's first training split. kind: the task kind, given by name; "all"
    for one plan for tasks of all kinds.
    out: the folder of the plan file. pool: ids of the training tasks that batches are drawn from.
    env_options, options: see `settings`; of the environment's Options and of AutoPlanSettings.
    variant, repeat: of several optimisations, the setting that differs, as in "batch=8", and which
    of the runs with that setting this is, from 1.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    command: ClassVar[str] = "autoplan"
    noun: ClassVar[str] = "an optimisation of a plan"
    prompts: ClassVar[tuple[str, ...]] = ("agents/autoplan", "agents/formalise")
    embedder: ClassVar[str | None] = None
    memory: ClassVar[str] = ""
    generation: ClassVar[int | None] = None
    memory_digest: ClassVar[str] = ""

    env: str
    split: str = ""
    kind: str = field(kw_only=True)
    out: str = "plans"
    pool: tuple[str, ...] = field(default=(), repr=False)
    env_options: Settings = ()
    options: Settings = ()
    seed: int = 0
    variant: str = ""
    repeat: int = 1

    def __post_init__(self) -> None:
        normalise(self)

    def roles(self, models: ModelOptions) -> tuple[str, ...]:
        return ("llm", "planner")

    def settings(self) -> AutoPlanSettings:
        """Return how the plan is optimised. Raises LdmError where an option does not fit."""
        from ldm.agents.autoplan.settings import AutoPlanSettings

        settings: AutoPlanSettings = override(AutoPlanSettings, dict(self.options), "optimisation")
        return settings


#: Any of the specs.
S = TypeVar("S", EvaluationSpec, RefinementSpec, PlanSpec)


def full_location(memory: str) -> str:
    """Return the memory's place as a run records it, to be resumed from any directory.

    Raises MemoryStoreError where it is an address with a password.
    """
    from ldm.memory.addresses import is_server

    return (
        memory
        if is_server(memory) or "://" in memory
        else str(Path(memory).expanduser().absolute())
    )
