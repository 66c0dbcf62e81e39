"""How options that several commands share are read: lists, places, and an environment's data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ldm.errors import LdmError

# How LDM² decides (`ldm.policy.PolicyOptions`), for the commands that let it decide.
DecisionMode = Annotated[
    Literal["pooled", "per-batch"] | None,
    typer.Option(help="One process over all batch memories, or one a batch. Default: pooled."),
]
TuplesShown = Annotated[
    int | None,
    typer.Option("--k", min=1, help="Tuples recalled, with a vote: shown; default 5, offline 60."),
]
HistoryShown = Annotated[
    Literal["full", "summary", "actions", "none"] | None,
    typer.Option(help="What of the history a decision sees. Default: full."),
]
RankHistory = Annotated[
    bool | None,
    typer.Option(
        "--rank-history/--no-rank-history",
        help="Rank tuples by their history, too, if it has words.",
    ),
]
CandidatesFrom = Annotated[
    Literal["none", "vote"] | None,
    typer.Option(help="Show the model what the recalls vote for. Default: none."),
]
ClassifiedBy = Annotated[
    Literal["embedding", "llm"] | None,
    typer.Option(help="Who finds a state's types in the indices. Default: embedding."),
]
ShowAdmissible = Annotated[
    bool | None,
    typer.Option(
        "--show-admissible/--hide-admissible",
        help="Whether the environment lists the possible actions. standard, react and the like "
        "show them with --set admissible=true only.",
    ),
]


@dataclass(frozen=True, slots=True)
class Shipped:
    """The splits of an environment that need no data, to explore and to evaluate.

    why: what is missing for the others.
    """

    explore: str
    test: str
    why: str = ""


#: Where an environment's data lie, if --data does not say it; and the splits that need no data.
DATA_VARIABLE = {"alfworld": "ALFWORLD_DATA", "webshop": "WEBSHOP_DATA"}
SHIPPED = {
    "alfworld": Shipped("demo_explore", "demo_test"),
    "webshop": Shipped("demo_train", "demo_test"),
}
#: The split of a published list of tasks, in environments that play one.
STORED = {"textcraft": "stored"}


def said(**options: Any) -> dict[str, str]:
    """The options that were given, as `--set` would have them."""
    return {name: str(value) for name, value in options.items() if value is not None}


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


def stored_list(env: str, tasks: str | None, split: str | None) -> tuple[str, str] | None:
    """(file, split) where --tasks names a published list, JSONL; else None.

    Raises LdmError where `env` plays no such list, or where `split` is no split of it.
    """
    if tasks is None or not tasks.endswith(".jsonl"):
        return None
    if env not in STORED:
        raise LdmError(
            f"{tasks} is a published list of tasks, which {env or 'no environment named'} plays.",
            f"Use --env {' or '.join(STORED)}; or name task ids: a,b or a text file.",
        )
    stored = STORED[env]
    if split is not None and not split.startswith(stored):
        raise LdmError(
            f"{tasks} is a published list of tasks, but --split {split} is not played from it.",
            f"Leave --split out, or give {stored} or a split of {env} that begins so.",
        )
    return str(Path(tasks).expanduser().absolute()), stored


def memory_generations(text: str | None) -> list[int | None]:
    """The memory generations of a comma list, in its order; None is the newest."""
    found: list[int | None] = []
    for name in listed_names(text or "newest"):
        if name != "newest" and not name.isdecimal():
            raise LdmError(
                f"{name!r} is no generation.", "Give numbers, or newest: --generation 0,newest."
            )
        found.append(None if name == "newest" else int(name))
    return found or [None]


def full_location(memory: str) -> str:
    """The memory's place, so that a run can be resumed from any directory."""
    return memory if "://" in memory else str(Path(memory).expanduser().absolute())


def one_environment(memory: str, env: str = "") -> str:
    """The environment asked for, or the only one that the memory holds; LdmError for several."""
    from ldm.memory import environments

    if env:
        return env
    found = environments(memory)
    if len(found) != 1:
        raise LdmError(
            f"{memory} holds {len(found)} environments: {', '.join(found) or 'none'}.",
            "Name one with --env." if found else "Make a memory with `ldm build-memory DATA`.",
        )
    return found[0]


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
