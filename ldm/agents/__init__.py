"""Agents: one module each, all on the same Episode. Adding one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ldm import registry
from ldm.embed import Embedder
from ldm.episode import Agent, Episode
from ldm.errors import LdmError
from ldm.llm import LLM, Role, ScopedLLM
from ldm.memory import Memory
from ldm.reason import Reasoner
from ldm.reason.prompting import PromptedOptions
from ldm.reporting import Reporting
from ldm.types import Card

AGENTS = {
    "act": "ldm.agents.act:ActAgent",
    "adapt": "ldm.agents.adapt:AdaptAgent",
    "autoplan": "ldm.agents.autoplan:AutoPlanAgent",
    "cot": "ldm.agents.cot:CotAgent",
    "lats": "ldm.agents.lats:LatsAgent",
    "ldm": "ldm.agents.ldm:LdmAgent",
    "naive": "ldm.agents.naive:NaiveAgent",
    "plan_execute": "ldm.agents.plan_execute:PlanExecuteAgent",
    "random": "ldm.agents.random:RandomAgent",
    "react": "ldm.agents.react:ReactAgent",
    "reflexion": "ldm.agents.reflexion:ReflexionAgent",
    "standard": "ldm.agents.act:ActAgent",
    "try_again": "ldm.agents.try_again:TryAgainAgent",
}
GROUP = "ldm.agents"
CONTRACT = registry.Contract(Agent, ("name",), "ldm.testing.AgentContract")
NO_MODEL = (
    "Name one with --llm MODEL and its server with OPENAI_BASE_URL (and OPENAI_API_KEY), or use an "
    "agent that works without one: `ldm agents` lists what each needs."
)


@dataclass(frozen=True, slots=True)
class Resources:
    """The parts that an agent is built from; `needs` of its class names the required ones.

    llm, planner, reasoner_llm, ask: set if a model is configured; models may be the same one.
    ask: makes a reasoner that asks a model, for an environment with this card.
    embedding: loads the embedder when it is first called.
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
        """Return the model of a role, charged to one episode and sampling independently of others.

        Raise LdmError if none is configured.
        """
        model = {"llm": self.llm, "planner": self.planner, "reasoner": self.reasoner_llm}[role]
        if model is None:
            raise LdmError("This agent needs an LLM, and none is configured.", NO_MODEL)

        def scope() -> tuple[object, ...]:
            return self.seed, episode.task_id, episode.trials, role

        return ScopedLLM(model, scope, episode.spent, episode.called)

    def reasoning(self, episode: Episode, options: PromptedOptions) -> Reasoner:
        """Return the reasoner for one episode: one with a model, charged to it, or the offline one.

        Raise LdmError if there is neither.
        """
        if self.ask is not None:
            return self.ask(self.model(episode, "reasoner"), episode.card, options)
        if self.reasoner is None:
            raise LdmError("This agent needs a reasoner, and none is configured.", NO_MODEL)
        return self.reasoner


def load_agent(name: str, *, recorded: bool = False) -> type[Agent]:
    """Return the agent class called `name` (built in, announced by a package, or module:Class).

    recorded: the name comes from a file, see `registry.load`.
    """
    agent = registry.load(name, AGENTS, GROUP, "agent", contract=CONTRACT, recorded=recorded)
    return cast("type[Agent]", agent)


def check_files(agent: type[Agent], options: Any) -> None:
    """Raise LdmError if a file that the options name has changed since its digest was recorded."""
    for option, (digest_option, digest) in agent.digests.items():
        place, before = getattr(options, option), getattr(options, digest_option)
        if place is not None and before not in (None, digest(Path(place))):
            raise LdmError(
                f"{place} (option {option}) has changed since the run began.",
                "Start a new run, or restore the earlier content.",
            )


def reporting_named(name: str) -> Reporting:
    """Return the reporting of the agent that a record calls `name`; empty if it is unknown."""
    try:
        return load_agent(name, recorded=True).reporting
    except LdmError:
        return Reporting()
