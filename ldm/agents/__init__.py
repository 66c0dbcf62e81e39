"""Agents: one module each, all on the same Episode. Adding one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from ldm import registry
from ldm.embed import Embedder
from ldm.episode import Agent, Episode
from ldm.errors import LdmError
from ldm.llm import LLM, Role, ScopedLLM
from ldm.memory import Memory
from ldm.reason import Reasoner
from ldm.reason.prompted import PromptedOptions
from ldm.types import Card

AGENTS = {
    "act": "ldm.agents.act:ActAgent",
    "adapt": "ldm.agents.adapt:AdaptAgent",
    "autoplan": "ldm.agents.autoplan:AutoPlanAgent",
    "cot": "ldm.agents.cot:CotAgent",
    "deps": "ldm.agents.deps:DepsAgent",
    "lats": "ldm.agents.lats:LatsAgent",
    "ldm": "ldm.agents.ldm:LdmAgent",
    "naive": "ldm.agents.naive:NaiveAgent",
    "plan_execute": "ldm.agents.plan_execute:PlanExecuteAgent",
    "plan_hint": "ldm.agents.plan_hint:PlanHintAgent",
    "random": "ldm.agents.random:RandomAgent",
    "react": "ldm.agents.react:ReactAgent",
    "reflexion": "ldm.agents.reflexion:ReflexionAgent",
    "standard": "ldm.agents.act:ActAgent",
    "try_again": "ldm.agents.try_again:TryAgainAgent",
}
GROUP = "ldm.agents"
CONTRACT = registry.Contract(
    ("name", "sees_reward", "needs", "Options", "budget", "solve"),
    "ldm.testing.AgentContract",
)
NO_MODEL = (
    "Name one with --llm MODEL and its server with OPENAI_BASE_URL (and OPENAI_API_KEY), or use an "
    "agent that works without one: `ldm agents` lists what each needs."
)


@dataclass(frozen=True, slots=True)
class Resources:
    """What an agent may be built from. `needs` of its class says which it cannot do without.

    llm, planner: there together, where a model is configured; they may be the same one.
    ask: makes a reasoner that asks a model, for an environment with this card; it is there where a
    model is configured, and reasoner_llm with it.
    embedding: loads the embedder when it is first called, for agents that may need one.
    """

    memory: Memory | None = None
    reasoner: Reasoner | None = None
    llm: LLM | None = None
    planner: LLM | None = None
    reasoner_llm: LLM | None = None
    ask: Callable[[LLM, Card, PromptedOptions], Reasoner] | None = None
    embedding: Callable[[], Embedder] | None = None
    seed: int = 0

    def model(self, episode: Episode, role: Role = "llm") -> LLM:
        """Return the model of a role for one episode: its account is charged, its draws differ.

        Raises LdmError where none is configured.
        """
        model = {"llm": self.llm, "planner": self.planner, "reasoner": self.reasoner_llm}[role]
        if model is None:
            raise LdmError("This agent needs an LLM, and none is configured.", NO_MODEL)
        return ScopedLLM(
            model,
            lambda: (self.seed, episode.task_id, episode.trials, role),
            episode.spent,
            episode.called,
        )

    def reasoning(self, episode: Episode, options: PromptedOptions) -> Reasoner:
        """Return the reasoner for one episode: a model's, charged to it, or the offline one.

        Raises LdmError where there is neither.
        """
        if self.ask is not None:
            return self.ask(self.model(episode, "reasoner"), episode.card, options)
        if self.reasoner is None:
            raise LdmError("This agent needs a reasoner, and none is configured.", NO_MODEL)
        return self.reasoner


class AgentClass(Protocol):
    """What a registered agent class offers beside `Agent` itself.

    Options: a frozen dataclass of hyper-parameters with the paper's defaults (`--set field=value`);
    a static method with_model(given) returns the options that new runs take beside the given ones
    where a model is configured.
    needs: names of the Resources it cannot work without, e.g. ("memory", "reasoner").
    paper: where the agent comes from, for `ldm agents` and tables.
    It may also have static methods sources(options, env) → what its prompts show and so may not be
    evaluated, check_card(options, card), which raises LdmError where it cannot work in that
    environment, also_needs(options) → names of Resources that these options need beside `needs`,
    and notice(options) → what users should know before it plays with these options, "" for
    nothing; an attribute `reporting` (`ldm.agents.reporting.Reporting`) for what reports say
    of it; and an attribute `formerly`, a sequence: what the name stood for before, oldest first,
    each as the end of a sentence that begins with the agent's name. A run that was recorded then is
    not resumed. What it was published with in an environment, that environment's card says.
    """

    name: str
    sees_reward: bool
    needs: ClassVar[Sequence[str]]
    paper: ClassVar[str]
    Options: ClassVar[type[Any]]

    def __call__(self, options: Any, resources: Resources) -> Agent: ...


def load_agent(name: str, *, recorded: bool = False) -> AgentClass:
    """Return the agent class called `name` (built in, announced by a package, or module:Class).

    recorded: the name comes from a file, see `registry.load`.
    """
    agent: AgentClass = registry.load(
        name, AGENTS, GROUP, "agent", contract=CONTRACT, recorded=recorded
    )
    return agent


def needs_of(agent: AgentClass, options: Any) -> tuple[str, ...]:
    """Return the names of the Resources that an agent with these options cannot work without."""
    also = getattr(agent, "also_needs", None)
    return (*agent.needs, *(also(options) if also else ()))


def formerly(agent: AgentClass) -> tuple[str, ...]:
    """Return what the agent's name stood for before, oldest first; () where that never changed."""
    return tuple(getattr(agent, "formerly", ()))


__all__ = [
    "AGENTS",
    "GROUP",
    "NO_MODEL",
    "Agent",
    "AgentClass",
    "Episode",
    "Resources",
    "formerly",
    "load_agent",
    "needs_of",
]
