"""Tokens of clients and the scopes that they stand for."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ldm.errors import LdmError
from ldm.memory.filters import FIELDS
from ldm.text import read_bytes

#: The fewest characters of a token: fewer can be guessed.
SHORTEST = 16
_FORM = TypeAdapter(dict[str, dict[str, str]])


@dataclass(frozen=True)
class Tokens:
    """Token → scope. Without any, everybody who reaches the server is trusted."""

    scopes: Mapping[bytes, Mapping[str, str]]

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """Read a JSON object of tokens with their scopes; raise LdmError if it is not one."""
        remedy = 'Write {"TOKEN": {"tenant": "a"}}, with {} for a token without limits.'
        try:
            scopes = _FORM.validate_json(read_bytes(path), strict=True)
        except ValidationError as error:
            problem = error.errors(include_input=False, include_context=False)[0]["msg"]
            raise LdmError(f"{path} holds no tokens: {problem}.", remedy) from None
        if any(len(token) < SHORTEST for token in scopes):
            raise LdmError(f"{path} has a token of fewer than {SHORTEST} characters.", remedy)
        if not scopes:
            raise LdmError(f"{path} holds no token.", remedy)
        if reserved := sorted({name for one in scopes.values() for name in one} & {*FIELDS}):
            raise LdmError(f"{path} has a scope named {reserved[0]!r}.", "Choose another name.")
        return cls({token.encode(): scope for token, scope in scopes.items()})

    @property
    def names(self) -> frozenset[str]:
        """The names that scopes use."""
        return frozenset(name for scope in self.scopes.values() for name in scope)

    def scope(self, token: str) -> Mapping[str, str] | None:
        """Return the scope of a token, None if it is unknown, in a time that does not tell."""
        if not self.scopes:
            return {}
        given, scope = token.encode("utf-8", "replace"), None
        for known, value in self.scopes.items():
            if hmac.compare_digest(known, given):
                scope = value
        return scope
