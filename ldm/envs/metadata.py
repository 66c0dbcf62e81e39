"""Declarations of environment classes, so that no general module names one.

A class declares it in the attribute `metadata`; without that attribute the defaults apply. The
module for the data is imported only when the data are read.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from ldm import registry
from ldm.envs import GROUP, EnvironmentBase, load_env
from ldm.envs._base import facts
from ldm.episode import NO_CARD
from ldm.errors import LdmError
from ldm.records import Problem, plain
from ldm.text import counted
from ldm.types import Card

if TYPE_CHECKING:
    from ldm.envs.download import Progress, RemoteFile

#: B of LDM²: trajectories in a batch memory, unless an environment declares another number.
BATCH_SIZE = 50


@dataclass(frozen=True, slots=True)
class DataCheck:
    """The contents of an environment's data.

    splits: split → kind → number of tasks. facts: other figures and names, as JSON values.
    """

    env: str
    path: Path | None = None
    splits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        values: dict[str, Any] = plain(self)
        return {**values.pop("facts"), **values}


@dataclass(frozen=True, slots=True)
class DataSource:
    """The published data of an environment.

    module: dotted name of the module that reads them. It has `check(path) -> DataCheck`, and may
    have `files(path)`, which returns the files of a folder and raises LdmError if it is not usable,
    and `FILES`, which maps each size to the `RemoteFile`s that are downloaded.
    variable: environment variable for the folder, which becomes the environment's option `data`;
    "" if no folder is needed, in which case `check` also accepts None.
    holds: the contents of the folder, for messages. remedy: what to do if the folder is not set.
    sizes: size → what it downloads, the default first; {} if there is only one.
    """

    module: str
    variable: str = ""
    holds: str = "the data"
    remedy: str = ""
    sizes: Mapping[str, str] = field(default_factory=dict)

    def check(self, path: Path | None) -> DataCheck:
        """Read all data at `path`; raise LdmError if they are missing."""
        report: DataCheck = self._module.check(path)
        return report

    def summary(self, path: Path) -> str:
        """Describe a folder in one line without reading its files; raise LdmError if invalid."""
        if not hasattr(self._module, "files"):
            return str(path)
        files = list(self._module.files(path))
        size = sum(file.stat().st_size for file in files) / 1e6
        return f"{path}: {counted(len(files), 'file')}, {size:.1f} MB"

    def fetch(
        self, destination: Path, size: str = "", progress: Progress | None = None
    ) -> list[tuple[RemoteFile, str]]:
        """Download the files of a size into `destination`; return each with its SHA-256.

        size: "" is the default. Raise LdmError if there is nothing to download, or that fails.
        """
        from ldm.envs.download import fetch_all

        files = getattr(self._module, "FILES", {}).get(size or next(iter(self.sizes), ""))
        if files is None:
            raise LdmError("There is nothing to download.", self.remedy)
        return fetch_all(files, destination, progress)

    @property
    def place(self) -> str:
        """The data to provide, and the variable that names their folder."""
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
    """Packages that an environment needs for some uses only.

    distributions: their names. purpose: the use. install: the command that installs them.
    """

    distributions: tuple[str, ...]
    purpose: str
    install: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """The optional declarations of an environment class.

    data: its published data. shipped: the splits to use if those data are missing.
    batch_size: B of LDM², trajectories in a batch. extra: packages needed for some uses only.
    gymnasium: further ids there, such as another package's, with the split and kind of their tasks.
    """

    data: DataSource | None = None
    shipped: ShippedSplits | None = None
    batch_size: int = BATCH_SIZE
    extra: Extra | None = None
    gymnasium: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def declared(module: str) -> tuple[Card, Metadata]:
    """Return the card and the metadata in environment.toml, beside the file of a module."""
    parts = facts(module, "environment.toml")
    card = TypeAdapter(Card).validate_python(parts["card"])
    return card, TypeAdapter(Metadata).validate_python(parts["metadata"])


def metadata_of(env: type[EnvironmentBase]) -> Metadata:
    """Return the metadata of an environment class."""
    return env.metadata or Metadata()


def metadata(name: str) -> Metadata:
    """Return the metadata of the environment called `name`; raise LdmError if it is unknown."""
    return metadata_of(load_env(name))


def card_of(env: type[EnvironmentBase]) -> Card | None:
    """Return the card of an environment class; None if only its instances have one."""
    return env.card if isinstance(env.card, Card) and env.card is not NO_CARD else None


def published_options(name: str, method: str) -> dict[str, str]:
    """Return the options of environment `name` that `method` was published with, as texts.

    Raise LdmError if the environment is unknown.
    """
    card = card_of(load_env(name))
    values = card.published.get(method, {}) if card else {}
    return {
        option.removeprefix("env."): str(value)
        for option, value in values.items()
        if option.startswith("env.")
    }


def batch_size(name: str) -> int:
    """Return B for the environment that a record names; the default if it is not registered."""
    try:
        return metadata_of(load_env(name, recorded=True)).batch_size
    except LdmError:
        return BATCH_SIZE


def registered() -> tuple[dict[str, type[EnvironmentBase]], dict[str, LdmError]]:
    """Return the registered environments by name, and the errors of those that fail to import."""
    usable: dict[str, type[EnvironmentBase]] = {}
    broken: dict[str, LdmError] = {}
    for name in registry.names({}, GROUP):
        try:
            usable[name] = load_env(name)
        except LdmError as error:
            broken[name] = error
    return usable, broken
