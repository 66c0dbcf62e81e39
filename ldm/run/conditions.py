"""The conditions of an evaluation apart from its method, which tables show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ldm.config import Evaluate
from ldm.llm.models import listed
from ldm.memory.lessons import Contents
from ldm.run.builders import agent_of, card_of, option_names
from ldm.run.engine import Member
from ldm.run.runtime import Runtime
from ldm.runs import Run
from ldm.text import counted, short

#: The option of agents that shows them the possible actions, and the environment's that lists them.
ACTIONS = "admissible"
#: The key of the memory's facts in run.json.
REMEMBERED = "remembered"
#: Names in run.json's models that are not roles.
_NO_ROLES = ("embedder", "server")


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Describe the memory that an agent recalled from; run.json holds it.

    episodes: recorded ones, of people, experts or other agents. explored: those that refinements
    added. batches: batch memories. generation: its number.
    """

    tuples: int
    episodes: int
    explored: int
    batches: int
    generation: int

    def __str__(self) -> str:
        """Return the facts in a few words, for a table."""
        explored = f" + {self.explored} explored" if self.explored else ""
        return f"gen. {self.generation}, {self.episodes} episodes{explored}"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Describe the conditions of an agent.

    actions_listed: whether it was shown the possible actions. demonstrations: the maximum number of
    whole tasks in its prompts; None if its method shows none. memory: None if it recalls from none.
    models: role → the model that it called.
    """

    actions_listed: bool = True
    demonstrations: int | None = None
    memory: MemoryFacts | None = None
    models: Mapping[str, str] = field(default_factory=dict)

    def cells(self) -> dict[str, str]:
        """Return a cell for each column of a table; a dash for nothing."""
        return {
            "actions": "listed" if self.actions_listed else "not listed",
            "demos": "–" if self.demonstrations is None else str(self.demonstrations),
            "memory": "–" if self.memory is None else str(self.memory),
            "model": self.model or "–",
        }

    @property
    def model(self) -> str:
        """Return the models that it called, in one text; "" if it called none."""
        return listed(self.models)

    def __str__(self) -> str:
        """Return the conditions in words."""
        words = ["possible actions listed" if self.actions_listed else "no possible actions listed"]
        if self.demonstrations is not None:
            words.append(f"up to {counted(self.demonstrations, 'demonstration')}")
        if self.memory is not None:
            words.append(f"a memory of {self.memory.tuples} tuples ({self.memory})")
        words.append(f"the model {self.model}" if self.models else "no model")
        return ", ".join(words)


def sees_actions(spec: Evaluate, protocol: Mapping[str, Any]) -> bool:
    """Return whether the agent is shown the possible actions, as far as they are listed.

    The agent's class says whether it shows them, an environment in its protocol whether it lists
    them.
    """
    listed = bool(protocol.get(ACTIONS, True))
    return listed and agent_of(spec).shows_actions(spec.typed("agent"), card_of(spec.env.name))


def alike(members: Sequence[Member[Evaluate]], runtime: Runtime) -> list[Member[Any]]:
    """Return evaluations of several agents; all are shown the possible actions if one is.

    Agents that cannot show them are unchanged, and so are all if the option was given.
    """
    names = dict.fromkeys(one.spec.agent.name for one in members)
    explicit = any(ACTIONS in one.spec.agent.options for one in members)
    seeing = [one.spec.agent.name for one in members if sees_actions(one.spec, one.protocol)]
    if len(names) < 2 or explicit or not seeing or len(seeing) == len(members):
        return list(members)
    result, changed = [], dict[str, None]()
    for one in members:
        spec = one.spec
        if spec.agent.name not in seeing and ACTIONS in option_names(spec):
            agent = spec.agent.with_options(**{ACTIONS: True})
            one = replace(one, spec=replace(spec, agent=agent))
            changed[short(spec.agent.name)] = None
        result.append(one)
    if changed:
        runtime.message(
            f"All agents are shown the possible actions, because {short(seeing[0])} is: this adds "
            f"{ACTIONS}=true to {', '.join(changed)}. Use --agent.{ACTIONS} false to leave them as "
            f"they are, or --env.{ACTIONS} false to show them to no agent."
        )
    return result


def memory_facts(contents: Contents) -> MemoryFacts:
    """Return the facts about a memory that an agent recalls from."""
    rows = contents.recallable
    pairs = [*rows.pairs("trajectory_id", "origin")]
    return MemoryFacts(
        tuples=len(rows),
        episodes=len({trajectory for trajectory, origin in pairs if origin != "explored"}),
        explored=len({trajectory for trajectory, origin in pairs if origin == "explored"}),
        batches=len(contents.batches),
        generation=contents.generation.number,
    )


def conditions_of(spec: Evaluate, run: Run) -> Conditions:
    """Return the conditions of a recorded evaluation."""
    options = spec.typed("agent")
    shots = getattr(options, "shots", None)
    if isinstance(shots, int) and getattr(options, "demonstrations", "") is None:
        from ldm.agents import demonstrations

        shots = min(shots, len(demonstrations.load(spec.env.name)))
    return Conditions(
        actions_listed=sees_actions(spec, run.manifest.protocol),
        demonstrations=shots if isinstance(shots, int) else None,
        memory=run.argument(REMEMBERED, MemoryFacts),
        models={k: v for k, v in run.manifest.models.items() if k not in _NO_ROLES},
    )
