"""What a server's response says: a reply with its thoughts, or a fault, in each server's words.

Whatever is known of how servers differ in their responses stands here, and of how they differ in
what they accept in `capabilities.py`.

Structured replies are validated by the JSON Schema that servers are sent; a second call corrects an
invalid one.
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from ldm.llm import Message
from ldm.llm.calls import Call, Request
from ldm.llm.capabilities import WORDS, Capabilities
from ldm.llm.meter import prompt_guess
from ldm.text import redacted, value_in
from ldm.types import Usage, encodable

#: The beginning and the end of thoughts, and fields of a message that hold them.
_MARKS = re.compile(
    f"(?P<open>{WORDS['opening'].pattern})|(?P<close>{WORDS['closing'].pattern})", re.IGNORECASE
)
_THOUGHTS = re.compile("reason|think|thought")
#: Fields of a part, or of a message, that hold its text.
_TEXTS = ("text", "content", "value", "thinking", "summary", "refusal", "output", "parts")

_TAG = re.compile(r"<[!/a-zA-Z][^<>]*>")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|h|m|s)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Fields of an error that repeat the request or only identify it.
_SILENT = {"input", "ctx", "url", "id", "request_id", "user_id", "provider_name", "@type"}
_SILENT |= {"failed_generation"}  # which may say anything
_WAITS = frozenset({"retryDelay", "retry_after", "retry_after_seconds"})
#: Meanings of refusals after which a weaker form of the request may be answered.
FEATURES = ("weaker_form", "no_system", "no_chat")
#: The status that words mean, of an error in a success, or of one that is only called bad (400).
MEANT = {429: "too_many", 401: "no_key", 404: "no_model", 400: "moderated"}
#: Statuses that stay until the key, the model's name or the address is corrected.
_SETTINGS = (401, 403, 404, 405)
#: Fields of a response without choices that say why.
ERRORS = ("error", "errors", "detail", "message", "msg", "base_resp")
#: Maximum characters of a server's message that are searched, and that an error quotes.
LONGEST_MESSAGE = 20_000
QUOTE_LENGTH = 300

#: The remedy of a fault: retry later; leave a parameter out; tell the caller that the request is
#: too long, or that it is not answered; stop the run.
FaultKind = Literal["again", "refused", "context", "rejected", "stop"]


@dataclass(eq=False)
class Fault(Exception):
    """A request without a usable response.

    kind: the remedy. what: a description. down: the server seems unreachable or overloaded.
    retry_after: seconds that the server asks to wait. refused: too many requests (429).
    final: the server has processed the request, and would respond the same under the same
    idempotency key. billed: its work may be charged for. message: all that the server says, in
    which a refused parameter may be named, whatever the kind.
    """

    kind: FaultKind
    what: str
    down: bool = False
    retry_after: float | None = None
    refused: bool = False
    final: bool = False
    billed: bool = False
    message: str = ""


# Replies


def divided(text: str) -> tuple[str, str]:
    """Return (thoughts, answer) of a reply, whatever marks stand around its thoughts.

    Thoughts whose beginning is missing were opened in the prompt; those without an end were cut
    off, and leave no answer. A reply that is JSON as a whole holds no thoughts.
    """
    start = len(text) - len(text.lstrip())
    value = value_in(text, start) if text[start : start + 1] == "{" else None
    if value is not None and not text[value[1] :].strip():
        return "", text
    thoughts, answer, inside, place = [], "", False, 0
    for mark in _MARKS.finditer(text):
        before, is_open = text[place : mark.start()], mark["open"] is not None
        if is_open and not inside and before.rpartition("\n")[2].strip() and answer + before:
            continue  # a tag within a line is spoken of
        if inside:
            thoughts.append(before)
        elif is_open:
            answer += before
        else:  # they were opened in the prompt
            thoughts.append(answer + before)
            answer = ""
        inside, place = is_open, mark.end()
    if inside:
        thoughts.append(text[place:])
    else:
        answer += text[place:]
    thought = "\n".join(filter(None, map(str.strip, thoughts)))
    return thought, answer.lstrip() if thoughts else answer


def _trimmed(answer: str) -> str:
    """Return an answer without the tokens of a chat template around it."""
    while (leading := WORDS["leading"].match(answer)) and not WORDS["end"].match(answer.lstrip()):
        answer = answer[leading.end() :].lstrip()
    end = WORDS["end"].search(answer)
    return answer if end is None else answer[: end.start()]


def _content(content: Any, depth: int = 0) -> tuple[str, str]:
    """Return (thoughts, text) of a content: a text, a part with a text, or a list of parts."""
    if isinstance(content, str) or content is None or depth > 8:
        return "", content if isinstance(content, str) else ""
    if isinstance(content, list):
        parts = [_content(part, depth + 1) for part in content]
        return "".join(thought for thought, _ in parts), "".join(text for _, text in parts)
    if not isinstance(content, dict):
        return "", str(content)
    if not content.keys() & {"type", *_TEXTS}:  # an object that was asked for
        return "", json.dumps(content)
    inner = next((content[name] for name in _TEXTS if content.get(name)), "")
    thought, text = _content(inner, depth + 1)
    if _THOUGHTS.search(str(content.get("type"))) or content.get("thought") is True:
        return thought + text, ""
    return thought, text


def _called(message: Mapping[str, Any], request: Request) -> str:
    """Return the call of a tool that stands in place of a content: what fills in a form, or all."""
    calls = message.get("tool_calls")
    first = calls[0] if isinstance(calls, list) and calls else None
    call = first.get("function") if isinstance(first, dict) else message.get("function_call")
    if not isinstance(call, dict) or not call.get("name"):
        return ""
    arguments = call.get("arguments")
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return arguments if request.schema else f"{call['name']} {arguments}"


def reply_in(content: Any, role: str, request: Request, capabilities: Capabilities) -> Call:
    """Return the call with the reply in a response's JSON, or raise Fault."""
    choices = content.get("choices") if isinstance(content, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    names = ERRORS[:1] if isinstance(choice, dict) else ERRORS
    for holder in (content, choice):  # a success that holds an error
        if isinstance(holder, dict) and any(holder.get(name) for name in names):
            raise refusal(_code(holder), holder, {})
    if not isinstance(choice, dict):
        raise Fault("again", "an answer without choices", final=True, billed=True)
    message = choice.get("message") or choice.get("delta")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    apart, text = _content(message.get("content"))
    fields = (message[name] for name in message if _THOUGHTS.search(name) and message[name])
    apart += "".join(_content(next(fields, "")))
    thoughts, answer = divided(redacted(encodable(text)))
    answer = _trimmed(answer) or redacted(encodable(_content(message.get("refusal"))[1]))
    answer = answer if answer.strip() else redacted(encodable(_called(message, request)))
    finish = str(choice.get("finish_reason") or choice.get("native_finish_reason") or "")
    finish = redacted(encodable(finish))
    if not answer.strip() and WORDS["moderated"].search(finish):
        raise Fault("rejected", f"the reply was withheld ({finish})", billed=True)
    if WORDS["broken"].fullmatch(finish):
        raise Fault("again", f"a reply that ends by {finish!r}", final=True, billed=True)
    if not capabilities.stop:
        texts = [answer.partition(one)[0] for one in request.stop if one]
        answer = min([answer, *texts], key=len)
    thoughts = "\n".join(filter(None, (redacted(encodable(apart)).strip(), thoughts)))
    usage, estimated = _usage(content.get("usage"), request, thoughts + answer)
    hidden = usage.completion_tokens - len(answer.encode()) - 32  # a token is at least a byte
    thinking = max(hidden, len(thoughts.encode()) // 4, 0)
    return Call(
        *(request.key, role, request, answer, finish, usage),
        mode="" if request.schema is None else capabilities.structured,
        estimated=estimated,
        thoughts=thoughts,
        thinking=thinking,
    )


def _usage(reported: Any, request: Request, text: str) -> tuple[Usage, bool]:
    """Return the usage of one call, and whether it is estimated because none was reported."""

    def count(*names: str, table: Any = reported) -> int | None:
        values = [table.get(name) for name in names] if isinstance(table, Mapping) else []
        texts = (str(one).removesuffix(".0") for one in values if not isinstance(one, bool))
        return next((int(one) for one in texts if one.isdecimal() and len(one) < 16), None)

    prompt = count("prompt_tokens", "input_tokens")
    completion = count("completion_tokens", "output_tokens")
    total = count("total_tokens") or 0
    if not prompt or (completion is None and total < prompt):
        return Usage(1, prompt_guess(request), 0, len(text.encode()) // 4), True
    details = reported.get("prompt_tokens_details")
    cached = count("cached_tokens", table=details) or count("prompt_cache_hit_tokens") or 0
    # Some count thoughts in the total alone.
    return Usage(1, prompt, min(prompt, cached), max(completion or 0, total - prompt)), False


# Errors


def refusal(status: int, body: object, headers: Mapping[str, str]) -> Fault:
    """Return the fault of a response that is an error, by its status and its words."""
    message = redacted(" ".join(dict.fromkeys(_words(body, 0))))[:LONGEST_MESSAGE]
    message = " ".join(message.split())
    quote = message if len(message) <= QUOTE_LENGTH else message[:QUOTE_LENGTH] + "…"
    what = f"HTTP {status}: {quote}" if quote else f"HTTP {status}"
    wait = retry_after(headers, message)
    if 300 <= status < 400:
        place = redacted(headers.get("location", "").partition("?")[0])[:QUOTE_LENGTH]
        remedy = "which is not followed: set OPENAI_BASE_URL to it if you trust it"
        return Fault("stop", f"HTTP {status} leads to {place or 'nowhere'}, {remedy}")
    if _is_too_long(status, message):
        return Fault("context", what)
    if status in (400, 422):
        status = _meant(message) or status
    is_passing = status != 429 or wait is not None or WORDS["passing"].search(message)
    is_spent = not is_passing and WORDS["spent"].search(message)
    if WORDS["no_money"].search(message) or status == 402 or is_spent:
        return Fault("stop", what)
    if status in (400, 403, 422, 424, 451, 500) and WORDS["moderated"].search(message):
        return Fault("rejected", what, billed=status == 500)
    if status in (400, 422) or any(WORDS[one].search(message) for one in FEATURES):
        kind: FaultKind = "again" if status >= 500 else "refused"
        kind = "stop" if status in _SETTINGS else kind
        return Fault(kind, what, final=status >= 500, billed=status >= 500, message=message)
    if status in _SETTINGS:
        return Fault("stop", what)
    if status in (408, 409, 425, 429, 498) or status >= 500:
        return Fault(
            "again",
            what,
            down=status in (429, 502, 503, 504) or status >= 520,
            retry_after=wait,
            refused=status == 429,
            final=status >= 500,
            billed=status >= 500,
        )
    return Fault("refused", what, message=message)


def _is_too_long(status: int, message: str) -> bool:
    if status == 429:
        return WORDS["always_too_large"].search(message) is not None
    rest = "" if WORDS["bound_alone"].match(message) else WORDS["bound"].sub("", message)
    is_size = WORDS["too_long"].search(rest) and WORDS["size"].search(rest)
    is_size = is_size or WORDS["no_room"].search(message)
    return status == 413 or (status not in (401, 402, 403) and is_size is not None)


def _meant(message: str) -> int | None:
    return next((code for code, name in MEANT.items() if WORDS[name].search(message)), None)


def _code(holder: Mapping[str, Any]) -> int:
    """Return the status that an error in a success names or means, 500 if none."""
    inner = next((holder[n] for n in ("error", "errors", "base_resp") if holder.get(n)), holder)
    inner = inner[0] if isinstance(inner, list) else inner
    for name in ("code", "status", "status_code") if isinstance(inner, Mapping) else ():
        code = str(inner.get(name))
        if code.isdecimal() and 400 <= int(code[:9]) < 600:
            return int(code)
    return _meant(" ".join(_words(holder, 0))) or 500


def _words(body: object, depth: int) -> Iterator[str]:
    """Yield all that the body of an error says, wherever its server puts it."""
    if depth > 8:
        return
    if isinstance(body, Mapping):
        first = sorted(body, key=lambda name: name not in ("message", "msg", "error", "detail"))
        for name in first:
            if name in _WAITS:
                yield f"retry in {body[name]}{'' if isinstance(body[name], str) else ' s'}"
            elif name not in _SILENT:
                yield from _words(body[name], depth + 1)
    elif isinstance(body, list | tuple):
        for item in body[:50]:
            yield from _words(item, depth + 1)
    elif isinstance(body, str):
        try:  # a gateway quotes its provider's response
            inner = json.loads(body) if body[:1] in "{[" and body else None
        except (ValueError, RecursionError):
            inner = None
        if isinstance(inner, dict | list):
            yield from _words(inner, depth + 1)
        elif body.strip():
            yield encodable(_TAG.sub(" ", body[:LONGEST_MESSAGE]))


def retry_after(headers: Mapping[str, str], message: str = "") -> float | None:
    """Return the seconds to wait by the Retry-After header (seconds or a date) or the message."""
    with suppress(ValueError):
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        if re.fullmatch(r"\d+(\.\d+)?", value := headers.get("retry-after", "").strip()):
            return float(value)
        if value:
            date = email.utils.parsedate_to_datetime(value)
            return max(0.0, date.timestamp() - time.time())
    if match := WORDS["wait"].search(message):
        return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _PART.findall(match[1]))
    return None


#: Characters of a bad reply that are shown to the model for repair.
REPAIR_EXCERPT = 4000
#: Maximum characters read of a reply, and places at which an object may begin.
LONGEST_REPLY = 2**20
MOST_OBJECTS = 200
UNKNOWN_TO_STRICT = ("default", "title")


@dataclass(frozen=True)
class Form:
    """A type that replies must fit, with its pydantic adapter and its JSON Schema."""

    adapter: TypeAdapter[Any]
    schema: dict[str, Any]

    def read(self, text: str) -> tuple[Any, str]:
        """Return (value, "") of a reply, or (None, complaint).

        Fences and prose around the object are allowed, and so are numbers in quotes.
        """
        complaint = "there is no JSON object in it"
        for number, candidate in enumerate(_candidates(text)):
            try:
                return self.adapter.validate_python(candidate), ""
            except ValidationError as error:
                if number == 0:
                    complaint = _error_message(error)
        return None, complaint

    def write(self, value: Any) -> str:
        """Return the value as JSON in a fixed layout."""
        return self.adapter.dump_json(value).decode()


def _form_of(schema: Any) -> Form:
    """Return the form of a type. Raises ValueError if it is not written as a JSON object."""
    adapter = TypeAdapter(schema)
    json_schema = _without_docstrings(adapter.json_schema())
    if json_schema.get("type") != "object" and "$ref" not in json_schema:
        raise ValueError(f"{schema} is not written as a JSON object; wrap it in one")
    return Form(adapter, json_schema)


form_of: Callable[[Any], Form] = lru_cache(maxsize=1024)(_form_of)


def _without_docstrings(node: Any) -> Any:
    """Return the schema without docstrings of classes, which address readers of the code."""
    if isinstance(node, list):
        return [_without_docstrings(item) for item in node]
    if not isinstance(node, dict):
        return node
    excluded = {"description"} if node.get("type") == "object" else set()
    return {k: _without_docstrings(v) for k, v in node.items() if k not in excluded}


def strict_schema(
    schema: dict[str, Any], excluded: Collection[str] = ()
) -> tuple[dict[str, Any], bool]:
    """Return the schema for strict decoding and True, or the schema itself and False.

    In strict decoding every object lists and requires all its fields, which a mapping with free
    keys cannot. excluded: keywords that the server refuses.
    """
    has_free_keys = False

    def walk(node: Any) -> Any:
        nonlocal has_free_keys
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        fields = node.get("properties")
        walked = {
            k: walk(v)
            for k, v in node.items()
            if k not in {*UNKNOWN_TO_STRICT, *excluded, "properties"}
        }
        if isinstance(fields, dict):
            walked["properties"] = {name: walk(field) for name, field in fields.items()}
            walked["required"] = list(fields)
            walked["additionalProperties"] = False
        elif node.get("type") == "object":
            has_free_keys = True
        return walked

    walked = walk(schema)
    return (schema, False) if has_free_keys else (walked, True)


def with_json_instruction(
    messages: Sequence[Message], schema: dict[str, Any]
) -> tuple[Message, ...]:
    """Return the messages with the schema in words, for servers that do not enforce schemas."""
    instruction = (
        "Reply with one JSON object and nothing else, no explanation around it. "
        f"It has to be valid against this JSON Schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )
    *before, last = messages
    if last.role == "user":
        return (*before, Message("user", f"{last.content}\n\n{instruction}"))
    return (*messages, Message("user", instruction))


def repair_messages(messages: Sequence[Message], reply: str, complaint: str) -> tuple[Message, ...]:
    """Return the messages of the one further request after an invalid reply."""
    excerpt = reply[:REPAIR_EXCERPT] or "(nothing)"
    instruction = (
        f"That reply cannot be used: {complaint}. Give the whole reply again, corrected, as one "
        "JSON object of the form that was asked for."
    )
    return (*messages, Message("assistant", excerpt), Message("user", instruction))


def _candidates(text: str) -> Iterator[dict[str, Any]]:
    """Yield every JSON object in a reply, the likeliest first."""
    plain, end = text[:LONGEST_REPLY], 0
    for _ in range(MOST_OBJECTS):
        if (start := plain.find("{", end)) < 0:
            return
        value, end = value_in(plain, start) or (None, start + 1)
        if isinstance(value, dict):
            yield value


def _error_message(error: ValidationError) -> str:
    """Return the problems by field, without the values, which the model sees in its reply."""
    problems = error.errors(include_url=False, include_input=False)[:5]
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'the object'}: {one['msg']}"
        for one in problems
    )
