"""The request parameters that a server accepts: probed once a model and stored in the run."""

from __future__ import annotations

import re
import threading
import tomllib
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from ldm import records
from ldm.errors import LdmError
from ldm.llm import Message, Sampling
from ldm.llm.calls import CUT, Call, Mode, Request
from ldm.text import read_json, redacted_json
from ldm.types import stable_seed

FILE = "capabilities.json"
MODES: tuple[Mode, ...] = ("json_schema", "json_object", "prompt")
BOUNDS = ("max_tokens", "max_completion_tokens", "")
#: Keywords that some servers refuse in a schema: lengths and ranges. Replies are validated anyway.
CONSTRAINTS = ("minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum")
#: Meaning → what servers say then, see words.toml.
_WAYS = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
WORDS = {meaning: re.compile("|".join(ways), re.IGNORECASE) for meaning, ways in _WAYS.items()}
#: Tokens for thinking beside an answer: the least where a model thinks, and the most.
LEAST_ROOM, MOST_ROOM = 1_024, 32_768


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The parameters that one model of one server accepts.

    structured: the strongest way in which it replies in JSON.
    constraints: whether schemas may bound lengths and numbers.
    temperature, top_p, stop, seed: whether the server accepts the parameter. If not, it is left
    out, and the client cuts replies at stop sequences itself.
    max_tokens: the name of the parameter that bounds a reply, "" if there is none.
    system, chat: whether it knows the role and the endpoint.
    room: tokens added to every bound, because the model thinks before it answers.
    context: tokens of a request with its reply, or None if the server does not state it. No request
    depends on it, so it is not part of `repr`, from which idempotency keys are made.
    """

    structured: Mode = "json_schema"
    constraints: bool = True
    temperature: bool = True
    top_p: bool = True
    stop: bool = True
    seed: bool = True
    max_tokens: Literal["max_tokens", "max_completion_tokens", ""] = "max_tokens"
    system: bool = True
    chat: bool = True
    room: int = field(default=0, repr=False)
    context: int | None = field(default=None, repr=False)

    def after(self, call: Call) -> Capabilities:
        """Return the capabilities after a reply."""
        if call.cut and call.request.stop and not CUT.search(call.finish):
            # The server ends thoughts at a stop sequence that is meant for the answer.
            return replace(self, stop=False)
        room = min(MOST_ROOM, max(LEAST_ROOM, 1 << (4 * call.thinking).bit_length()))
        return replace(self, room=room) if call.thinking and room > self.room else self

    def weaker(self, other: Capabilities) -> Capabilities:
        """Return the common capabilities, for simultaneous calls with different findings."""
        flags = ("constraints", "temperature", "top_p", "stop", "seed", "system", "chat")
        return Capabilities(
            structured=max(self.structured, other.structured, key=MODES.index),
            max_tokens=max(self.max_tokens, other.max_tokens, key=BOUNDS.index),
            room=max(self.room, other.room),
            context=min(filter(None, (self.context, other.context)), default=None),
            **{name: getattr(self, name) and getattr(other, name) for name in flags},
        )

    def without(self, complaint: str) -> Capabilities | None:
        """Return the capabilities left after a refusal with this message, or None if hopeless.

        Servers name the parameter that they refuse, in sentences of all kinds.
        """
        message = complaint.lower()
        names_bound = WORDS["bound"].search(message)
        if names_bound and WORDS["out_of_range"].search(message):
            # The value is at fault; without a bound the reply could cost anything.
            return replace(self, room=self.room // 2) if self.room else None
        if self.chat and WORDS["no_chat"].search(message):
            return replace(self, chat=False, structured="prompt")
        if self.system and WORDS["no_system"].search(message):
            return replace(self, system=False)
        names_one = any(re.search(rf"\b{name.lower()}\b", message) for name in CONSTRAINTS)
        if self.constraints and names_one and re.search("schema|type", message):
            return replace(self, constraints=False)
        weaker = MODES[MODES.index(self.structured) + 1 :]
        if weaker and WORDS["weaker_form"].search(message):
            return replace(self, structured=weaker[0])
        if names_bound:
            if self.max_tokens == "max_tokens":
                return replace(self, max_tokens="max_completion_tokens")
            return replace(self, max_tokens="") if self.max_tokens else None
        for name in ("top_p", "temperature", "seed", "stop"):
            if re.search(rf"\b{name}(_?sequences?)?\b", message) and getattr(self, name):
                return replace(self, **{name: False})  # type: ignore[arg-type]
        return None


#: Fields of model lists with the context length: as the server was started (vLLM, llama.cpp, LM
#: Studio), or as the provider offers it.
CONTEXT_FIELDS = (
    *("max_model_len", "n_ctx", "loaded_context_length"),
    *("context_length", "context_window", "max_context_length"),
)
#: The context length of the training (llama.cpp); the server's may be shorter.
TRAINED_CONTEXT = "n_ctx_train"
#: The maximum that is assumed from it.
MOST_TRAINED = 8_192


def context_in(listing: Any, model: str) -> int | None:
    """Return the context length that a server's list of models states for `model`, or None.

    The only model of a list is taken whatever its name.
    """
    entries = listing.get("data") if isinstance(listing, dict) else None
    entries = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    matching = [entry for entry in entries if entry.get("id") == model] or entries
    if len(matching) != 1:
        return None
    more = matching[0].get("meta")
    fields = {**(more if isinstance(more, dict) else {}), **matching[0]}
    stated = {k: v for k, v in fields.items() if isinstance(v, int) and v > 0 and v is not True}
    trained = min(stated.get(TRAINED_CONTEXT, 0), MOST_TRAINED)
    return next((stated[name] for name in CONTEXT_FIELDS if name in stated), trained or None)


# The docstring is part of the schema that is sent, and so of the keys of recorded probes.
@dataclass(frozen=True, slots=True)
class Probe:
    """Asked for in a request that does not mention JSON: who answers so was made to."""

    greeting: str
    language: str


def probe_request(model: str, mode: Mode, server: str = "") -> Request:
    """Return a short request with every parameter, to find out which ones the server accepts.

    With json_schema the prompt does not mention JSON, so that a JSON reply proves the schema.
    server: changes only the sample, so that a cached reply of another server is never used.
    """
    question = "Greet me in one word of any language."
    if mode != "json_schema":
        question += " Name the language too."
    return Request(
        model=model,
        messages=(Message("user", question),),
        schema=records.adapter(Probe).json_schema(),
        sampling=Sampling(temperature=0.0, seed=1, sample=stable_seed("probe", server) % 2**30),
        max_tokens=512,
        stop=("\n\n\n\n",),
    )


#: Server → model → its capabilities.
Table = dict[str, dict[str, Capabilities]]


class CapabilityStore:
    """Capabilities by server and model, in a file of the run or only in memory. Thread-safe."""

    def __init__(self, path: Path | None = None, server: str = "") -> None:
        """Read the file. server: its URL, as shown. Raises LdmError if the file is invalid."""
        self.server = server
        self._path = path
        self._table: Table = {}
        self._lock = threading.Lock()
        if path is not None and path.exists():
            try:
                self._table = records.adapter(Table).validate_python(read_json(path))
            except ValidationError as error:
                raise LdmError(
                    f"{path} does not hold the capabilities of servers.",
                    "Delete it; the server is then probed again.",
                ) from error

    def get(self, model: str) -> Capabilities | None:
        """Return the capabilities for `model`, or None if it has not been probed."""
        return self._table.get(self.server, {}).get(model)

    def context(self, model: str) -> int | None:
        """Return the shortest known context length of `model` on any server, or None."""
        known = (models[model].context for models in self._table.values() if model in models)
        return min(filter(None, known), default=None)

    def take(self, path: Path) -> None:
        """Copy the findings of another run, if `path` exists; a replay needs them."""
        if not path.exists():
            return
        for server, models in CapabilityStore(path)._table.items():
            for model, capabilities in models.items():
                self.put(model, capabilities, server)

    def put(self, model: str, capabilities: Capabilities, server: str | None = None) -> None:
        """Store the capabilities atomically; what was refused before stays refused."""
        with self._lock:
            models = self._table.setdefault(self.server if server is None else server, {})
            before = models.get(model)
            models[model] = capabilities if before is None else before.weaker(capabilities)
            if self._path is None:
                return
            with records.replacing(self._path) as file:
                text = records.adapter(Table).dump_json(self._table, indent=2).decode()
                file.write(redacted_json(text) + "\n")
