"""What an agent had at a task, beside its method: tables say it, since it is half of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """The memory that an agent recalled from. A run's run.json holds it.

    episodes: recorded ones, of people, experts or other agents. explored: those that refinements
    added. batches: batch memories. generation: its number.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    tuples: int
    episodes: int
    explored: int
    batches: int
    generation: int

    def __str__(self) -> str:
        """Return it in a few words, for a table."""
        explored = f" + {self.explored} explored" if self.explored else ""
        return f"gen. {self.generation}, {self.episodes} episodes{explored}"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an agent had.

    actions: whether it was shown the possible actions. demonstrations: how many of whole tasks its
    prompts hold at most; None where its method has none. memory: None where it has none, or where a
    run of an earlier version does not say. models: role → the model that it called.
    """

    actions: bool = True
    demonstrations: int | None = None
    memory: MemoryFacts | None = None
    models: Mapping[str, str] = field(default_factory=dict)

    def cells(self) -> dict[str, str]:
        """Return a cell for each column of a table; a dash where there is nothing."""
        return {
            "actions": "listed" if self.actions else "not listed",
            "demos": "–" if self.demonstrations is None else str(self.demonstrations),
            "memory": "–" if self.memory is None else str(self.memory),
            "model": self.model or "–",
        }

    @property
    def model(self) -> str:
        """The models that it called, in one text; "" for none."""
        if len(set(self.models.values())) < 2:
            return next(iter(self.models.values()), "")
        return ", ".join(f"{role} {model}" for role, model in self.models.items())

    def __str__(self) -> str:
        """Return what it had in words, without what it had not."""
        words = ["possible actions listed" if self.actions else "no possible actions listed"]
        if self.demonstrations is not None:
            plural = "" if self.demonstrations == 1 else "s"
            words.append(f"up to {self.demonstrations} demonstration{plural}")
        if self.memory is not None:
            words.append(f"a memory of {self.memory.tuples} tuples ({self.memory})")
        words.append(f"the model {self.model}" if self.models else "no model")
        return ", ".join(words)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        from dataclasses import asdict

        return {
            "actions_listed": self.actions,
            "demonstrations": self.demonstrations,
            "memory": None if self.memory is None else asdict(self.memory),
            "models": dict(self.models),
        }
