"""What an environment's class says about itself, so that no other module has to name it.

A class says it in one attribute, `metadata`; one without it has the defaults. The data's module is
imported only when the data are looked at.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ldm import registry
from ldm.envs import ENVS, GROUP, EnvironmentClass, load_env
from ldm.errors import LdmError
from ldm.types import Card

if TYPE_CHECKING:
    from ldm.envs.download import Progress
    from ldm.records import Problem

#: B of LDM²: trajectories in a batch memory, where an environment does not say otherwise.
BATCH_SIZE = 50
#: How `Card.published` marks an option that is the environment's.
ENV_PREFIX = "env."


class DataReport(Protocol):
    """What a data folder holds."""

    @property
    def problems(self) -> tuple[Problem, ...]: ...
    def lines(self) -> Iterator[str]:
        """Yield the report in words."""
        ...

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """A download. compared: whether a checksum was expected. file: "" where there is only one."""

    sha256: str
    compared: bool
    file: str = ""


@dataclass(frozen=True, slots=True)
class DataSource:
    """The published data of an environment.

    module: dotted name of the module that knows them. It has `check`; it may have `fetch` and
    `summary`; they take and return what the methods here do.
    variable: environment variable that names the folder, which becomes the environment's option
    `data`; "" where no folder is needed, and `check` then takes None as well.
    holds: what the folder holds, for messages. remedy: what to do where the folder is not known.
    sizes: what `fetch` can be asked for, the default first.
    """

    module: str
    variable: str = ""
    holds: str = "the data"
    remedy: str = ""
    sizes: tuple[str, ...] = ()

    def check(self, path: Path | None) -> DataReport:
        """Read all data at `path`. Raises LdmError where they are not there."""
        report: DataReport = self._module.check(path)
        return report

    def summary(self, path: Path) -> str:
        """Describe the folder in a line, without reading it all. Raises LdmError if it is wrong."""
        summary = getattr(self._module, "summary", str)
        return str(summary(path))

    def fetch(
        self,
        destination: Path,
        *,
        size: str = "",
        url: str = "",
        sha256: str = "",
        progress: Progress | None = None,
    ) -> Sequence[Fetched]:
        """Download the data into `destination`; an interrupted download is resumed.

        size: one of `sizes`; "" is the default. url: in place of the official address. sha256: the
        expected checksums, one a file, separated by commas.
        Raises LdmError where they cannot be downloaded, or are not what was expected.
        """
        fetch = getattr(self._module, "fetch", None)
        if fetch is None:
            raise LdmError("These data cannot be downloaded by ldm.", self.remedy)
        chosen = size or next(iter(self.sizes), "")
        downloads: Sequence[Fetched] = fetch(
            destination, size=chosen, url=url, sha256=sha256, progress=progress
        )
        return downloads

    @property
    def _module(self) -> Any:
        return importlib.import_module(self.module)


@dataclass(frozen=True, slots=True)
class ShippedSplits:
    """The splits that need no data: one to explore, one to evaluate."""

    explore: str
    test: str


@dataclass(frozen=True, slots=True)
class Extra:
    """Packages that only some uses of an environment need.

    distributions: their names. purpose: what needs them. install: the command that installs them.
    """

    distributions: tuple[str, ...]
    purpose: str
    install: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """What an environment class may say about itself.

    data: its published data. shipped: the splits to use where they are missing.
    stored_split: the split of a published list of tasks, which is a file named by the environment's
    option `tasks`; "" where it plays no such list. batch_size: B of LDM², trajectories in a batch.
    formats: recorded-file formats of others that it imports, name → dotted name of the module that
    reads them (`ldm.envs.formats.Format`). extra: packages that some uses of it need.
    """

    data: DataSource | None = None
    shipped: ShippedSplits | None = None
    stored_split: str = ""
    batch_size: int = BATCH_SIZE
    formats: Mapping[str, str] = field(default_factory=dict)
    extra: Extra | None = None


def metadata_of(env: EnvironmentClass) -> Metadata:
    """Return what an environment class says about itself."""
    own: Metadata = getattr(env, "metadata", Metadata())
    return own


def metadata(name: str) -> Metadata:
    """Return what the environment called `name` says about itself.

    Raises LdmError where there is no such environment.
    """
    return metadata_of(load_env(name))


def card_of(env: EnvironmentClass) -> Card | None:
    """Return the card of an environment class; None where only its instances have one."""
    card = getattr(env, "card", None)
    return card if isinstance(card, Card) else None


def published_options(name: str, method: str) -> dict[str, str]:
    """Return the environment options that `method` was published with on the environment `name`.

    As `--set env.NAME=VALUE` would have them. Raises LdmError where there is no such environment.
    """
    card = card_of(load_env(name))
    values = card.published.get(method, {}) if card else {}
    return {
        option.removeprefix(ENV_PREFIX): str(value)
        for option, value in values.items()
        if option.startswith(ENV_PREFIX)
    }


def batch_size(name: str) -> int:
    """Return B for the environment called `name`; the default where nobody knows it."""
    try:
        return metadata(name).batch_size
    except LdmError:
        return BATCH_SIZE


def registered() -> tuple[dict[str, EnvironmentClass], dict[str, LdmError]]:
    """Return the registered environments by name, and why others cannot be imported."""
    usable: dict[str, EnvironmentClass] = {}
    broken: dict[str, LdmError] = {}
    for name in registry.names(ENVS, GROUP):
        try:
            usable[name] = load_env(name)
        except LdmError as error:
            broken[name] = error
    return usable, broken
