"""The interface to language models; `ldm.llm.client` implements it for model servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypedDict, Unpack

from ldm.types import Usage, stable_seed

#: The caller: an agent, its planner, or the reasoner. Each may have its own model.
Role = Literal["llm", "planner", "reasoner"]


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling parameters of a reply; every field is part of a recording's key.

    sample: distinguishes repeated samples of one request. `ScopedLLM` derives it if the temperature
    is above 0; it is also the seed sent to the server if `seed` is None.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    sample: int = 0


GREEDY = Sampling()


class CallOptions(TypedDict, total=False):
    """The options of a completion.

    schema: a type that pydantic writes as a JSON object (a dataclass, a model); the text of the
    reply is then JSON of that type, unless it is malformed. sampling: greedy by default.
    max_tokens: the maximum length of the reply. stop: texts before which the reply ends.
    """

    schema: type[Any] | None
    sampling: Sampling
    max_tokens: int | None
    stop: Sequence[str]


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply, with its usage, which is the same whether it was paid now or recorded.

    value: with a schema, the validated reply, an instance of it, or None if neither the reply nor
        the repaired one fits it; `text` is the last reply.
    malformed: the reply did not fit the schema, and was asked for once more.
    cut: the reply ended at its bound; `text` is then its whole lines alone.
    keys: the recorded calls behind the completion, in order; () if nothing is recorded.
    """

    text: str
    usage: Usage
    value: Any = None
    malformed: bool = False
    cut: bool = False
    keys: tuple[str, ...] = ()


class LLM(Protocol):
    """A language model behind any service. Thread-safe."""

    name: str

    def complete(self, messages: Sequence[Message], **options: Unpack[CallOptions]) -> Completion:
        """Return the reply to `messages`.

        Raises ContextTooLong if the caller should shorten the messages, ModelError if the call has
        failed for good, RunStopped if no further call can be made.
        """


def context_of(llm: LLM) -> int | None:
    """Return a model's context length in tokens, or None if unknown; few models have `context`."""
    known: int | None = llm.context() if hasattr(llm, "context") else None
    return known


@dataclass(eq=False, slots=True)
class ScopedLLM:
    """An LLM within one scope, for one thread: it reports costs and varies samples.

    If the temperature is above 0, `sample` derives from the scope (run seed, task, trial, …) and
    the number of the call within it, so that trials differ and a resumed run repeats itself.

    scope: returns JSON values, at each call. on_usage: called with each call's usage. on_calls:
    called with the keys of the recorded calls behind a completion.
    """

    llm: LLM
    scope: Callable[[], tuple[object, ...]]
    on_usage: Callable[[Usage], None] = lambda _: None
    on_calls: Callable[[Sequence[str]], None] = lambda _: None
    name: str = field(init=False)
    _calls: dict[tuple[object, ...], int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.name = self.llm.name

    def context(self) -> int | None:
        """Return the context length of the model in tokens, or None if unknown."""
        return context_of(self.llm)

    def complete(self, messages: Sequence[Message], **options: Unpack[CallOptions]) -> Completion:
        """Complete as `LLM.complete`."""
        scope = self.scope()
        number = self._calls.get(scope, 0)
        self._calls[scope] = number + 1
        sampling = options.get("sampling", GREEDY)
        if sampling.temperature > 0 and not sampling.sample:
            # 31 bits, because it may be sent as a seed, and servers read seeds into small integers.
            options["sampling"] = replace(sampling, sample=stable_seed(*scope, number) % 2**31)
        completion = self.llm.complete(messages, **options)
        self.on_usage(completion.usage)
        self.on_calls(completion.keys)
        return completion
