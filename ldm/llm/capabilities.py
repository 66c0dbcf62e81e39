"""What a server lets a request say for a model: found out once, kept in the run."""

from __future__ import annotations

import re
import threading
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from ldm import records
from ldm.errors import LdmError
from ldm.llm import Message, Sampling
from ldm.llm.calls import Mode, Request
from ldm.types import stable_seed

FILE = "capabilities.json"
MODES: tuple[Mode, ...] = ("json_schema", "json_object", "prompt")
BOUNDS = ("max_tokens", "max_completion_tokens", "")
#: What some servers refuse in a schema: lengths and ranges. Replies are checked for them anyway.
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
    """What may be said to one model of one server.

    structured: the strongest way in which it answers in JSON.
    constraints: whether schemas may bound lengths and numbers.
    temperature, top_p, stop, seed: whether the server takes the parameter. One that it does not is
    left out; stop sequences are then cut from the reply by the client.
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
        """What both have: found by two calls that were made at the same time."""
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
        """What remains after a server refused a request with `complaint`; None if nothing helps.

        Servers name the parameter that they refuse, in all kinds of sentences.
        """
        said = complaint.lower()
        if "max_" in said and OUT_OF_RANGE.search(said):
            return None  # the value is at fault, and without a bound the reply may cost anything
        named = any(re.search(rf"\b{name.lower()}\b", said) for name in CONSTRAINTS)
        if self.constraints and "schema" in said and named:
            return replace(self, constraints=False)
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


def probe_request(model: str, mode: Mode, server: str = "") -> Request:
    """A short request that says all there is to say: the server shows what it takes.

    With json_schema the request is silent about JSON, so that its reply proves the schema.
    server: told apart by the draw alone, so that no server is judged by another one's answer.
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


class Known:
    """Capabilities by server and model, in a file of the run (or nowhere), asked for only once.

    Safe in several threads.
    """

    def __init__(self, path: Path | None = None, server: str = "") -> None:
        """server: the one that is asked, as it is shown. Raises LdmError for another file."""
        self.server = server
        self._path = path
        self._known: dict[str, dict[str, Capabilities]] = {}
        self._lock = threading.Lock()
        if path is not None and path.exists():
            try:
                self._known = _table().validate_python(records.read_json(path))
            except ValidationError as error:
                raise LdmError(
                    f"{path} is not what ldm knows of servers.", "Delete it: it is found out anew."
                ) from error

    def get(self, model: str) -> Capabilities | None:
        return self._known.get(self.server, {}).get(model)

    def put(self, model: str, found: Capabilities) -> None:
        """Remember, on disk all or nothing; what was found to be refused before stays refused."""
        with self._lock:
            known = self._known.setdefault(self.server, {})
            known[model] = known[model].weaker(found) if model in known else found
            if self._path is None:
                return
            with records.replacing(self._path) as file:
                file.write(_table().dump_json(self._known, indent=2).decode() + "\n")


@cache
def _table() -> TypeAdapter[dict[str, dict[str, Capabilities]]]:
    return TypeAdapter(dict[str, dict[str, Capabilities]])
