"""From names and settings to environments and agents; the place that names concrete classes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args, get_origin, get_type_hints

from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.agents import AgentClass
    from ldm.cli.models import ModelOptions, Models
    from ldm.embed import Embedder
    from ldm.episode import Agent, Environment
    from ldm.eval import EvaluationPlan
    from ldm.llm import LLM
    from ldm.memory import Memory
    from ldm.reasoner.offline import OfflineReasoner
    from ldm.reasoner.prompted import PromptedOptions, PromptedReasoner
    from ldm.types import Card

DEFAULT_MEMORY = ".ldm/memory"
DEFAULT_RUNS = Path("runs")
ENV_PREFIX = "env."

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Knowledge:
    """What takes long to load and may be shared by the threads of a process."""

    embedder: Embedder
    reasoner: OfflineReasoner
    memory: Memory | None

    def ask(self, llm: LLM, card: Card, options: PromptedOptions) -> PromptedReasoner:
        """A reasoner that asks a model, with the offline one beside it."""
        from ldm.reasoner.prompted import PromptedReasoner

        return PromptedReasoner(llm, card, self.reasoner, self.embedder, options)


@dataclass(frozen=True, slots=True)
class Wiring:
    """What an environment and an agent are built from; a call builds them, in any process.

    env_options, agent_options: (field, value as written) of their Options.
    memory: where the memory lies. generation, embedder: None for the newest, and for the default.
    """

    env: str
    agent: str
    env_options: Settings = ()
    agent_options: Settings = ()
    memory: str = DEFAULT_MEMORY
    generation: int | None = None
    embedder: str | None = None
    seed: int = 0

    @classmethod
    def of(cls, plan: EvaluationPlan) -> Wiring:
        """The wiring that a plan describes."""
        return cls(**{field.name: getattr(plan, field.name) for field in fields(cls)})

    def __call__(
        self, models: Models | None = None, knowledge: Knowledge | None = None
    ) -> tuple[Environment, Agent]:
        """models: of this process; without them an agent that needs one cannot be built.

        knowledge: what `self.knowledge` gave, where it is there already.
        Raises LdmError where a name, an option, data or the memory does not fit.
        """
        from ldm.agents import Resources

        found, options = self.agent_class(), self.options()
        given: dict[str, Any] = {"seed": self.seed}
        if "llm" in found.needs:
            if models is None:
                raise self.no_model()
            given |= {"llm": models.get("llm"), "planner": models.get("planner")}
        env = self.environment()
        if set(found.needs) & {"memory", "reasoner"}:
            known = knowledge or self.knowledge(env.card.name)
            given |= {"memory": known.memory, "reasoner": known.reasoner}
            if models is not None and "reasoner" in found.needs:
                given |= {"reasoner_llm": models.get("reasoner"), "ask": known.ask}
        return env, found(options, Resources(**given))

    def knowledge(self, env: str) -> Knowledge:
        """The memory of environment `env` (its card's name), and who reasons about it."""
        memory = self.memory if "memory" in self.agent_class().needs else None
        return load_knowledge(self.embedder, memory, env, self.generation)

    def calls(self, options: ModelOptions) -> bool:
        """Whether the agent calls a model where these are the options."""
        needs = self.agent_class().needs
        return "llm" in needs or ("reasoner" in needs and options.configured)

    def no_model(self) -> LdmError:
        """What to raise where the agent needs a model and none is named."""
        from ldm.agents import NO_MODEL

        return LdmError(
            f"The agent {self.agent} needs a language model, and none is configured.", NO_MODEL
        )

    def environment(self) -> Environment:
        """The environment alone, for its tasks and protocol."""
        return build_environment(self.env, self.env_options)

    def agent_class(self) -> AgentClass:
        """The agent's class: what it needs, and whether it sees rewards."""
        from ldm.agents import load_agent

        return load_agent(self.agent)

    def options(self) -> Any:
        """The agent's Options."""
        found = self.agent_class()
        return override(found.Options, dict(self.agent_options), f"agent {self.agent}")


def load_knowledge(
    embedder: str | None, memory: str | None, env: str, generation: int | None
) -> Knowledge:
    """The offline reasoner, and the memory of `env` at a generation where a place is named."""
    from ldm.embed import load_embedder
    from ldm.memory import Memory
    from ldm.reasoner.offline import OfflineReasoner

    model = load_embedder(embedder)
    found = Memory.open(memory, env, embedder=model, generation=generation) if memory else None
    return Knowledge(model, OfflineReasoner(model), found)


def build_environment(name: str, options: Settings) -> Environment:
    """The environment called `name` with these options as written.

    Raises LdmError where the name or an option does not fit.
    """
    from ldm.envs import load_env

    found, given = load_env(name), dict(options)
    if any(field.name == "cache" for field in fields(found.Options)):
        # What is kept ready for use changes no score, so it is no part of the plan.
        given.setdefault("cache", str(cache_folder() / name.replace(":", "-")))
    return found(override(found.Options, given, f"environment {name}"))


def cache_folder() -> Path:
    """Where environments keep what they made of their data, for all working directories."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ldm"


class Knowing(Protocol):
    """A plan that knows its environment, and what to load for it."""

    def environment(self) -> Environment: ...

    def knowledge(self, env: str, /) -> Knowledge: ...


class SharedKnowledge:
    """What the threads of a process share: loaded by the first that asks."""

    def __init__(self, plan: Knowing) -> None:
        self._plan = plan
        self._found: Knowledge | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Knowledge:
        with self._lock:
            if self._found is None:
                env = self._plan.environment()
                self._found = self._plan.knowledge(env.card.name)
                env.close()
            return self._found


class Served:
    """A wiring with the models of this process, for agents that work in its threads."""

    def __init__(self, wiring: Wiring, models: Models) -> None:
        self._wiring = wiring
        self._models = models
        self._knowledge = SharedKnowledge(wiring)

    def __call__(self) -> tuple[Environment, Agent]:
        """Environment and agent for one thread."""
        knows = "reasoner" in self._wiring.agent_class().needs
        return self._wiring(self._models, self._knowledge() if knows else None)


def card_of(env: str) -> Card:
    """The card of environment `env`; an empty one where nobody knows that environment."""
    from ldm.types import Card

    try:
        made = build_environment(env, ())
    except LdmError:
        return Card(env, "", ())
    try:
        return made.card
    finally:
        made.close()


def override(options: type[Any], values: Mapping[str, str], owner: str) -> Any:
    """An `options` (a dataclass with defaults) with the fields named in `values` read as written.

    owner: whose options these are, for messages. Tuples are written with commas, None as "none".
    Raises LdmError for an unknown field and for a value that its type does not allow.
    """
    hints = get_type_hints(options)
    known = [field.name for field in fields(options)]
    for name in values:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            raise LdmError(
                f"The {owner} has no option {name!r}.",
                f"{hint}It has: {', '.join(known) or 'none'}.",
            )
    parsed = {name: _parsed(name, value, hints[name], owner) for name, value in values.items()}
    try:
        return options(**parsed)
    except ValueError as error:
        raise LdmError(f"The {owner} refuses its options: {error}.", "Change --set.") from error


def _parsed(name: str, text: str, hint: Any, owner: str) -> Any:
    from pydantic import TypeAdapter, ValidationError

    value: Any = text
    if text.lower() == "none" and type(None) in get_args(hint):
        value = None
    elif get_origin(hint) in (tuple, list, frozenset):
        value = tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"]
        raise LdmError(
            f"{name}={text} does not fit the {owner}: {message}.", f"Change --set {name}=…."
        ) from error


def settings(assignments: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """(agent options, environment options) of `--set NAME=VALUE` and `--set env.NAME=VALUE`."""
    agent: dict[str, str] = {}
    env: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise LdmError(f"--set {assignment} is not NAME=VALUE.", "For example --set k=7.")
        name = name.strip()
        if name.startswith(ENV_PREFIX):
            env[name.removeprefix(ENV_PREFIX)] = value
        else:
            agent[name] = value
    return agent, env
