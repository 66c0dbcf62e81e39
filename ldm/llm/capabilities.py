"""Which request parameters a server accepts for a model: probed once and stored in the run."""

from __future__ import annotations

import re
import threading
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from ldm import records, untrusted
from ldm.errors import LdmError
from ldm.llm import Message, Sampling
from ldm.llm.calls import Mode, Request
from ldm.secrecy import redacted_json
from ldm.types import stable_seed

FILE = "capabilities.json"
MODES: tuple[Mode, ...] = ("json_schema", "json_object", "prompt")
BOUNDS = ("max_tokens", "max_completion_tokens", "")
#: Keywords that some servers refuse in a schema: lengths and ranges. Replies are validated anyway.
CONSTRAINTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
)
OUT_OF_RANGE = re.compile(r"too (large|big|high|small|low)|at (most|least)|less than|greater than")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which parameters one model of one server accepts.

    structured: the strongest way in which it replies in JSON.
    constraints: whether schemas may bound lengths and numbers.
    temperature, top_p, stop, seed: whether the server takes the parameter. One that it refuses is
    left out; the client then cuts replies at stop sequences itself.
    max_tokens: under which name the length of a reply is bounded, "" where it cannot be.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    structured: Mode = "json_schema"
    constraints: bool = True
    temperature: bool = True
    top_p: bool = True
    stop: bool = True
    seed: bool = True
    max_tokens: Literal["max_tokens", "max_completion_tokens", ""] = "max_tokens"

    def weaker(self, other: Capabilities) -> Capabilities:
        """Return what both have, where two simultaneous calls found out different things."""
        return Capabilities(
            structured=max(self.structured, other.structured, key=MODES.index),
            constraints=self.constraints and other.constraints,
            temperature=self.temperature and other.temperature,
            top_p=self.top_p and other.top_p,
            stop=self.stop and other.stop,
            seed=self.seed and other.seed,
            max_tokens=max(self.max_tokens, other.max_tokens, key=BOUNDS.index),
        )

    def without(self, complaint: str) -> Capabilities | None:
        """Return what remains after a refusal with this message; None where that cannot help.

        Servers name the parameter that they refuse, in sentences of all kinds.
        """
        message = complaint.lower()
        if "max_" in message and OUT_OF_RANGE.search(message):
            return None  # the value is at fault, and without a bound the reply may cost anything
        names_one = any(re.search(rf"\b{name.lower()}\b", message) for name in CONSTRAINTS)
        if self.constraints and "schema" in message and names_one:
            return replace(self, constraints=False)
        if re.search(r"response_format|json_schema|json_object|structured output", message):
            weaker = MODES[MODES.index(self.structured) + 1 :]
            return replace(self, structured=weaker[0]) if weaker else None
        if "max_tokens" in message or "max_completion_tokens" in message:
            if self.max_tokens == "max_tokens":
                return replace(self, max_tokens="max_completion_tokens")
            return replace(self, max_tokens="") if self.max_tokens else None
        fields = asdict(self)
        for name in ("temperature", "top_p", "seed", "stop"):
            if re.search(rf"\b{name}\b", message) and fields[name]:
                return Capabilities(**{**fields, name: False})
        return None


# The docstring is part of the schema that is sent, and so of the keys of recorded probes.
@dataclass(frozen=True, slots=True)
class Probe:
    """Asked for in a request that does not mention JSON: who answers so was made to."""

    greeting: str
    language: str


def probe_request(model: str, mode: Mode, server: str = "") -> Request:
    """Return a short request with every parameter, which shows which ones the server accepts.

    With json_schema the prompt does not mention JSON, so that a JSON reply proves the schema.
    server: changes only the sample, so that a cached reply of another server is never used.
    """
    question = "Greet me in one word of any language."
    if mode != "json_schema":
        question += " Name the language too."
    return Request(
        model=model,
        messages=(Message("user", question),),
        schema=TypeAdapter(Probe).json_schema(),
        sampling=Sampling(temperature=0.0, seed=1, sample=stable_seed("probe", server) % 2**30),
        max_tokens=512,
        stop=("\n\n\n\n",),
    )


class CapabilityStore:
    """Capabilities by server and model, in a file of the run or in memory only. Thread-safe."""

    def __init__(self, path: Path | None = None, server: str = "") -> None:
        """Read the file. server: its URL, as shown. Raises LdmError for a file of another kind."""
        self.server = server
        self._path = path
        self._table: dict[str, dict[str, Capabilities]] = {}
        self._lock = threading.Lock()
        if path is not None and path.exists():
            try:
                self._table = _adapter().validate_python(untrusted.json_file(path))
            except ValidationError as error:
                raise LdmError(
                    f"{path} does not hold the capabilities of servers.",
                    "Delete it: the server is probed again.",
                ) from error

    def get(self, model: str) -> Capabilities | None:
        """Return what is known of `model`, None where it has not been probed."""
        return self._table.get(self.server, {}).get(model)

    def put(self, model: str, capabilities: Capabilities) -> None:
        """Store atomically; what was refused before stays refused."""
        with self._lock:
            models = self._table.setdefault(self.server, {})
            before = models.get(model)
            models[model] = capabilities if before is None else before.weaker(capabilities)
            if self._path is None:
                return
            with records.replacing(self._path) as file:
                text = _adapter().dump_json(self._table, indent=2).decode()
                file.write(redacted_json(text) + "\n")


@cache
def _adapter() -> TypeAdapter[dict[str, dict[str, Capabilities]]]:
    return TypeAdapter(dict[str, dict[str, Capabilities]])
