"""What a server lets a request say for a model: found out once, kept in the run (design §2)."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import TypeAdapter

from ldm import records
from ldm.llm import Message, Sampling
from ldm.llm.calls import Mode, Request

FILE = "capabilities.json"
MODES: tuple[Mode, ...] = ("json_schema", "json_object", "prompt")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What may be said to one model of one server.

    structured: the strongest way in which it answers in JSON.
    temperature, top_p, stop, seed: whether the server takes the parameter. One that it does not is
    left out; stop sequences are then cut from the reply by the client.
    max_tokens: under which name the length of a reply is bounded, "" where it cannot be.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    structured: Mode = "json_schema"
    temperature: bool = True
    top_p: bool = True
    stop: bool = True
    seed: bool = True
    max_tokens: Literal["max_tokens", "max_completion_tokens", ""] = "max_tokens"

    def without(self, complaint: str) -> Capabilities | None:
        """What remains after a server refused a request with `complaint`; None if nothing helps.

        Servers name the parameter that they refuse, in all kinds of sentences.
        """
        said = complaint.lower()
        if re.search(r"response_format|json_schema|json_object|structured output", said):
            weaker = MODES[MODES.index(self.structured) + 1 :]
            return replace(self, structured=weaker[0]) if weaker else None
        if "max_tokens" in said or "max_completion_tokens" in said:
            if self.max_tokens == "max_tokens":
                return replace(self, max_tokens="max_completion_tokens")
            return replace(self, max_tokens="") if self.max_tokens else None
        taken = {**asdict(self)}
        for name in ("temperature", "top_p", "seed", "stop"):
            if re.search(rf"\b{name}\b", said) and taken[name]:
                return Capabilities(**{**taken, name: False})
        return None


@dataclass(frozen=True, slots=True)
class Probe:
    """Asked for in a request that does not mention JSON: who answers so was made to."""

    greeting: str
    language: str


def probe_request(model: str, mode: Mode) -> Request:
    """A short request that says all there is to say: the server shows what it takes.

    With json_schema the request is silent about JSON, so that its reply proves the schema.
    """
    question = "Greet me in one word of any language."
    if mode != "json_schema":
        question += " Name the language too."
    return Request(
        model=model,
        messages=(Message("user", question),),
        schema=TypeAdapter(Probe).json_schema(),
        sampling=Sampling(temperature=0.0, seed=1),
        max_tokens=512,
        stop=("\n\n\n\n",),
    )


class Known:
    """Capabilities by model, in a file of the run (or nowhere), so that resuming asks no more."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, Capabilities] = {}
        if path is not None and path.exists():
            table = records.read_json(path)
            self._known = TypeAdapter(dict[str, Capabilities]).validate_python(table)

    def get(self, model: str) -> Capabilities | None:
        return self._known.get(model)

    def put(self, model: str, found: Capabilities) -> None:
        """Remember, on disk all or nothing."""
        self._known[model] = found
        if self._path is None:
            return
        table: dict[str, Any] = {name: asdict(known) for name, known in self._known.items()}
        adapter = TypeAdapter(dict[str, Any])
        with records.replacing(self._path) as file:
            file.write(adapter.dump_json(table, indent=2).decode() + "\n")
