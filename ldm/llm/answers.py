"""What a server's response says: a reply with its thoughts, or a fault, in each server's words.

Whatever is known of how servers differ in their responses stands here, and of how they differ in
what they accept in `capabilities.py`.
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ldm.llm.calls import Request, ServerReply
from ldm.llm.capabilities import WORDS, Capabilities
from ldm.llm.meter import prompt_guess
from ldm.text import redacted, value_in
from ldm.types import Usage, encodable

#: Names of the parts of a reply in which models think.
_NAME = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad)"
#: The beginning and the end of thoughts; a word in brackets may be an action's argument, so only
#: Mistral's capitals count there.
_MARKS = re.compile(
    rf"(?P<open>(?i:<{_NAME}>|◁think▷|<\|(?:begin_of_thought|start_thinking)\|>|<unused94>thought)"
    r"|(?<!\w)\[THINK\]|(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)[^<]*<\|message\|>"
    r"|<\|channel>thought)"
    rf"|(?P<close>(?i:</{_NAME}>|◁/think▷|<\|(?:end_of_thought|end_thinking)\|>|<unused95>)"
    r"|\[/THINK\]|(?:<\|start\|>assistant)?<\|channel\|>final[^<]*<\|message\|>|<channel\|>)"
)
#: Fields of a message that hold thoughts.
THOUGHTS = ("reasoning_content", "reasoning")

_BOUND = re.compile(r"max_(?:completion_|new_|output_)?tokens", re.IGNORECASE)
_SIZE = re.compile(r"token|length|long|context|too large", re.IGNORECASE)
_WAIT = re.compile(
    r"(?:try again|retry|wait|reset)\D{0,40}?((?:\d+(?:\.\d+)?\s*(?:ms|h|m|s)[a-z]*\s*)+)",
    re.IGNORECASE,
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|h|m|s)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Fields of an error that repeat the request or only identify it.
_SILENT = frozenset(
    {"input", "ctx", "url", "id", "request_id", "user_id", "provider_name", "@type"}
)
_WAITS = frozenset({"retryDelay", "retry_after", "retry_after_seconds"})
#: Meanings of refusals after which a weaker form of the request may be answered.
FEATURES = ("weaker_form", "no_system", "no_chat")
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
    while leading := WORDS["leading"].match(answer):
        answer = answer[leading.end() :]
    end = WORDS["end"].search(answer)
    return answer if end is None else answer[: end.start()]


def _content(content: Any) -> tuple[str, str]:
    """Return (thoughts, text) of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return "", content
    thoughts: list[str] = []
    texts: list[str] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            inner = next((part[n] for n in ("text", "thinking", "content") if part.get(n)), "")
            thinks = "think" in str(part.get("type")) or "reason" in str(part.get("type"))
            (thoughts if thinks else texts).append("".join(_content(inner)))
    return "".join(thoughts), "".join(texts)


def reply_in(content: Any, request: Request, capabilities: Capabilities) -> ServerReply:
    """Return the reply in a response's JSON, or raise Fault."""
    choices = content.get("choices") if isinstance(content, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    for holder in (content, choice):  # a success that holds an error
        if isinstance(holder, dict) and holder.get("error"):
            raise refusal(_code(holder["error"]), holder, {})
    if not isinstance(choice, dict):
        raise Fault("again", "an answer without choices", final=True, billed=True)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    apart, text = _content(message.get("content"))
    apart += next((_content(message[n])[1] for n in THOUGHTS if message.get(n)), "")
    thoughts, answer = divided(redacted(encodable(text)))
    answer = _trimmed(answer) or str(message.get("refusal") or "")
    if not capabilities.stop:
        answer = _before_stop(answer, request.stop)
    thoughts = "\n".join(filter(None, (redacted(encodable(apart)).strip(), thoughts)))
    usage, estimated = _usage(content.get("usage"), request, thoughts + answer)
    finish = redacted(encodable(str(choice.get("finish_reason") or "")))
    hidden = usage.completion_tokens - len(answer.encode()) - 32  # a token is at least a byte
    thinking = max(hidden, len(thoughts.encode()) // 4, 0)
    return ServerReply(answer, finish, usage, estimated, thoughts, thinking)


def _before_stop(text: str, stop: tuple[str, ...]) -> str:
    """Return the text before the first stop sequence, for servers that accept none."""
    places = [place for place in (text.find(sequence) for sequence in stop) if place >= 0]
    return text[: min(places)] if places else text


def _usage(reported: Any, request: Request, text: str) -> tuple[Usage, bool]:
    """Return the usage of one call, and whether it is estimated because none was reported."""

    def count(table: Any, name: str) -> int | None:
        value = table.get(name) if isinstance(table, Mapping) else None
        return value if isinstance(value, int) and value >= 0 else None

    prompt, completion = count(reported, "prompt_tokens"), count(reported, "completion_tokens")
    if prompt is None or completion is None:
        return Usage(1, prompt_guess(request), 0, len(text.encode()) // 4), True
    details = reported.get("prompt_tokens_details")
    cached = min(prompt, count(details, "cached_tokens") or 0)
    return Usage(1, prompt, cached, completion), False


# Errors


def refusal(status: int, body: object, headers: Mapping[str, str]) -> Fault:
    """Return the fault of a response that is an error, by its status and its words."""
    message = redacted(" ".join(dict.fromkeys(_words(body, 0))))[:LONGEST_MESSAGE]
    message = " ".join(message.split())
    quote = message if len(message) <= QUOTE_LENGTH else message[:QUOTE_LENGTH] + "…"
    what = f"HTTP {status}: {quote}" if quote else f"HTTP {status}"
    wait = retry_after(headers, message)
    if _is_too_long(status, message):
        return Fault("context", what)
    if WORDS["no_money"].search(message) or status == 402:
        return Fault("stop", what)
    if (
        status == 429
        and WORDS["spent"].search(message)
        and wait is None
        and not WORDS["passing"].search(message)
    ):
        return Fault("stop", what)
    if status in (400, 403, 422) and WORDS["moderated"].search(message):
        return Fault("rejected", what)
    if status in (400, 422) or any(WORDS[one].search(message) for one in FEATURES):
        kind: FaultKind = "again" if status >= 500 else "refused"
        kind = "stop" if status in (401, 403, 404) else kind
        return Fault(kind, what, final=status >= 500, billed=status >= 500, message=message)
    if status in (401, 403, 404):
        return Fault("stop", what)
    if status in (408, 409, 425, 429) or status >= 500:
        return Fault(
            "again",
            what,
            down=status in (429, 502, 503, 504, 529),
            retry_after=wait,
            refused=status == 429,
            final=status >= 500,
            billed=status >= 500,
        )
    return Fault("refused", what, message=message)


def _is_too_long(status: int, message: str) -> bool:
    if status == 429:
        return WORDS["always_too_large"].search(message) is not None
    rest = _BOUND.sub("", message)
    is_size = WORDS["too_long"].search(rest) is not None and _SIZE.search(rest) is not None
    return status == 413 or (status in (400, 422, 500) and is_size)


def _code(error: object) -> int:
    """Return the status that an error in a success names, 500 if none."""
    code = error.get("code", error.get("status")) if isinstance(error, Mapping) else None
    code = int(code) if isinstance(code, str) and code.isdigit() else code
    if isinstance(code, int) and 400 <= code < 600:
        return code
    words = " ".join(_words(error, 0))
    return 429 if re.search(r"rate[ _-]?limit|too many requests", words, re.IGNORECASE) else 500


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
            yield encodable(body[:LONGEST_MESSAGE])


def retry_after(headers: Mapping[str, str], message: str = "") -> float | None:
    """Return the seconds to wait by the Retry-After header (seconds or a date) or the message."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers.get("retry-after")
        if value is not None and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
            return float(value)
        if value is not None:
            date = email.utils.parsedate_to_datetime(value)
            return max(0.0, date.timestamp() - time.time())
    except ValueError:
        pass
    if match := _WAIT.search(message):
        return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _PART.findall(match[1]))
    return None
