"""Factories that build environments, memories, reasoners and agents from a spec, in any process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ldm import embed
from ldm.agents import Resources, load_agent
from ldm.config import Evaluate, OptimisePlan, Refine, S, Section
from ldm.embed import Embedder, is_class, recorded_embedder, with_disk_cache
from ldm.envs import load_env
from ldm.envs.metadata import card_of as card_of_class
from ldm.episode import Agent, Environment, EnvironmentBase
from ldm.errors import LdmError
from ldm.llm import LLM, ScopedLLM
from ldm.llm.models import Models
from ldm.memory import Memory, environments, generations, inspect
from ldm.memory.index import Generation
from ldm.memory.lessons import Contents
from ldm.policy import Policy, PolicyOptions
from ldm.reason import Reasoner
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompting import PromptedOptions
from ldm.types import Card, Usage

if TYPE_CHECKING:
    from ldm.agents.autoplan.optimiser import AttemptSetup
    from ldm.explore.refine import ExplorationSetup
    from ldm.reason.prompted import PromptedReasoner

#: An experiment with a memory.
Recalling = TypeVar("Recalling", Evaluate, Refine)

#: Held while a builder works: threads share the knowledge, and importing a library may break
#: threads that run concurrently.
_BUILDING = threading.RLock()


class Knowledge(NamedTuple):
    """Hold an embedder, the offline reasoner and a memory, shared by the threads of a process.

    memory: None for agents that need none.
    """

    embedder: Embedder
    reasoner: OfflineReasoner
    memory: Memory | None

    def ask(self, llm: LLM, card: Card, options: PromptedOptions) -> PromptedReasoner:
        """Return a reasoner that asks a model, with the offline one to fall back on."""
        from ldm.reason.prompted import PromptedReasoner, PublishedReasoner

        asking = PromptedReasoner if options.wording == "ours" else PublishedReasoner
        return asking(llm, card, self.reasoner, self.embedder, options)


#: The knowledge that this process loaded last, by place, environment, generation and digest.
_LOADED: dict[object, Knowledge] = {}


@dataclass(frozen=True)
class Builder(Generic[S]):
    """Build the setup of a worker, in its process: a frozen, picklable value.

    cache, embeddings: see `Runtime`. contents: of the memory, for machines that do not have it.
    """

    spec: S
    cache: Path | None = None
    embeddings: Path | None = None
    contents: Contents | None = field(default=None, compare=False, repr=False)

    def __call__(self, models: Models | None = None) -> Any:
        """Return the worker's setup, such as the prepared environment and its agent.

        models: of this process. Raises LdmError if a name, an option, data, model or the memory is
        wrong.
        """
        with _BUILDING:
            env = build_environment(self.spec.env, self.cache)
            env.prepare()
            return self.equipped(env, models)

    def equipped(self, env: EnvironmentBase, models: Models | None) -> Any:
        """Return the setup for an environment."""
        raise NotImplementedError

    @property
    def needs(self) -> Collection[str]:
        """Return the needs, some of "memory" and "reasoner"."""
        return ()

    def embedder(self) -> Embedder:
        """Return the embedder, one for all threads."""
        return open_embedder(self.spec.embedder, self.embeddings)

    def knowledge(self, env: str) -> Knowledge:
        """Return the knowledge about the environment `env`, loaded once in a process."""
        spec, embedder = self.spec, self.embedder()
        place = spec.memory if "memory" in self.needs else None
        key = (place, env, spec.generation, spec.memory_digest)
        with _BUILDING:
            known = _LOADED.get(key)
            if known is None or known.embedder is not embedder:
                _LOADED.clear()
                memory = None
                if self.contents is not None:
                    memory = Memory(self.contents, embedder)
                elif place is not None:
                    memory = Memory.open(place, env, embedder=embedder, generation=spec.generation)
                known = Knowledge(embedder, OfflineReasoner(embedder), memory)
                _LOADED[key] = known
            return known

    def carrying(self) -> Builder[S]:
        """Return the builder with the memory's contents, for other machines."""
        if "memory" not in self.needs:
            return self
        spec = self.spec
        name = environment_card(spec.env, self.cache).name
        return replace(self, contents=inspect(spec.memory, name, spec.generation))


class PlayerBuilder(Builder[Evaluate]):
    """Build the environment and the agent of an evaluation."""

    def equipped(self, env: EnvironmentBase, models: Models | None) -> tuple[Environment, Agent]:
        spec, needs = self.spec, self.needs
        agent, options = agent_of(spec), spec.typed("agent")
        resources: dict[str, Any] = {"seed": spec.seed, "embedding": self.embedder}
        if models is not None and "llm" in agent_needs(spec):
            resources |= {"llm": models.get("llm"), "planner": models.get("planner")}
        if needs:
            known = self.knowledge(env.card.name)
            memory, left_out = known.memory, (spec.without_tuples, spec.without_trajectories)
            if memory is not None and any(left_out):
                memory = memory.without(*left_out)
            resources |= {"memory": memory, "reasoner": known.reasoner}
            if models is not None and "reasoner" in agent.needs:
                resources |= {"reasoner_llm": models.get("reasoner"), "ask": known.ask}
        return env, agent(options, Resources(**resources))

    @property
    def needs(self) -> Collection[str]:
        return {"memory", "reasoner"}.intersection(agent_needs(self.spec))


class ExplorerBuilder(Builder[Refine]):
    """Build the setup of an exploration."""

    needs = ("memory", "reasoner")

    def equipped(self, env: EnvironmentBase, models: Models | None) -> ExplorationSetup:
        from ldm.explore.refine import ExplorationSetup

        spec = self.spec
        options: PolicyOptions = spec.typed("policy")
        known = self.knowledge(env.card.name)
        assert known.memory is not None  # noqa: S101 - it needs one
        reasoner: Reasoner = known.reasoner
        spent: list[Usage] = []
        if models is not None:
            prompted = options.prompted(models.options.in_flight)
            llm = ScopedLLM(models.get("reasoner"), lambda: (), spent.append)
            reasoner = known.ask(llm, env.card, prompted)
        policy = Policy(known.memory, reasoner, options, spec.seed)
        search = spec.typed("search")
        return ExplorationSetup(env, known.memory, reasoner, policy, search, spent)


class AttemptBuilder(Builder[OptimisePlan]):
    """Build the setup of a plan optimisation's attempts."""

    def equipped(self, env: EnvironmentBase, models: Models | None) -> AttemptSetup:
        from ldm.agents.autoplan.optimiser import AttemptSetup

        assert models is not None  # noqa: S101 - its spec always calls models
        spec = self.spec
        return AttemptSetup(
            env, models.get("llm"), models.get("planner"), spec.typed("plan"), spec.seed
        )


def agent_of(spec: Evaluate) -> type[Agent]:
    """Return the agent's class."""
    return load_agent(spec.agent.name)


def agent_needs(spec: Evaluate) -> tuple[str, ...]:
    """Return the needs of the agent with its options. Raises LdmError if one does not fit."""
    agent = agent_of(spec)
    return (*agent.needs, *agent.also_needs(spec.typed("agent")))


def option_names(spec: Evaluate) -> set[str]:
    """Return the names of the options that the agent has."""
    return {field.name for field in fields(agent_of(spec).Options)}


def roles(spec: Evaluate | Refine | OptimisePlan) -> tuple[str, ...]:
    """Return the roles whose models an experiment calls."""
    if isinstance(spec, OptimisePlan):
        return ("llm", "planner")
    configured = spec.typed("models").configured
    if isinstance(spec, Refine):
        return ("reasoner",) if configured else ()
    needs = agent_needs(spec)
    called = {"llm": ("llm", "planner"), "reasoner": ("reasoner",)}
    if "llm" in needs or ("reasoner" in needs and configured):
        return tuple(role for need in needs for role in called.get(need, ()))
    return ()


def build_environment(env: Section, cache: Path | None = None) -> EnvironmentBase:
    """Return an environment with its options.

    cache: for derived data of environments, each in a folder of its own.
    Raises LdmError if the name or an option does not fit.
    """
    chosen, name = load_env(env.name), env.name
    if cache is not None and any(field.name == "cache" for field in fields(chosen.Options)):
        # Cached data change no score, so the cache is not part of the spec.
        env = Section.read({"cache": str(cache / name.replace(":", "-")), **env.options})
    return chosen(env.typed(chosen.Options, f"environment {name}"))


def environment_card(env: Section, cache: Path | None = None) -> Card:
    """Return the environment's card, with the name that it has in tasks and memories."""
    if card := card_of_class(load_env(env.name)):
        return card
    with closing(build_environment(env, cache)) as built:
        return built.card


def remembered_class(memory: str, env: str) -> str:
    """Return the class by which the environment `env` of a memory is loaded, or else its name."""
    return generations(memory, env)[-1].env_class or env


def only_environment(memory: str) -> str:
    """Return the only environment that a memory holds. Raises LdmError for none or several."""
    names = environments(memory)
    if len(names) != 1:
        raise LdmError(
            f"{memory} holds {len(names)} environments: {', '.join(names) or 'none'}.",
            "Name one with --env." if names else "Make a memory with `ldm build-memory`.",
        )
    return names[0]


def card_of(env: str) -> Card:
    """Return the card of the environment that records call `env`; empty if not registered."""
    try:
        load_env(env, recorded=True)
        return environment_card(Section(env))
    except LdmError:
        return Card(env, "", ())


def open_embedder(name: str | None, folder: Path | None) -> Embedder:
    """Return the embedder called `name`, one for all threads; its vectors are kept in `folder`."""
    with _BUILDING:
        return _opened(embed.load_embedder, name, folder)


@lru_cache(maxsize=2)
def _opened(
    load: Callable[[str | None], Embedder], name: str | None, folder: Path | None
) -> Embedder:
    return with_disk_cache(load(name), folder)


def recalling(spec: Recalling, generation: Generation) -> Recalling:
    """Return the spec with a memory's generation and the embedder to load: the user's, or its own.

    Raises LdmError if the given one is not the memory's, or if the recorded one names code.
    """
    given = spec.embedder
    if given is None and is_class(generation.embedder):
        recorded_embedder(generation.embedder)
    loaded = embed.load_embedder(given).name if given and is_class(given) else given
    generation.check_embedder(loaded or generation.embedder)
    return replace(
        spec,
        generation=generation.number,
        embedder=given or generation.embedder,
        memory_digest=generation.digest,
    )
