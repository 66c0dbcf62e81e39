"""Secrets of this process: a key or a password enters no record, no message and no error.

A service says once what its secrets are. From then on all that is written or printed goes through
`redacted`, whatever the field: servers echo keys in places that nobody foresees.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote, urlsplit

MARK = "[key]"

_lock = threading.Lock()
#: All spellings of all secrets, the longest first.
_spellings: tuple[str, ...] = ()


def guard(secrets: Iterable[str]) -> None:
    """Keep these texts, and the ways in which they may be spelt, out of all records from now on."""
    global _spellings  # noqa: PLW0603 - secrets are the process's, whoever writes
    new = {spelling for secret in secrets for spelling in spellings(secret)}
    with _lock:
        _spellings = tuple(sorted({*_spellings, *new}, key=lambda one: (-len(one), one)))


def spellings(secret: str) -> frozenset[str]:
    """Return how a secret may appear: as it is, quoted, escaped, or in base64; none if it is none.

    Words such as "ollama" or "EMPTY", which servers without keys are given, are no secrets.
    """
    if len(secret) < 16 and not (len(secret) >= 6 and any(map(str.isdigit, secret))):
        return frozenset()
    plain = {secret, unquote(secret), quote(secret, safe="")}
    coded = {base64.b64encode(one.encode("utf-8", "replace")).decode() for one in plain}
    escaped = {repr(one)[1:-1] for one in plain} | {json.dumps(one)[1:-1] for one in plain}
    return frozenset(plain | coded | escaped | {one.rstrip("=") for one in coded})


def url_secrets(url: str) -> tuple[str, ...]:
    """Return what a URL carries that is nobody's business: a password, values of its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url,)
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    own = [parts.password or ""]
    if parts.password:  # as the header says them, together
        name, password = unquote(parts.username or ""), unquote(parts.password)
        own += [f"{parts.username}:{parts.password}", f"{name}:{password}"]
    return (*own, *(value for name, _, value in pairs if "version" not in name))


def bare_url(url: str) -> str:
    """Return scheme, host, port and path of a URL: no user, password or query."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "set, but not a URL"
    if not parts.hostname:
        return "set, but not a URL"
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def redacted(text: str) -> str:
    """Return `text` without any secret."""
    for spelling in _spellings:
        text = text.replace(spelling, MARK)
    return text


def redacted_json(text: str) -> str:
    """Return JSON text without any secret in its strings; unchanged where it holds none."""
    if not any(spelling in text for spelling in _spellings):
        return text
    return json.dumps(_without(json.loads(text)), ensure_ascii=False, separators=(",", ":"))


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {redacted(key): _without(item) for key, item in value.items()}
    return [_without(item) for item in value] if isinstance(value, list) else value
