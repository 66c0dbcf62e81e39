"""The ALFWorld environment: tasks, texts, dialect and validity on top of an engine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from ldm.envs.alfworld import texts
from ldm.envs.alfworld.card import CARD
from ldm.envs.alfworld.dialect import DIALECTS, Dialect, translate
from ldm.envs.alfworld.engine import Engine, EngineState
from ldm.envs.alfworld.fast import FastEngine
from ldm.envs.alfworld.games import (
    ENV,
    FILE,
    OFFICIAL_SPLITS,
    OWN_SPLITS,
    Game,
    Skipped,
    data_root,
    own_games,
    read_game,
    scan_split,
)
from ldm.envs.alfworld.official import OfficialEngine
from ldm.envs.metadata import DataSource, Extra, Metadata, ShippedSplits
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.types import Card, Task, TimeStep, stable_hash

#: Increased when the same game yields different texts than before.
VERSION = "1"
Feedback = Literal["plain", "fine", "existence"]


@dataclass(frozen=True, slots=True)
class ALFWorldOptions:
    """Options of ALFWorld.

    dialect: "game" uses the verb of the game's grammar; "put" and "move" use that verb in every
    game. Actions with the other verb are always understood.
    engine: "fast" is ours; "official" is TextWorld's, about a thousand times slower, and needs
    ldm-memory[alfworld]. Both give the same answers, so the engine is not in the protocol.
    feedback: "plain" answers only that nothing happens; "fine" adds the reason (AutoPlan, Table 6),
    "existence" also if an object does not exist, which is ours (both fast engine only).
    """

    data: Annotated[str | None, "Folder with json_2.1.1"] = None
    dialect: Annotated[Literal["game", "put", "move"], "Verb for putting things down"] = "game"
    admissible: Annotated[bool, "List the admissible actions"] = True
    engine: Annotated[Literal["fast", "official"], "Simulator: ours or TextWorld's"] = "fast"
    feedback: Annotated[Feedback, "Whether a refused action is told the reason"] = "plain"


_ENGINES: Mapping[str, Callable[[], Engine]] = {"fast": FastEngine, "official": OfficialEngine}


class ALFWorld(EnvironmentBase):
    """Household tasks in text (Shridhar et al., arXiv 2010.03768).

    Texts are those of the published runners: without the banner, and without the sentence on
    where the agent has arrived. The reward is 1 when the engine reports a win, which ends the task.
    """

    card: Card = CARD
    paper = "ALFWorld, arXiv 2010.03768"
    needs = "nothing for the demo splits; else the games (ldm data get alfworld)"
    default_split = "valid_seen"
    train_splits = ("train", "demo_explore", "demo_train")
    metadata = Metadata(
        data=DataSource(
            "ldm.envs.alfworld.data",
            variable="ALFWORLD_DATA",
            holds="json_2.1.1",
            remedy=(
                "Set it to the folder that holds json_2.1.1; `ldm data get alfworld` downloads it."
            ),
        ),
        shipped=ShippedSplits(explore="demo_explore", test="demo_test"),
        formats={"alfworld-conversations": "ldm.envs.alfworld.conversations"},
        extra=Extra(
            ("alfworld", "fast-downward-textworld", "pyyaml", "textworld"),
            purpose="--engine official",
            install='pip install "ldm-memory[alfworld]"',
        ),
    )
    Options = ALFWorldOptions
    options: ALFWorldOptions

    def __init__(self, options: ALFWorldOptions | None = None) -> None:
        """Create the environment; raise LdmError if an option has an invalid value."""
        self.options = options or ALFWorldOptions()
        if self.options.dialect not in ("game", *DIALECTS):
            raise LdmError(
                f"ALFWorld has no dialect {self.options.dialect!r}.", "Use game, put or move."
            )
        if self.options.engine not in _ENGINES:
            raise LdmError(
                f"ALFWorld has no engine {self.options.engine!r}.", "Use fast or official."
            )
        if self.options.feedback not in get_args(Feedback):
            raise LdmError(
                f"ALFWorld has no feedback {self.options.feedback!r}.",
                f"Use one of {', '.join(get_args(Feedback))}.",
            )
        if self.options.feedback != "plain" and self.options.engine != "fast":
            raise LdmError(
                "The official engine cannot say why an action is not possible.",
                "Use the fast engine, or feedback=plain.",
            )
        self._engine = _ENGINES[self.options.engine]()
        self._own: dict[str, Game] = {}
        self._listed: dict[str, tuple[Task, ...]] = {}
        self._digests: dict[str, str] = {}
        self._game: Game | None = None
        self._now: EngineState | None = None

    def protocol(self) -> Mapping[str, Any]:
        """Return what makes scores comparable: texts, dialect, contents of the splits used."""
        return {
            "environment": ENV,
            "version": VERSION,
            "observation": "text",
            "dialect": self.options.dialect,
            "admissible": self.options.admissible,
            "feedback": self.options.feedback,
            "data": dict(sorted(self._digests.items())),
        }

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split, sorted by id, without those not in the published set.

        Raise LdmError for an unknown split, missing data or a damaged game file.
        """
        if split not in self._listed:
            games = list(self._own_split(split) if split in OWN_SPLITS else self._official(split))
            self._listed[split] = tuple(task for task, _ in games)
            self._digests[split] = stable_hash([(task.id, digest) for task, digest in games])
        return self._listed[split]

    def reset(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the room and, on the next line, the task."""
        self._now = None
        if self._game is None or self._game.id != task.id:
            self._game = self._find(task)
        self._now = self._engine.start(self._game)
        return self._answer(texts.opening(self._now.feedback))

    def step(self, action: str) -> TimeStep:
        """Execute an admissible action, in either dialect; any other gets "Nothing happens.".

        With fine feedback, a sentence with the reason may follow.
        """
        if self._game is None or self._now is None or self._now.won:
            raise RuntimeError("no task is running: call reset first")
        command = translate(action.strip(), self._game.dialect)
        if command not in self._now.commands:
            return self._answer(f"{texts.NOTHING} {self._why_not(command)}".strip(), valid=False)
        self._now = self._engine.step(command)
        return self._answer(texts.observation(self._now.feedback))

    def localize(self, text: str) -> str:
        """Return `text` in the current game's dialect, or in the one that the options set."""
        dialect = self._dialect()
        return translate(text, dialect) if dialect else text

    def fork(self) -> ALFWorld:
        """Return a copy in the same state. Raise ForkUnsupported with the official engine."""
        twin = copy.copy(self)
        twin._engine = self._engine.fork()
        return twin

    def close(self) -> None:
        self._engine.close()
        self._game = self._now = None

    def _dialect(self) -> Dialect | None:
        if self.options.dialect != "game":
            return self.options.dialect
        return self._game.dialect if self._game else None

    def _answer(self, observation: str, *, valid: bool = True) -> TimeStep:
        assert self._now is not None  # noqa: S101 - set by both callers
        won = self._now.won
        return TimeStep(
            observation=self.localize(observation),
            reward=1.0 if won else 0.0,
            done=won,
            admissible=self._listed_commands(self._now.commands),
            valid=valid,
        )

    def _why_not(self, command: str) -> str:
        if self.options.feedback == "plain":
            return ""
        existence = self.options.feedback == "existence"
        return self._engine.why_not(command, existence=existence)

    def _listed_commands(self, commands: tuple[str, ...]) -> tuple[str, ...] | None:
        if not self.options.admissible:
            return None
        if self.options.dialect == "game":
            return commands
        return tuple(self.localize(command) for command in commands)

    def _own_split(self, split: str) -> list[tuple[Task, str]]:
        games = own_games(split)
        self._own.update((game.id, game) for game in games)
        return [(game.task, game.digest) for game in games]

    def _official(self, split: str) -> list[tuple[Task, str]]:
        root = self._root(split)
        games = []
        for game in scan_split(root, split):
            if isinstance(game, Problem):
                raise _damaged(game)
            if not isinstance(game, Skipped):
                games.append((game.task, game.digest))
        if not games:
            raise LdmError(
                f"{root / split} holds no game that can be played.",
                "Check the folder with: ldm data check alfworld PATH.",
            )
        return games

    def _find(self, task: Task) -> Game:
        split = task.id.split("/", 1)[0]
        if split in OWN_SPLITS:
            if task.id not in self._own:
                self._own_split(split)
            if task.id not in self._own:
                raise LdmError(
                    f"ALFWorld has no task {task.id!r}.", f"Use a task of the split {split}."
                )
            return self._own[task.id]
        file = self._root(split) / task.id / FILE
        if not file.is_file():
            raise LdmError(
                f"The game of task {task.id!r} is not at {file}.", "Check the data path."
            )
        game = read_game(file, task.id)
        if isinstance(game, Problem):
            raise _damaged(game)
        if isinstance(game, Skipped):
            raise LdmError(f"{file} is not played: {game.reason}.", "Choose another task.")
        return game

    def _root(self, split: str) -> Path:
        if split not in OFFICIAL_SPLITS:
            known = ", ".join((*OFFICIAL_SPLITS, *OWN_SPLITS))
            raise LdmError(f"ALFWorld has no split {split!r}.", f"Known splits: {known}.")
        if not self.options.data:
            raise LdmError(
                f"ALFWorld's split {split!r} needs the official games, and no data path is set.",
                "Set ALFWORLD_DATA to the folder that holds json_2.1.1 (download it with: ldm data "
                "get alfworld), or use the split demo_test, which ships with the package.",
            )
        return data_root(Path(self.options.data))


def _damaged(problem: Problem) -> LdmError:
    return LdmError(f"{problem}.", "List all such files with: ldm data check alfworld PATH.")
