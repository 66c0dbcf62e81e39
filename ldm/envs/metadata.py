"""Metadata of environment classes, so that no general module has to name an environment.

A class declares it in the attribute `metadata`; without that attribute the defaults apply. The
module for the data is imported only when the data are read.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ldm import registry
from ldm.envs import ENVS, GROUP, EnvironmentBase, load_env
from ldm.episode import NO_CARD
from ldm.errors import LdmError
from ldm.options import ENV_PREFIX
from ldm.types import Card

if TYPE_CHECKING:
    from ldm.envs.download import Progress
    from ldm.records import Problem

#: B of LDM²: trajectories in a batch memory, unless an environment declares another number.
BATCH_SIZE = 50


class DataReport(Protocol):
    """The contents of a data folder."""

    @property
    def problems(self) -> tuple[Problem, ...]: ...
    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        ...

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """A download. compared: whether a checksum was expected. file: "" if there is only one."""

    sha256: str
    compared: bool
    file: str = ""


@dataclass(frozen=True, slots=True)
class DataSource:
    """The published data of an environment.

    module: dotted name of the module that reads them. It has `check` and may have `fetch` and
    `summary`, with the parameters and results of the methods here.
    variable: environment variable for the folder, which becomes the environment's option `data`;
    "" if no folder is needed, in which case `check` also accepts None.
    holds: the contents of the folder, for messages. remedy: what to do if the folder is not set.
    sizes: the values that `fetch` accepts for `size`, the default first, each with what it
    downloads, or the values alone.
    no_download: why there is nothing to download, as a sentence; for modules without `fetch`.
    """

    module: str
    variable: str = ""
    holds: str = "the data"
    remedy: str = ""
    sizes: Mapping[str, str] | Sequence[str] = field(default_factory=dict)
    no_download: str = "These data cannot be downloaded with ldm."

    @property
    def choices(self) -> dict[str, str]:
        """Return the sizes, each with what it downloads, "" where that is not said."""
        return dict(
            self.sizes if isinstance(self.sizes, Mapping) else dict.fromkeys(self.sizes, "")
        )

    def check(self, path: Path | None) -> DataReport:
        """Read all data at `path`; raise LdmError if they are missing."""
        report: DataReport = self._module.check(path)
        return report

    def summary(self, path: Path) -> str:
        """Describe the folder in one line without reading all of it; raise LdmError if invalid."""
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

        size: one of `sizes`; "" is the default. url: replaces the official address. sha256: the
        expected checksums, one per file, separated by commas.
        Raise LdmError if the data cannot be downloaded or a checksum differs.
        """
        fetch = getattr(self._module, "fetch", None)
        if fetch is None:
            raise LdmError(self.no_download, self.remedy)
        chosen = size or next(iter(self.sizes), "")
        downloads: Sequence[Fetched] = fetch(
            destination, size=chosen, url=url, sha256=sha256, progress=progress
        )
        return downloads

    @property
    def place(self) -> str:
        """What `ldm` reads, and which variable names its folder."""
        return f"${self.variable} with {self.holds}" if self.variable else self.holds

    @property
    def _module(self) -> Any:
        return importlib.import_module(self.module)


@dataclass(frozen=True, slots=True)
class ShippedSplits:
    """The splits that need no data: one to explore, and one to evaluate."""

    explore: str
    test: str


@dataclass(frozen=True, slots=True)
class Extra:
    """Packages that an environment needs only for some uses.

    distributions: their names. purpose: what needs them. install: the command that installs them.
    """

    distributions: tuple[str, ...]
    purpose: str
    install: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """What an environment class can declare about itself.

    data: its published data. shipped: the splits to use if those data are missing.
    stored_split: the split of a published list of tasks, which is a file set by the environment's
    option `tasks`; "" if it has no such list. batch_size: B of LDM², trajectories in a batch.
    formats: external formats of recorded files that it imports, name → dotted name of the module
    that reads them (`ldm.envs.formats.Format`). extra: packages needed only for some uses.
    """

    data: DataSource | None = None
    shipped: ShippedSplits | None = None
    stored_split: str = ""
    batch_size: int = BATCH_SIZE
    formats: Mapping[str, str] = field(default_factory=dict)
    extra: Extra | None = None


def metadata_of(env: type[EnvironmentBase]) -> Metadata:
    """Return the metadata of an environment class."""
    return env.metadata or Metadata()


def metadata(name: str) -> Metadata:
    """Return the metadata of the environment called `name`.

    Raise LdmError if there is no such environment.
    """
    return metadata_of(load_env(name))


def card_of(env: type[EnvironmentBase]) -> Card | None:
    """Return the card of an environment class; None if only its instances have one."""
    return env.card if isinstance(env.card, Card) and env.card is not NO_CARD else None


def published_options(name: str, method: str) -> dict[str, str]:
    """Return the environment options that `method` was published with on the environment `name`.

    They have the form of `--set env.NAME=VALUE`. Raise LdmError if there is no such environment.
    """
    card = card_of(load_env(name))
    values = card.published.get(method, {}) if card else {}
    return {
        option.removeprefix(ENV_PREFIX): str(value)
        for option, value in values.items()
        if option.startswith(ENV_PREFIX)
    }


def batch_size(name: str) -> int:
    """Return B for the environment that a record calls `name`; the default if not registered."""
    try:
        return metadata_of(load_env(name, recorded=True)).batch_size
    except LdmError:
        return BATCH_SIZE


def registered() -> tuple[dict[str, type[EnvironmentBase]], dict[str, LdmError]]:
    """Return the registered environments by name, and the errors of those that fail to import."""
    usable: dict[str, type[EnvironmentBase]] = {}
    broken: dict[str, LdmError] = {}
    for name in registry.names(ENVS, GROUP):
        try:
            usable[name] = load_env(name)
        except LdmError as error:
            broken[name] = error
    return usable, broken


def published_list(env: str, tasks: str | None, split: str | None) -> tuple[str, str] | None:
    """Return (file, split) where --tasks names a published list, JSONL; else None.

    Raises LdmError where `env` plays no such list, or where `split` is no split of it.
    """
    if tasks is None or not tasks.endswith(".jsonl"):
        return None
    splits = {name: metadata_of(one).stored_split for name, one in registered()[0].items()}
    playing = {name: stored for name, stored in splits.items() if stored}
    if env not in playing:
        raise LdmError(
            f"{tasks} is a published list of tasks, which {env or 'no environment named'} plays.",
            f"Use --env {' or '.join(playing)}; or name task ids: a,b or a text file.",
        )
    stored = playing[env]
    if split is not None and not split.startswith(stored):
        raise LdmError(
            f"{tasks} is a published list of tasks, but --split {split} is not played from it.",
            f"Leave --split out, or give {stored} or a split of {env} that begins so.",
        )
    return str(Path(tasks).expanduser().absolute()), stored
