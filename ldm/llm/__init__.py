"""The interface to language models; `ldm.llm.client` implements it for model services."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from ldm.types import Usage, stable_seed

#: Who calls: an agent, its planner, the reasoner. Each may have a model of its own.
Role = Literal["llm", "planner", "reasoner"]


@dataclass(frozen=True, slots=True)
class Message:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is sampled; every field is part of a recording's key.

    sample: distinguishes repeated samples of the same request. `ScopedLLM` derives it where the
    temperature is above 0; it is also the seed sent to the server where `seed` is None.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    sample: int = 0


GREEDY = Sampling()


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply, with its usage (the same whether it was paid now or recorded before).

    value: with a schema, the validated reply, an instance of it; None where `malformed`.
    malformed: neither the reply nor the repaired one fits the schema; `text` is as it came.
    keys: of the recorded calls that it took, in their order; () where nothing is recorded.
    """

    text: str
    usage: Usage
    value: Any = None
    malformed: bool = False
    keys: tuple[str, ...] = ()


class LLM(Protocol):
    """A language model behind any service. Safe to call from several threads."""

    name: str

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """Return the reply to `messages`.

        schema: a type that pydantic writes as a JSON object (a dataclass, a model); the reply's
        text is then JSON of that type, unless it is malformed.
        Raises ContextTooLong where the caller should shorten the messages, ModelError where the
        call has failed for good, RunStopped where no further call can be made.
        """
        ...


@runtime_checkable
class KnowsContext(Protocol):
    """A language model that may know how long its context is."""

    def context(self) -> int | None:
        """Return the tokens of its context, None where the server does not say."""
        ...


def context_of(llm: LLM) -> int | None:
    """Return the tokens of a model's context, None where they are unknown."""
    return llm.context() if isinstance(llm, KnowsContext) else None


class ScopedLLM:
    """An LLM within one scope, for one thread: reports what calls cost and varies their samples.

    Where the temperature is above 0, `sample` derives from the scope (run seed, task, trial, …) and
    the number of the call within it, so that trials differ and a resumed run repeats itself.
    """

    def __init__(
        self,
        llm: LLM,
        scope: Callable[[], tuple[object, ...]],
        on_usage: Callable[[Usage], None] = lambda _: None,
        on_calls: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        """Take the scope, JSON values that are read at each call.

        on_usage: called with what each call cost. on_calls: called with the keys of the recorded
            calls that a completion took.
        """
        self.name = llm.name
        self._llm = llm
        self._scope = scope
        self._on_usage = on_usage
        self._on_calls = on_calls
        self._calls: dict[tuple[object, ...], int] = {}

    def context(self) -> int | None:
        """Return the tokens of the model's context, None where they are unknown."""
        return context_of(self._llm)

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """Complete as `LLM.complete`."""
        scope = self._scope()
        number = self._calls.get(scope, 0)
        self._calls[scope] = number + 1
        if sampling.temperature > 0 and not sampling.sample:
            # 31 bits, because it may be sent as a seed, and servers read seeds into small integers.
            sampling = replace(sampling, sample=stable_seed(*scope, number) % 2**31)
        completion = self._llm.complete(
            messages, schema=schema, sampling=sampling, max_tokens=max_tokens, stop=stop
        )
        self._on_usage(completion.usage)
        self._on_calls(completion.keys)
        return completion


__all__ = [
    "GREEDY",
    "LLM",
    "Completion",
    "KnowsContext",
    "Message",
    "Role",
    "Sampling",
    "ScopedLLM",
    "context_of",
]
