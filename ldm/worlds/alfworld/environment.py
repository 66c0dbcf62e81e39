"""The ALFWorld environment: tasks, texts, dialect and validity on top of an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from ldm.envs._base import ListedEnvironment, unknown_split, unknown_task
from ldm.envs.metadata import declared
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.types import Card, Task, TimeStep, stable_hash
from ldm.worlds.alfworld import games
from ldm.worlds.alfworld.feedback import EngineState, FastEngine
from ldm.worlds.alfworld.games import OWN_SPLITS, Dialect, Game, Skipped, translate

CARD, METADATA = declared(__file__)


@dataclass(frozen=True, slots=True)
class ALFWorldOptions:
    """Options of ALFWorld.

    dialect: "game" uses the verb of the game's grammar; "put" and "move" use that verb in every
    game. Actions with the other verb are always understood.
    feedback: "plain" answers only that nothing happens; "fine" adds the reason (AutoPlan, Table 6).
    """

    data: Annotated[str | None, "Folder with json_2.1.1"] = None
    dialect: Annotated[Literal["game", "put", "move"], "Verb for putting things down"] = "game"
    admissible: Annotated[bool, "List the admissible actions"] = True
    feedback: Annotated[
        Literal["plain", "fine"], "Whether the answer to a refused action gives the reason"
    ] = "plain"


class ALFWorld(ListedEnvironment[tuple[str, str]]):
    """Household tasks in text (Shridhar et al., arXiv 2010.03768).

    Texts are those of the published runners: without the banner, and without the sentence on
    where the agent has arrived. The reward is 1 when the engine reports a win, which ends the task.
    """

    card: Card = CARD
    paper = "ALFWorld, arXiv 2010.03768"
    needs = "nothing for the demo splits; else the games (ldm data alfworld)"
    default_split = "valid_seen"
    train_splits = ("train", "demo_explore", "demo_train")
    splits = (*games.OFFICIAL_SPLITS, *OWN_SPLITS)
    metadata = METADATA
    Options = ALFWorldOptions
    options: ALFWorldOptions
    _playing: Game | None = None
    _now: EngineState

    def __init__(
        self, options: ALFWorldOptions | None = None, engine: FastEngine | None = None
    ) -> None:
        """Create the environment; `engine` replaces ours, to be compared with it."""
        super().__init__(options)
        self._engine = engine or FastEngine()

    def _start(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the room and, on the next line, the task."""
        if self._playing is None or self._playing.id != task.id:
            self._playing = self._find(task)
        self._now = self._engine.start(self._playing)
        return self._answer(games.opening(self._now.feedback))

    def _act(self, action: str) -> TimeStep:
        """Execute an admissible action, in either dialect; any other gets "Nothing happens.".

        With fine feedback, a sentence with the reason may follow.
        """
        if self._playing is None or self._now.won:
            raise RuntimeError("no task is running: call reset first")
        command = translate(action.strip(), self._playing.dialect)
        if command not in self._now.commands:
            why = self._engine.why_not(command) if self.options.feedback == "fine" else ""
            return self._answer(f"{games.NOTHING} {why}".strip(), valid=False)
        self._now = self._engine.step(command)
        return self._answer(games.observation(self._now.feedback))

    def localize(self, text: str) -> str:
        """Return `text` in the current game's dialect, or in the one that the options set."""
        dialect: Dialect | None = self._playing.dialect if self._playing else None
        if self.options.dialect != "game":
            dialect = self.options.dialect
        return translate(text, dialect) if dialect else text

    def fork(self) -> Self:
        """Return a copy in the same state, with an engine of its own."""
        twin = super().fork()
        twin._engine = self._engine.fork()
        return twin

    def close(self) -> None:
        super().close()
        self._engine.close()
        self._playing = None

    def _answer(self, observation: str, *, valid: bool = True) -> TimeStep:
        won, text = self._now.won, self.localize(observation)
        listed = tuple(map(self.localize, self._now.commands)) if self.options.admissible else None
        return TimeStep(text, reward=float(won), done=won, admissible=listed, valid=valid)

    def _games(self, split: str) -> Iterator[tuple[Task, tuple[str, str]]]:
        """Yield the tasks of a split by id, without those not in the published set.

        Each has its digest beside it: the texts of all games together would fill the memory.
        """
        chosen = games.own_games(split) if split in OWN_SPLITS else self._official(split)
        return ((game.task, (game.id, game.digest)) for game in chosen)

    def _digest(self, games: list[tuple[str, str]]) -> str:
        return stable_hash(games)

    def _conditions(self) -> Mapping[str, Any]:
        return {
            "observation": "text",
            "dialect": self.options.dialect,
            "admissible": self.options.admissible,
            "feedback": self.options.feedback,
        }

    def _official(self, split: str) -> Iterator[Game]:
        root, count = self._root(split), 0
        for game in games.scan_split(root, split):
            if isinstance(game, Problem):
                raise _damaged(game)
            if isinstance(game, Game):
                count += 1
                yield game
        if not count:
            raise LdmError(
                f"{root / split} holds no game that can be played.",
                "Check the folder with: ldm data alfworld PATH.",
            )

    def _find(self, task: Task) -> Game:
        split, *below = task.id.split("/")
        if split not in self.splits:
            raise unknown_split("ALFWorld", split, self.splits)
        own = {game.id: game for game in games.own_games(split)} if split in OWN_SPLITS else {}
        if task.id in own:
            return own[task.id]
        if split in OWN_SPLITS or ".." in below:
            raise unknown_task("ALFWorld", task)
        file = self._root(split) / task.id / games.FILE
        if not file.is_file():
            raise LdmError(
                f"The game of task {task.id!r} is not at {file}.", "Check the data path."
            )
        game = games.read_game(file, task.id)
        if isinstance(game, Problem):
            raise _damaged(game)
        if isinstance(game, Skipped):
            raise LdmError(f"{file} is not played: {game.reason}.", "Choose another task.")
        return game

    def _root(self, split: str) -> Path:
        if not self.options.data:
            raise LdmError(
                f"ALFWorld's split {split!r} needs the official games, and no data path is set.",
                "Set ALFWORLD_DATA to the folder that holds json_2.1.1 (download it with: ldm data "
                "alfworld --to FOLDER), or use the split demo_test, which ships with the package.",
            )
        return games.data_root(Path(self.options.data))


def _damaged(problem: Problem) -> LdmError:
    return LdmError(f"{problem}.", "List all such files with: ldm data alfworld PATH.")
