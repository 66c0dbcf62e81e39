"""A depot, and a clerk who works in it: what a package of somebody else may add."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.agents import Resources
from ldm.envs.download import RemoteFile
from ldm.envs.metadata import DataCheck, DataSource, Extra, Metadata, ShippedSplits
from ldm.episode import Agent, Environment, EnvironmentBase, Episode
from ldm.errors import LdmError
from ldm.reporting import Branch, Findings, Measure, Reporting, TaskTree
from ldm.types import Card, Step, Task, TimeStep, Trajectory


@dataclass(frozen=True, slots=True)
class DepotOptions:
    data: str | None = None


class Depot(EnvironmentBase):
    """Fetching crates."""

    card = Card("depot", "Fetch the crate.", ("fetch",), published={"clerk": {"patience": 7}})
    sizes = {"few": "2 crates", "many": "4 crates"}  # noqa: RUF012
    metadata = Metadata(
        data=DataSource(__name__, "DEPOT_DATA", "crates.txt", "Buy some crates.", sizes),
        shipped=ShippedSplits("demo_learn", "demo_try"),
        batch_size=2,
        extra=Extra(("crane-driver",), "high shelves", "pip install crane-driver"),
    )
    default_split = "try"
    train_splits = ("learn", "demo_learn")
    Options = DepotOptions
    options: DepotOptions

    def protocol(self) -> dict[str, Any]:
        return {"environment": "depot"}

    def tasks(self, split: str) -> Sequence[Task]:
        if not split.startswith("demo_") and not self.options.data:
            raise LdmError(f"depot needs data for {split}.", "Get some.")
        return [Task(f"{split}/{n}", "depot", split, f"crate {n}", "crate") for n in range(3)]

    def reset(self, task: Task) -> TimeStep:
        return TimeStep("You are in the depot.", admissible=("fetch",))

    def step(self, action: str) -> TimeStep:
        done = action == "fetch"
        return TimeStep("There.", float(done), done, ("fetch",), valid=done)

    def fork(self) -> Environment:
        return type(self)(self.options)


FILES = {"few": (RemoteFile("http://depot.example/few", "crates.txt"),)}


def check(path: Path) -> DataCheck:
    crates = (path / "crates.txt").read_text().split()
    return DataCheck("depot", path, facts={"crates": len(crates)})


def stack(count: int = 1) -> None:
    """Stack crates."""
    print("crate " * count)  # noqa: T201 - a command


SUFFIXES, SIGN, ENV = (".jsonl",), '"slip"', "depot"


def detect(line: dict[str, Any]) -> bool:
    return "slip" in line


def parse(line: dict[str, Any], file: str, number: int) -> Trajectory:
    task = Task(f"learn/{number}", "depot", "learn", line["slip"], "crate")
    return Trajectory(task, "Start.", (Step("fetch", "There.", 1.0),), 1.0, True, "human")


@dataclass(frozen=True, slots=True)
class ClerkOptions:
    patience: int | None = None


class Clerk(Agent):
    """Fetches at once."""

    name = "clerk"
    paper = "a shop floor"
    Options = ClerkOptions
    reporting = Reporting(
        (Measure("haste", "how soon it fetched", lambda result: 1 / result.env_steps),),
        lambda results: Findings(("Nobody was hurt.",), {"hurt": 0}),
        lambda result: TaskTree({"parts": "1"}, "undivided", (Branch(0, result.task.goal),)),
    )

    def __init__(self, options: ClerkOptions, resources: Resources) -> None:
        self.options = options

    def budget(self, card: Card) -> int:
        return self.options.patience or int(card.published[self.name]["patience"])

    def solve(self, episode: Episode) -> None:
        episode.note("budget", steps=episode.budget)
        with episode.trial():
            episode.act("fetch")
