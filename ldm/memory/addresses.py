"""Locations of memories: directories, or addresses of Chroma servers without secrets."""

from __future__ import annotations

from urllib.parse import urlsplit

from ldm.errors import MemoryStoreError
from ldm.text import bare_url, guard, url_secrets

#: Chroma's own variables for credentials, and for the way to send them.
PROVIDER, CREDENTIALS = "CHROMA_CLIENT_AUTH_PROVIDER", "CHROMA_CLIENT_AUTH_CREDENTIALS"
BY_TOKEN = "chromadb.auth.token_authn.TokenAuthClientProvider"  # noqa: S105 - a class
BY_PASSWORD = "chromadb.auth.basic_authn.BasicAuthClientProvider"  # noqa: S105 - a class


def is_server(location: str) -> bool:
    """Return whether a memory location is the address of a Chroma server.

    Raises MemoryStoreError if the address has a user, a password, a query or a path, because
    locations are shown and recorded.
    """
    if not location.lower().startswith(("http://", "https://")):
        return False
    try:
        parts = urlsplit(location)
        plain = "@" not in parts.netloc and not parts.query and not parts.fragment
    except ValueError:  # not an address, which opening it will report
        parts, plain = urlsplit(""), not set("@?#") & set(location)
    if not plain:
        guard(url_secrets(location))
        raise MemoryStoreError(
            f"The address of the memory ({bare_url(location)}) carries more than host and "
            "port, such as a password: it would be shown and recorded.",
            f"Leave that out. {let_in()}",
        )
    if parts.path not in ("", "/"):
        raise MemoryStoreError(
            f"The address of the memory ({location}) has a path, {parts.path}, and a Chroma server "
            "has none.",
            f"Use {parts.scheme}://{parts.netloc}.",
        )
    return True


def let_in() -> str:
    """Return the remedy for missing credentials."""
    return (
        f"Set {PROVIDER}={BY_TOKEN} and {CREDENTIALS} to its token; or the former to {BY_PASSWORD} "
        "and the latter to user:password."
    )
