"""From specs to environments, memories, reasoners and agents, in whichever process needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ldm.errors import LdmError
from ldm.options import Settings, override
from ldm.run.specs import EvaluationSpec, PlanSpec, RefinementSpec, S

if TYPE_CHECKING:
    from ldm.agents.autoplan.optimiser import AttemptSetup
    from ldm.embed import Embedder
    from ldm.episode import Agent, Environment, EnvironmentBase
    from ldm.explore import ExplorationSetup
    from ldm.llm import LLM
    from ldm.llm.models import Models
    from ldm.memory import Contents, Memory
    from ldm.reason import Reasoner
    from ldm.reason.offline import OfflineReasoner
    from ldm.reason.prompted import PromptedOptions, PromptedReasoner
    from ldm.types import Card

T_co = TypeVar("T_co", covariant=True)

#: Held while an embedder is loaded for agents: those of all threads share it.
_OPENING = threading.Lock()


@dataclass(frozen=True)
class Knowledge:
    """What takes long to load, and may be shared by the threads of a process.

    memory: None for agents that need none.
    """

    embedder: Embedder
    reasoner: OfflineReasoner
    memory: Memory | None

    def ask(self, llm: LLM, card: Card, options: PromptedOptions) -> PromptedReasoner:
        """Return a reasoner that asks a model, with the offline one to fall back on."""
        from ldm.reason.prompted import PromptedReasoner

        return PromptedReasoner(llm, card, self.reasoner, self.embedder, options)


@dataclass(frozen=True)
class Builder(Generic[S, T_co]):
    """Builds what works on one task at a time: a frozen, picklable value.

    cache, embeddings: see `Runtime`.
    """

    spec: S
    cache: Path | None = None
    embeddings: Path | None = None

    def __call__(self, models: Models | None = None, knowledge: Knowledge | None = None) -> T_co:
        """Build it. models: of this process. knowledge: what `load` returned, if it was called.

        Raises LdmError where a name, an option, data, model or the memory is wrong.
        """
        raise NotImplementedError

    @property
    def needs(self) -> Collection[str]:
        """Which of "memory" and "reasoner" are needed."""
        return ()

    def environment(self) -> EnvironmentBase:
        """Build the environment."""
        return build_environment(self.spec.env, self.spec.env_options, self.cache)

    def load(self, env: str = "", contents: Contents | None = None) -> Knowledge | None:
        """Load what the threads of a process may share; None where nothing is needed.

        env: the name that the memory has for the environment, where it is known.
        contents: what `contents` returned, where the memory need not be read.
        """
        spec, needs = self.spec, self.needs
        if not needs:
            return None
        model = open_embedder(spec.embedder, self.embeddings)
        if contents is not None:
            return load_knowledge(model, contents, contents.generation.env, spec.generation)
        name = env or environment_name(spec.env, spec.env_options, self.cache)
        return load_knowledge(
            model, spec.memory if "memory" in needs else None, name, spec.generation
        )

    def paid(self) -> float | None:
        """Return what was paid for models: they are called by what shares this only."""
        return None

    def contents(self) -> Contents | None:
        """Read what the memory holds; None where none is needed."""
        if "memory" not in self.needs:
            return None
        from ldm.memory import inspect

        spec = self.spec
        name = environment_name(spec.env, spec.env_options, self.cache)
        return inspect(spec.memory, name, spec.generation)

    def prepare(self, built: Any) -> None:
        """Let the environment that was built load what it otherwise would at first use."""
        (built[0] if isinstance(built, tuple) else built.env).prepare()


@dataclass(frozen=True)
class Carried(Generic[T_co]):
    """A builder for other machines, which takes along what the memory holds.

    It is pickled once, its arrays apart, so that a machine gets them once for all its processes.
    """

    builder: Builder[Any, T_co]
    contents: Contents | None = field(compare=False, repr=False)

    def paid(self) -> float | None:
        """Return None: no model is called on other machines."""
        return None

    def __call__(self) -> T_co:
        """Build it, as `builder` does where the memory is."""
        return self.builder(None, self.builder.load(contents=self.contents))


class Shared(Generic[T_co]):
    """A builder for the threads of this process, which share its models and its knowledge.

    models: None where none is called.
    built: everything that it has built so far.
    """

    def __init__(self, builder: Builder[Any, T_co], models: Models | None) -> None:
        self._builder = builder
        self._models = models
        self._knowledge: Knowledge | None = None
        self._loaded = False
        self._lock = threading.Lock()
        self.built: list[T_co] = []

    def paid(self) -> float | None:
        """Return what was paid for models so far, see `Models.paid`."""
        return None if self._models is None else self._models.paid()

    def __call__(self) -> T_co:
        """Build one more, for one thread.

        The first is ready for everything before there is another: libraries that are imported
        while other threads work may break them.
        """
        with self._lock:
            if not self._loaded:
                self._knowledge, self._loaded = self._builder.load(), True
            result = self._builder(self._models, self._knowledge)
            if not self.built:
                self._builder.prepare(result)
            self.built.append(result)
        return result


class PlayerBuilder(Builder[EvaluationSpec, "tuple[Environment, Agent]"]):
    """Builds the environment and the agent of an evaluation."""

    def __call__(
        self, models: Models | None = None, knowledge: Knowledge | None = None
    ) -> tuple[Environment, Agent]:
        from ldm.agents import Resources

        spec = self.spec
        agent, options = agent_of(spec), agent_options(spec)
        resources: dict[str, Any] = {"seed": spec.seed, "embedding": self._embedding}
        if "llm" in agent.needs:
            if models is None:
                raise no_model(spec)
            resources |= {"llm": models.get("llm"), "planner": models.get("planner")}
        env = self.environment()
        if loaded := knowledge or self.load(env.card.name):
            resources |= {"memory": loaded.memory, "reasoner": loaded.reasoner}
            if models is not None and "reasoner" in agent.needs:
                resources |= {"reasoner_llm": models.get("reasoner"), "ask": loaded.ask}
        return env, agent(options, Resources(**resources))

    @property
    def needs(self) -> Collection[str]:
        return {"memory", "reasoner"}.intersection(agent_needs(self.spec))

    def _embedding(self) -> Embedder:
        """Open the embedder for an agent that asks for it: most never do."""
        from ldm.embed import load_embedder

        with _OPENING:
            return _opened_embedder(load_embedder, self.spec.embedder, self.embeddings)

    def load(self, env: str = "", contents: Contents | None = None) -> Knowledge | None:
        loaded, spec = super().load(env, contents), self.spec
        if loaded is None or loaded.memory is None:
            return loaded
        if not (spec.without_tuples or spec.without_trajectories):
            return loaded
        view = loaded.memory.without(spec.without_tuples, spec.without_trajectories)
        return replace(loaded, memory=view)


class ExplorerBuilder(Builder[RefinementSpec, "ExplorationSetup"]):
    """Builds what the goals of a refinement are explored with."""

    needs = ("memory", "reasoner")

    def __call__(
        self, models: Models | None = None, knowledge: Knowledge | None = None
    ) -> ExplorationSetup:
        from ldm.explore import ExplorationSetup
        from ldm.policy import Policy, PolicyOptions

        spec = self.spec
        options: PolicyOptions = override(PolicyOptions, dict(spec.policy_options), "policy")
        env = self.environment()
        loaded = knowledge or self.load(env.card.name)
        assert loaded is not None  # noqa: S101 - it needs both
        assert loaded.memory is not None  # noqa: S101
        reasoner: Reasoner = loaded.reasoner
        if models is not None:
            prompted = options.prompted(models.options.in_flight)
            reasoner = loaded.ask(models.get("reasoner"), env.card, prompted)
        policy = Policy(loaded.memory, reasoner, options, spec.seed)
        return ExplorationSetup(
            env, loaded.memory, reasoner, policy, spec.refine_options(), spec.seed
        )


class OptimiserBuilder(Builder[PlanSpec, "AttemptSetup"]):
    """Builds what the attempts of a plan optimisation are made with."""

    def __call__(
        self, models: Models | None = None, knowledge: Knowledge | None = None
    ) -> AttemptSetup:
        from ldm.agents.autoplan.optimiser import AttemptSetup

        assert models is not None  # noqa: S101 - its spec always calls models
        return AttemptSetup(self.environment(), models.get("llm"), models.get("planner"))


def agent_of(spec: EvaluationSpec) -> type[Agent]:
    """Return the agent's class: what it needs, and whether it sees rewards."""
    from ldm.agents import load_agent

    return load_agent(spec.agent)


def agent_options(spec: EvaluationSpec) -> Any:
    """Return the agent's Options. Raises LdmError where one does not fit."""
    return override(agent_of(spec).Options, dict(spec.agent_options), f"agent {spec.agent}")


def agent_needs(spec: EvaluationSpec) -> tuple[str, ...]:
    """Return what the agent needs with its options. Raises LdmError where one does not fit."""
    from ldm.agents import needs_of

    return needs_of(agent_of(spec), agent_options(spec))


def option_names(spec: EvaluationSpec) -> set[str]:
    """Return the names of the options that the agent has."""
    return {field.name for field in fields(agent_of(spec).Options)}


def no_model(spec: EvaluationSpec) -> LdmError:
    """Return what to raise where the agent needs a model and none is named."""
    from ldm.agents import NO_MODEL

    return LdmError(f"The agent {spec.agent} needs an LLM, and none is configured.", NO_MODEL)


def build_environment(name: str, options: Settings, cache: Path | None = None) -> EnvironmentBase:
    """Return the environment called `name` with these options as written.

    cache: where environments keep what they made of their data, each in a folder of its own.
    Raises LdmError where the name or an option does not fit.
    """
    from ldm.envs import load_env

    env, values = load_env(name), dict(options)
    if cache is not None and any(field.name == "cache" for field in fields(env.Options)):
        # What is kept ready for use changes no score, so it is no part of the spec.
        values.setdefault("cache", str(cache / name.replace(":", "-")))
    return env(override(env.Options, values, f"environment {name}"))


def environment_name(name: str, options: Settings, cache: Path | None = None) -> str:
    """Return the name that the environment has in tasks and memories: its card's."""
    from ldm.envs import load_env
    from ldm.envs.metadata import card_of as card_of_class

    if card := card_of_class(load_env(name)):
        return card.name
    with closing(build_environment(name, options, cache)) as env:
        return env.card.name


def remembered_class(memory: str, env: str) -> str:
    """Return what the environment `env` of a memory is loaded by: its class, or else its name."""
    from ldm.memory import generations

    return generations(memory, env)[-1].env_class or env


def card_of(env: str) -> Card:
    """Return the card of the environment that records call `env`; empty if not registered."""
    from ldm.envs import load_env
    from ldm.types import Card

    try:
        load_env(env, recorded=True)
        environment = build_environment(env, ())
    except LdmError:
        return Card(env, "", ())
    try:
        return environment.card
    finally:
        environment.close()


def open_embedder(name: str | None, folder: Path | None) -> Embedder:
    """Return the embedder called `name`, its vectors kept in `folder` where one is given."""
    from ldm.embed import load_embedder, with_disk_cache

    return with_disk_cache(load_embedder(name), folder)


@lru_cache(maxsize=2)
def _opened_embedder(
    load: Callable[[str | None], Embedder], name: str | None, folder: Path | None
) -> Embedder:
    """Return the embedder that `load` gives, once for all threads."""
    from ldm.embed import with_disk_cache

    return with_disk_cache(load(name), folder)


def load_knowledge(
    embedder: Embedder, memory: Contents | str | None, env: str, generation: int | None
) -> Knowledge:
    """Load the offline reasoner, and the memory of `env` at a generation where a place is named.

    memory: a place, or what has been read there.
    """
    from ldm.memory import Memory
    from ldm.reason.offline import OfflineReasoner

    opened: Memory | None = None
    if isinstance(memory, str):
        opened = Memory.open(memory, env, embedder=embedder, generation=generation)
    elif memory is not None:
        opened = Memory(memory, embedder)
    return Knowledge(embedder, OfflineReasoner(embedder), opened)


def opener(name: str, cache: Path | None) -> Callable[[Settings], Environment]:
    """Return a function that builds environment `name` with the options it is called with."""
    return lambda options: build_environment(name, options, cache)
