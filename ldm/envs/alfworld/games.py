"""Read games: the official ones from folders, and our small ones that ship with the package.

An official game is `<data>/json_2.1.1/<split>/<task>/<trial>/game.tw-pddl`, a JSON object with the
keys pddl_domain, grammar, pddl_problem and solvable. Our own are lines of `demo/<split>.jsonl.gz`,
which hold only their differences: all follow the rules of ALFWorld's new grammar.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ldm.envs.alfworld.pddl import TASK, Dialect, dialect_of, goal_of, grammar_flaw
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.text import parse_json, read_bytes
from ldm.types import Task, stable_hash

ENV = "alfworld"
FOLDER = "json_2.1.1"
FILE = "game.tw-pddl"
OFFICIAL_SPLITS = ("train", "valid_seen", "valid_unseen")
#: Games with shipped episodes, games for refinement, games for evaluation; the splits are disjoint.
OWN_SPLITS = ("demo_train", "demo_explore", "demo_test")
KINDS = {
    "pick_and_place_simple": "pick",
    "look_at_obj_in_light": "look",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "pick2",
}
#: The dialect of the new grammar, in which our own games are played.
OWN_DIALECT: Dialect = "move"

_TASK_RULE = re.compile(rf'"({TASK}(?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Game:
    """One game: its name, its task, and the texts that an engine plays.

    id: "<split>/<task folder>/<trial folder>".
    kind: one of the values of KINDS.
    goal: the task as the game prints it.
    domain, grammar: both "" for our own games, which follow the rules of the alfworld package.
    """

    id: str
    kind: str
    goal: str
    problem: str
    domain: str = ""
    grammar: str = ""

    @cached_property
    def dialect(self) -> Dialect:
        """The placing verb of the game's grammar. Raise ValueError if it has neither."""
        return dialect_of(self.grammar) if self.grammar else OWN_DIALECT

    @cached_property
    def digest(self) -> str:
        """A hash of everything that an engine uses."""
        return stable_hash(self.domain, self.grammar, self.goal, self.problem)

    @property
    def task(self) -> Task:
        return Task(self.id, ENV, self.id.split("/", 1)[0], self.goal, self.kind)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A game file that the published set leaves out, and why."""

    file: Path
    reason: str


def kind_of(game_id: str) -> str:
    """Return the kind of a game from its task folder's name, "" if it is unknown."""
    folder = game_id.split("/")[1] if "/" in game_id else game_id
    return KINDS.get(folder.split("-", 1)[0], "")


def data_root(path: Path) -> Path:
    """Return the folder that holds the splits: `path` itself or its json_2.1.1.

    Raise LdmError if there is none.
    """
    for root in (path / FOLDER, path):
        if any((root / split).is_dir() for split in OFFICIAL_SPLITS):
            return root
    problem = "has no" if path.is_dir() else "does not exist, so there is no"
    raise LdmError(
        f"{path} {problem} {FOLDER}/train, valid_seen or valid_unseen.",
        "Name the folder that holds json_2.1.1, or download it: ldm data alfworld --to FOLDER.",
    )


def scan_split(root: Path, split: str) -> Iterator[Game | Skipped | Problem]:
    """Yield each game file of an official split, by name: a game, or why it is not one."""
    for file in sorted((root / split).glob(f"*/*/{FILE}")):
        game_id = file.parent.relative_to(root).as_posix()
        yield read_game(file, game_id)


def read_game(file: Path, game_id: str) -> Game | Skipped | Problem:
    """Return the game in `file`, or why it cannot or must not be played."""
    if "movable" in game_id:
        return Skipped(file, "movable receptacle")
    if "Sliced" in game_id:
        return Skipped(file, "sliced object")
    try:
        data = parse_json(read_bytes(file), str(file))
    except LdmError as error:
        return Problem(str(file), 1, "", error.message)
    if isinstance(data, Problem):
        return data
    if not isinstance(data, dict):
        return Problem(str(file), 1, "", "not a JSON object")
    return _game_from(data, file, game_id)


def _game_from(data: dict[str, Any], file: Path, game_id: str) -> Game | Skipped | Problem:
    for key in ("pddl_domain", "grammar", "pddl_problem"):
        if not isinstance(data.get(key), str):
            return Problem(str(file), 1, key, "not a text" if key in data else "missing")
    if "solvable" not in data:
        return Problem(str(file), 1, "solvable", "missing, so the published set skips the game")
    if not data["solvable"]:
        return Skipped(file, "unsolvable")
    kind = kind_of(game_id)
    if not kind:
        return Problem(str(file), 1, "", f"unknown task kind in the folder name {file.parts[-3]!r}")
    game = Game(
        game_id,
        kind,
        _task_in(data["grammar"]),
        data["pddl_problem"],
        data["pddl_domain"],
        data["grammar"],
    )
    flaw = _flaw(game)
    return Problem(str(file), 1, "grammar", flaw) if flaw else game


def _task_in(grammar: str) -> str:
    """Return the task that a grammar prints; "" if it has none."""
    match = _TASK_RULE.search(grammar)
    text = parse_json(f'"{match.group(1)}"', "") if match else ""
    return goal_of(text) if isinstance(text, str) else ""


def _flaw(game: Game) -> str:
    """Return why a game's grammar cannot or must not be used, "" if it can."""
    if not game.goal:
        return f"has no line {TASK!r}"
    try:
        game.dialect  # noqa: B018 - raises if it has none
    except ValueError as error:
        return str(error)
    return grammar_flaw(game.grammar)


def own_games(split: str) -> list[Game]:
    """Return the games of one of OWN_SPLITS, sorted by id."""
    packed = (Path(__file__).parent / "demo" / f"{split}.jsonl.gz").read_bytes()
    lines = [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]
    return [Game(line["id"], kind_of(line["id"]), line["goal"], line["problem"]) for line in lines]
