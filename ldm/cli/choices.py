"""How options that several commands share are read: lists, places, and an environment's data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shipped:
    """The splits of an environment that need no data, to explore and to evaluate. why: what is missing for the others."""

    explore: str
    test: str
    why: str = ""


#: Where an environment's data lie, if --data does not say it; and the splits that need no data.
DATA_VARIABLE = {"alfworld": "ALFWORLD_DATA"}
SHIPPED = {"alfworld": Shipped("demo_explore", "demo_test")}
#: The split of a published list of tasks, in environments that play one.
STORED = {"textcraft": "stored"}


def listed_names(text: str) -> tuple[str, ...]:
    """The parts of a comma list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def listed_ids(text: str) -> tuple[str, ...]:
    """Task ids from a comma list, or from a file with one a line (# starts a comment)."""
    path = Path(text)
    if not path.is_file():
        return listed_names(text)
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def stored_list(env: str | None, tasks: str | None) -> str | None:
    """The file where --tasks names a published list (JSONL) that `env` plays; else None."""
    if env not in STORED or tasks is None or not tasks.endswith(".jsonl"):
        return None
    return str(Path(tasks).expanduser().absolute())


def full_location(memory: str) -> str:
    """The memory's place, so that a run can be resumed from any directory."""
    return memory if "://" in memory else str(Path(memory).expanduser().absolute())


def with_data(env: str, options: dict[str, str]) -> dict[str, str]:
    """The options of `env` with its data, where they are not said and a variable knows them."""
    variable = DATA_VARIABLE.get(env, "")
    if "data" in options or not os.environ.get(variable):
        return options
    return {**options, "data": str(Path(os.environ[variable]).expanduser().absolute())}


def without_data(env: str, options: dict[str, str]) -> Shipped | None:
    """The splits to use where the data of `env` are needed and not known; else None."""
    if env not in SHIPPED or "data" in options:
        return None
    shipped, variable = SHIPPED[env], DATA_VARIABLE[env]
    why = f"No data of {env} is known (--data or ${variable})"
    return Shipped(shipped.explore, shipped.test, why)
