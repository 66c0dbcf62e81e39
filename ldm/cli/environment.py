"""The environment variables for models, data and caches; no other module reads them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.cli import output
from ldm.errors import LdmError
from ldm.run.runtime import Runtime

if TYPE_CHECKING:
    from ldm.llm.service import Connection

#: Folder of the cache for vectors of texts.
EMBEDDINGS = "embeddings"
#: Model options with an environment variable of their own, LDM_LLM and so on.
MODELS = ("llm", "planner_llm", "reasoner_llm")
URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"


def runtime(*, quiet: bool = False) -> Runtime:
    """Return the runtime of a command: variables, and progress on standard error.

    quiet: show neither progress nor messages; results and errors remain.
    """
    cache = cache_folder()
    cached = os.environ.get("LDM_EMBEDDING_CACHE", "") != "off"
    speaking = Runtime(message=output.say, stages=output.stages, episodes=output.episodes)
    return replace(
        Runtime() if quiet else speaking,
        ray_address=os.environ.get("RAY_ADDRESS", "").strip() or "local",
        server=connection,
        data=data_folder,
        cache=cache,
        embeddings=cache / EMBEDDINGS if cached else None,
    )


def cache_folder() -> Path:
    """Return the folder for data that ldm can recreate."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ldm"


def data_folder(env: str) -> str | None:
    """Return the data folder of environment `env`, or None if its variable is not set."""
    from ldm.envs.metadata import metadata

    source = metadata(env).data
    return _folder(source.variable) if source else None


def data_of_format(name: str) -> str | None:
    """Return the data folder from which pages of a recorded format can be rebuilt, if known."""
    from ldm.envs.formats import data_variable

    return _folder(data_variable(name))


def _folder(variable: str) -> str | None:
    folder = os.environ.get(variable) if variable else None
    return str(Path(folder).expanduser().absolute()) if folder else None


def model_names() -> dict[str, str]:
    """Return the model options that environment variables set."""
    names = {option: os.environ.get(f"LDM_{option.upper()}", "").strip() for option in MODELS}
    return {option: name for option, name in names.items() if name}


def connection() -> Connection:
    """Return the model server that the environment variables name.

    Raises LdmError if they name none, or if a value cannot be sent.
    """
    from ldm.llm.service import Connection

    url, key = os.environ.get(URL, "").strip(), os.environ.get(KEY, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise LdmError(
            f"{KEY} holds a character that no key has: a blank, a line break or a letter that is "
            "not ASCII.",
            "Set it again; it may have been pasted with something around it.",
        )
    if not url and not key:
        raise LdmError(
            f"No model service is configured: neither {URL} nor {KEY} is set.",
            f"Set {KEY} for OpenAI, or {URL} for any other server, e.g. http://127.0.0.1:11434/v1.",
        )
    server = Connection(url, key)
    if url and not server.display_url.startswith(("http://", "https://")):
        raise LdmError(f"{URL} is not a URL.", "It looks like http://127.0.0.1:11434/v1.")
    return server
